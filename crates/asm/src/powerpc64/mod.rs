//! 64-bit PowerPC: registers, conventions, encodings; ELFv1 big-endian, ELFv2 of either byte order.
//!
//! The encoders are our own: an instruction is one word, and each has a `const fn` of its fields in
//! `insn`. The two conventions share them and differ in the frame and in how a function is called:
//! see `Convention`. The order of bytes is another matter: see `Flavor`.
//!
//! # Functions and code
//!
//! A call goes to a function as function pointers name it: on ELFv2 the global entry point, which
//! finds its own address in r12; on ELFv1 a descriptor, which holds the entry point and the TOC
//! pointer. Calls therefore save and restore r2, as LLVM's own do at patchpoints. A jump goes to an
//! instruction and leaves r2 alone.
//!
//! # Conditions
//!
//! All condition fields may be live at `anyregcc` patchpoints and in shadows: LLVM's list of
//! preserved registers (`CSR_64_AllRegs`) has cr0 to cr7. So where no field is free, a comparison
//! for equality counts: the difference plus one goes to CTR, and `bdz` branches where that was one.
//! Other comparisons put the field into the link register, which is free there, and back.
//!
//! Sources: Power ISA 3.1B, books I and II (encodings); 64-Bit ELF V2 ABI Specification 1.5, 2.2;
//! 64-bit PowerPC ELF ABI Supplement 1.9, 3.2 (conventions); `PPCCallingConv.td` and
//! `getScratchRegisters` in LLVM (what is free at sites).

mod add;
mod branch;
mod compare;
mod constant;
mod emit;
mod insn;
mod patchable_jump;
mod regs;
mod relocate;

#[cfg(test)]
mod tests;

use alloc::vec::Vec;

use llvm_stackmaps::Endian;
use llvm_stackmaps::addr::{CodeAddr, Len};
use patchpoint_isa::{Arch, RegSet};

use crate::backend::{Backend, Branch, BranchForm, Distance, EncodedCode, EncodingRefusal};
use crate::hole::{BitField, ByteOrder, Run};
use crate::live::{JumpBytes, NoPatchableJump, PatchableJump};
use crate::lower::Lower;
use crate::op::Op;

/// The convention, with all that depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Convention {
    /// With function descriptors.
    V1,
    /// With global and local entry points.
    V2,
}

/// A convention and the order of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Flavor {
    convention: Convention,
    endian: Endian,
}

impl Flavor {
    /// An instruction in memory.
    const fn bytes(self, word: u32) -> [u8; 4] {
        match self.endian {
            Endian::Big => word.to_be_bytes(),
            Endian::Little => word.to_le_bytes(),
        }
    }

    /// The instruction of these bytes.
    const fn word(self, bytes: [u8; 4]) -> u32 {
        match self.endian {
            Endian::Big => u32::from_be_bytes(bytes),
            Endian::Little => u32::from_le_bytes(bytes),
        }
    }

    /// These bits of an instruction.
    const fn field(self, runs: &'static [Run]) -> BitField {
        let order = match self.endian {
            Endian::Big => ByteOrder::Big,
            Endian::Little => ByteOrder::Little,
        };
        BitField { len: 4, order, runs }
    }

    /// Appends an instruction.
    fn put(self, word: u32, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bytes(word));
    }

    /// Whether every processor that runs such code has the instructions of Power ISA 2.07. Nothing
    /// older runs little-endian systems of 64 bits. Big-endian ones are also those of much older
    /// processors, with either convention: the specification of ELFv2 is written for 2.07, but musl
    /// and the BSDs use it without (LLVM's default processor for them is `ppc64`).
    const fn has_isa_2_07(self) -> bool {
        // protection: no-newer-instructions-than-promised
        matches!(self.endian, Endian::Little)
    }
}

impl Convention {
    /// The offset from the stack pointer of the caller's slot for its TOC pointer.
    const fn toc_slot(self) -> i16 {
        match self {
            Self::V1 => 40,
            Self::V2 => 24,
        }
    }
}

/// The PowerPC64 backend of one convention and order of bytes.
#[derive(Debug)]
pub struct PowerPc64(Flavor);

/// ELFv1, big endian.
pub static BIG_V1: PowerPc64 = PowerPc64(Flavor {
    convention: Convention::V1,
    endian: Endian::Big,
});
/// ELFv2, big endian.
pub static BIG_V2: PowerPc64 = PowerPc64(Flavor {
    convention: Convention::V2,
    endian: Endian::Big,
});
/// ELFv2, little endian.
pub static LITTLE: PowerPc64 = PowerPc64(Flavor {
    convention: Convention::V2,
    endian: Endian::Little,
});

impl PowerPc64 {
    /// The backend of an architecture, if that is one of these.
    pub const fn of(arch: Arch) -> Option<&'static Self> {
        match arch {
            Arch::PowerPc64 => Some(&BIG_V1),
            Arch::PowerPc64ElfV2 => Some(&BIG_V2),
            Arch::PowerPc64Le => Some(&LITTLE),
            _ => None,
        }
    }

    /// The bytes of an instruction.
    pub const fn word_bytes(&self, word: u32) -> [u8; 4] {
        self.0.bytes(word)
    }

    /// Appends instructions.
    pub fn put_words(&self, words: &[u32], out: &mut Vec<u8>) {
        for word in words {
            self.0.put(*word, out);
        }
    }

    /// Appends what makes r12 hold a value: at most five instructions.
    pub fn put_r12(&self, value: u64, out: &mut Vec<u8>) {
        constant::load(insn::Gpr(12), value).put(self.0, out);
    }

    /// The `b` from one address to another, if it reaches.
    pub fn jump_between(&self, from: CodeAddr, to: CodeAddr) -> Option<[u8; 4]> {
        insn::b_to(to.distance_from(from)).map(|word| self.0.bytes(word))
    }
}

impl Backend for PowerPc64 {
    fn unit(&self) -> u32 {
        4
    }

    fn emit(&self, op: &Op<'_>, free: RegSet, code: &mut EncodedCode) -> Result<(), EncodingRefusal> {
        emit::Emitter {
            flavor: self.0,
            code,
            free,
        }
        .emit(op)
    }

    fn branch_len(&self, branch: &Branch, form: BranchForm) -> u32 {
        branch::len(branch, form)
    }

    fn reaches(&self, branch: &Branch, form: BranchForm, from: u64, to: u64) -> bool {
        branch::reaches(branch, form, from, to)
    }

    fn put_branch(&self, branch: &Branch, from: u64, to: u64, out: &mut Vec<u8>) {
        branch::put(self.0, branch, from, to, out);
    }

    fn distance(&self, branch: &Branch) -> Option<Distance> {
        branch::hole(self.0, branch)
    }

    fn around_return_offset(&self) -> (Vec<u8>, Vec<u8>) {
        let (mut before, mut behind) = (Vec::new(), Vec::new());
        self.0.put(insn::b(8), &mut before);
        self.0
            .put(insn::load_toc(self.0.convention.toc_slot()), &mut behind);
        (before, behind)
    }

    fn plan_patchable_jump(&self, addr: CodeAddr, len: Len) -> Result<PatchableJump, NoPatchableJump> {
        patchable_jump::plan(addr, len)
    }

    fn reach(&self) -> u64 {
        1 << 25
    }

    fn nop(&self, _: PatchableJump) -> JumpBytes {
        patchable_jump::of_word(self.0, insn::NOP)
    }

    fn jump(&self, patchable_jump: PatchableJump, to: CodeAddr) -> Option<JumpBytes> {
        patchable_jump::jump(self.0, patchable_jump, to)
    }

    fn relocated_bound(&self, _: CodeAddr, bytes: &[u8]) -> u64 {
        relocate::bound(bytes)
    }

    fn relocate(&self, at: CodeAddr, addr: CodeAddr, bytes: &[u8]) -> crate::Result<Vec<u8>> {
        relocate::relocate(self.0, at, addr, bytes)
    }
}
