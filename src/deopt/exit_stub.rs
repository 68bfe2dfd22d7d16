//! The bytes of one exit stub.

use alloc::vec::Vec;

use super::{ExitStubContext, aarch64, host, powerpc64, riscv64, systemz, x86_64};
use crate::addr::{CodeAddr, Len};
use crate::arch::Arch;
use crate::deopt::Result;
use crate::engine::StackAt;

/// What an exit stub does when its handler answers [`resume`](super::Frame::resume).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Resume<'a> {
    /// Goes on at an address: the site's end.
    At(CodeAddr),
    /// Executes the instructions that were at the site before it was patched, moved into the exit
    /// stub, and goes on behind them. A call among them has its return address in the exit stub.
    Original {
        /// Where they were.
        addr: CodeAddr,
        /// All of them; whole instructions.
        bytes: &'a [u8],
    },
}

/// A length that no exit stub of the architecture with this resumption exceeds, in bytes.
#[must_use]
pub fn max_len(arch: Arch, resume: &Resume<'_>) -> Len {
    let len = match arch {
        Arch::X86_64 => x86_64::exit_stub::max_len(resume),
        Arch::AArch64 => aarch64::exit_stub::max_len(resume),
        Arch::SystemZ => systemz::exit_stub::max_len(resume),
        Arch::PowerPc64 | Arch::PowerPc64Le | Arch::PowerPc64ElfV2 => powerpc64::max_len(arch, resume),
        Arch::RiscV64 => riscv64::exit_stub::max_len(resume),
    };
    Len::new(u32::try_from(len).unwrap_or(u32::MAX))
}

/// How the stack of an exit stub with that context differs from that at the site; by ascending
/// offsets.
pub(super) fn stack(arch: Arch, context: &ExitStubContext, capture: u64) -> Vec<StackAt> {
    let at = |(from, lowered, link)| StackAt { from, lowered, link };
    match arch {
        Arch::X86_64 => x86_64::exit_stub::STACK.map(at).to_vec(),
        Arch::AArch64 => aarch64::exit_stub::STACK.map(at).to_vec(),
        Arch::SystemZ => systemz::exit_stub::STACK.map(at).to_vec(),
        Arch::PowerPc64 | Arch::PowerPc64Le | Arch::PowerPc64ElfV2 => {
            let context = &raw const *context as u64;
            powerpc64::stack(arch, context, capture).map(at).to_vec()
        }
        Arch::RiscV64 => riscv64::exit_stub::STACK.map(at).to_vec(),
    }
}

/// The bytes of an exit stub for `at`, where execution enters it. They call with `context`,
/// which must stay where it is while a thread can reach the exit stub or be in it.
///
/// # Errors
/// The original instructions cannot be executed at another address: they do not decode, jump between or read their own
/// bytes, or refer to something out of reach.
pub fn encode(at: CodeAddr, context: &ExitStubContext, resume: Resume<'_>) -> Result<Vec<u8>> {
    encode_calling(capture(), at, context, resume)
}

/// The routine that exit stubs of this process call.
pub(super) fn capture() -> u64 {
    host::capture::address()
}

/// An exit stub that calls this routine.
pub(super) fn encode_calling(
    capture: u64,
    at: CodeAddr,
    context: &ExitStubContext,
    resume: Resume<'_>,
) -> Result<Vec<u8>> {
    let arch = context.site.site().arch;
    let context = &raw const *context as u64;
    match arch {
        Arch::X86_64 => x86_64::exit_stub::assemble(at, context, capture, resume),
        Arch::AArch64 => aarch64::exit_stub::assemble(at, context, capture, resume),
        Arch::SystemZ => systemz::exit_stub::assemble(at, context, capture, resume),
        Arch::PowerPc64 | Arch::PowerPc64Le | Arch::PowerPc64ElfV2 => {
            powerpc64::assemble(arch, at, context, capture, resume)
        }
        Arch::RiscV64 => riscv64::exit_stub::assemble(at, context, capture, resume),
    }
}
