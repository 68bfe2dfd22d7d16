//! AArch64: registers, conventions, encodings.
//!
//! dynasm encodes; what it would panic about (an immediate that does not fit) is decided here
//! before: the types of `imm` can hold only what their instruction can. All instructions have four
//! bytes and are at multiples of four, little endian, and the assembler chooses the shortest
//! sequence it knows for constants and addresses.
//!
//! LLVM keeps x16 and x17 free at patchpoints and stackmaps, and its own call at a patchpoint loses
//! x30. Code reached by `br` here is reached through x16 or x17 wherever those are free, so that a
//! target may start by `bti c`; stubs and exit stubs are not on pages that ask for landing pads,
//! and sites reach stubs directly.
//!
//! Sources: Arm Architecture Reference Manual for A-profile (DDI 0487), chapter C6 (encodings) and
//! B2.2.5 (what may be changed while it is executed); Procedure Call Standard for the Arm 64-bit
//! Architecture (AAPCS64), 6; DWARF for the Arm 64-bit Architecture (AADWARF64), 4.1 (register
//! numbers).

mod address;
mod branch;
mod constant;
mod emit;
mod imm;
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

/// The AArch64 backend.
#[derive(Debug)]
pub struct AArch64;

impl Backend for AArch64 {
    fn unit(&self) -> u32 {
        insn::LEN
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
        1 << 27
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
