//! x86-64: registers, conventions, encodings.
//!
//! The encoder is our own and small: every byte of a site counts, and it emits the shortest form of
//! each addressing mode (no needless REX prefix, displacement only as wide as it must be, a SIB
//! byte for rsp and r12), the same bytes as LLVM's assembler.
//!
//! Sources: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2 (encodings);
//! System V ABI, AMD64 supplement, 3.2 (convention) and figure 3.36 (DWARF numbers).

mod branch;
mod emit;
mod encode;
mod insn;
mod patchable_jump;
mod regs;
mod relocate;

#[cfg(test)]
mod tests;

use alloc::vec::Vec;

use llvm_stackmaps::addr::{CodeAddr, Len};
use patchpoint_isa::RegSet;

use crate::backend::{Backend, Branch, BranchForm, Distance, EncodedCode, EncodingRefusal, Moved, Relocated};
use crate::live::{JumpBytes, NoPatchableJump, PatchableJump};
use crate::lower::Lower;
use crate::op::Op;

/// The x86-64 backend.
#[derive(Debug)]
pub struct X86_64;

impl Backend for X86_64 {
    fn unit(&self) -> u32 {
        1
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

    fn plan_behind_trap(&self, addr: CodeAddr, len: Len) -> Option<PatchableJump> {
        patchable_jump::plan_behind_trap(addr, len)
    }

    fn reach(&self) -> u64 {
        1 << 31
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
        Ok(relocate::relocate(at, addr, bytes)?.into_code())
    }

    fn relocate_for_many(&self, at: CodeAddr, addr: CodeAddr, bytes: &[u8]) -> crate::Result<Relocated> {
        relocate::relocate(at, addr, bytes)
    }

    fn moved(&self, bytes: &[u8]) -> Option<Moved> {
        relocate::moved(bytes)
    }
}
