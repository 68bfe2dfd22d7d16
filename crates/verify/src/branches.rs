//! Direct branches of whole functions: where code of any kind may continue, as its branch
//! instructions say.
//!
//! The checker's decoders know what sequences are made of. A function holds more than that,
//! floating point for example, so this scanner knows only the length of instructions and which of
//! them branch to an address that they name; whatever else is there is passed over.
//!
//! # What is found
//!
//! Jumps, conditional branches, calls, and on RISC-V pairs of `auipc` and `jalr`. Not found are
//! branches through a register or memory: jump tables, computed gotos, landing pads of exceptions.
//!
//! # Cost
//!
//! Linear in the number of bytes. On x86-64 no function is decoded that cannot hold a wanted
//! branch: first every byte is looked at as if a branch started there, which is cheap and finds too
//! many, never too few.
//!
//! Encodings: Arm ARM C4.1.88, Power ISA v3.1 2.4, RISC-V unprivileged ISA 2.5 and 26,
//! z/Architecture Principles of Operation (general instructions, branch-relative), Intel SDM volume
//! 2, appendix A.

use alloc::vec::Vec;

use llvm_stackmaps::addr::CodeAddr;
use patchpoint_isa::Arch;

use super::dispatch::of_arch;

/// A branch to an address that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectBranch {
    /// The address of its instruction.
    pub from: CodeAddr,
    /// The address of its target.
    pub to: CodeAddr,
}

/// Appends the direct branches with a wanted target in the code of a function.
pub fn branches_to(
    arch: Arch,
    addr: CodeAddr,
    code: &[u8],
    wanted: impl Fn(u64) -> bool,
    found: &mut Vec<DirectBranch>,
) {
    let start = addr.get();
    let mut note = |at: usize, to: u64| {
        if wanted(to) {
            found.push(DirectBranch {
                from: CodeAddr::new(start.wrapping_add(at as u64)),
                to: CodeAddr::new(to),
            });
        }
    };
    of_arch!(arch, isa => isa::branches(start, code, &wanted, &mut note));
}

#[cfg(test)]
mod tests;
