//! RISC-V, 64 bits: registers, conventions, encodings.
//!
//! dynasm encodes; what it would panic about (an immediate that does not fit) is decided here
//! before. All instructions here have four bytes but one: where a length is no multiple of four, a
//! `c.nop` fills it, and such lengths exist only where compressed instructions do. Code without
//! them has sites of whole words, and gets none.
//!
//! LLVM makes its call at a patchpoint through ra without saving it, and keeps no other register
//! free: at a shadow nothing is, and at a patchpoint, with `anyregcc` too, what a C call may change
//! and the record does not name. Calls are therefore made only where ra is known to be dead.
//!
//! Sources: The RISC-V Instruction Set Manual, volume I, 2 and 5 (RV64I), 14 (A), 20 and 21 (F, D),
//! 27 (C); RISC-V ELF psABI, 1 (registers, convention) and 4 (DWARF numbers).

mod address;
mod branch;
mod constant;
mod emit;
mod insn;
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

/// The RISC-V backend.
#[derive(Debug)]
pub struct RiscV64;

impl Backend for RiscV64 {
    fn unit(&self) -> u32 {
        insn::UNIT
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
        1 << 20
    }

    fn nop(&self, _: PatchableJump) -> JumpBytes {
        JumpBytes::new(&patchable_jump::NOP)
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
