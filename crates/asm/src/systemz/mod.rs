//! SystemZ (s390x): registers, conventions, encodings.
//!
//! Instructions are those of the z10, LLVM's default processor: besides the base of z/Architecture
//! the long-displacement (z990), extended-immediate (z9-109), FPR-GR-transfer and
//! general-instructions-extension (z10) facilities, which every system that runs 64-bit Linux today
//! has. The newer `laa`, which adds to memory atomically, is not among them: that is a loop of
//! `cs`.
//!
//! Instructions have 2, 4 or 6 bytes and are at even addresses; branches count halfwords.
//! Register 0 is no base: as one it reads as zero. The condition code is free at a patchpoint,
//! which clobbers it as a call does; at a stackmap it may be live, which matters to those only who
//! resume there.
//!
//! From the z196 on LLVM may keep another 32-bit value in the upper half of a register whose lower
//! half is a site's result. The record does not tell, and results are written whole: compile with
//! `-mattr=-high-word`.
//!
//! Sources: z/Architecture Principles of Operation (SA22-7832), chapters 5 (formats) and 7 (general
//! instructions); ELF Application Binary Interface, s390x Supplement, sections 1.1.4 (registers)
//! and 1.2 (calls), table 1.11 (DWARF numbers); for sites `getScratchRegisters` in LLVM's
//! `llvm/lib/Target/SystemZ/SystemZISelLowering.h`.

mod add;
mod atomic;
mod branch;
mod compare;
mod emit;
mod holes;
mod insn;
mod memory;
mod patchable_jump;
mod regs;
mod relocate;

#[cfg(test)]
mod tests;

use alloc::vec::Vec;

use llvm_stackmaps::addr::{CodeAddr, Len};
use patchpoint_isa::RegSet;

use crate::backend::{Backend, Branch, BranchForm, Distance, EncodedCode, EncodingRefusal};
use crate::live::{JumpBytes, NoPatchableJump, PatchableJump};
use crate::lower::Lower;
use crate::op::Op;

/// The SystemZ backend.
#[derive(Debug)]
pub struct SystemZ;

impl Backend for SystemZ {
    fn unit(&self) -> u32 {
        2
    }

    fn emit(&self, op: &Op<'_>, free: RegSet, code: &mut EncodedCode) -> Result<(), EncodingRefusal> {
        emit::Emitter { code, free }.emit(op)
    }

    fn branch_len(&self, branch: &Branch, form: BranchForm) -> u32 {
        branch::len(branch, form)
    }

    fn reaches(&self, branch: &Branch, form: BranchForm, from: u64, to: u64) -> bool {
        branch::reaches(branch, form, from, to)
    }

    fn put_branch(&self, branch: &Branch, from: u64, to: u64, out: &mut Vec<u8>) {
        branch::put(branch, from, to, out);
    }

    fn distance(&self, branch: &Branch) -> Option<Distance> {
        branch::hole(branch)
    }

    fn plan_patchable_jump(&self, addr: CodeAddr, len: Len) -> Result<PatchableJump, NoPatchableJump> {
        patchable_jump::plan(addr, len)
    }

    fn reach(&self) -> u64 {
        1 << 32
    }

    fn nop(&self, _: PatchableJump) -> JumpBytes {
        patchable_jump::nop()
    }

    fn jump(&self, patchable_jump: PatchableJump, to: CodeAddr) -> Option<JumpBytes> {
        patchable_jump::jump(patchable_jump, to)
    }

    fn relocated_bound(&self, addr: CodeAddr, bytes: &[u8]) -> u64 {
        relocate::bound(addr, bytes)
    }

    fn relocate(&self, at: CodeAddr, addr: CodeAddr, bytes: &[u8]) -> crate::Result<Vec<u8>> {
        relocate::relocate(at, addr, bytes)
    }
}
