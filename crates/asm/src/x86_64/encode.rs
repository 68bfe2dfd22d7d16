//! From dynasm's encodings to the shortest ones.
//!
//! dynasm encodes every instruction; what the instructions are is written in [`insn`](super::insn)
//! as in an assembler. It does not know the numbers of registers that are chosen at run time, so it
//! then emits a REX prefix, a SIB byte and a displacement even where they say nothing, and most
//! immediates in full. The macro [`mem!`] chooses the width of the displacement, [`Asm`] drops the
//! rest: bytes in a site are few. The result is what LLVM's assembler emits.

use alloc::vec::Vec;

use dynasmrt::{AssemblyOffset, DynasmApi};

use super::insn::Imm;
use crate::backend::{EncodedCode, PcRelative};
use crate::hole::Hole;
use crate::op::{ValueNumber, Width};

/// A general register, 0 to 15.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gpr(pub(super) u8);

/// A register or memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rm {
    /// A general register.
    Reg(Gpr),
    /// Memory.
    Mem(Mem),
}

/// Memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mem {
    /// `[base + disp]`, where the displacement is the value of that number.
    Base { base: Gpr, disp: i32, number: Option<ValueNumber> },
    /// `[disp]`, sign-extended.
    Low(i32),
    /// At this address, relative to rip.
    Pc(u64),
}

/// Encodes one instruction with a memory operand: `mem!(asm, memory, (mov Rq(n),), ())`.
macro_rules! mem {
    ($asm:expr, $mem:expr, ($($before:tt)*), ($($after:tt)*)) => {
        match $mem.form() {
            $crate::x86_64::encode::MemForm::Base8(base, disp) => {
                dynasm!($asm; .arch x64; $($before)* [BYTE Rq(base) + disp] $($after)*)
            }
            $crate::x86_64::encode::MemForm::Base32(base, disp) => {
                dynasm!($asm; .arch x64; $($before)* [DWORD Rq(base) + disp] $($after)*)
            }
            $crate::x86_64::encode::MemForm::Low(disp) => {
                dynasm!($asm; .arch x64; $($before)* [DWORD disp] $($after)*)
            }
            $crate::x86_64::encode::MemForm::Pc => {
                dynasm!($asm; .arch x64; $($before)* [rip] $($after)*)
            }
        }
    };
}
pub(super) use mem;

/// The forms of a memory operand that dynasm tells apart.
pub(super) enum MemForm {
    Base8(u8, i8),
    Base32(u8, i32),
    Low(i32),
    Pc,
}

impl Mem {
    pub(super) fn form(self) -> MemForm {
        match self {
            Self::Low(disp) => MemForm::Low(disp),
            Self::Pc(_) => MemForm::Pc,
            Self::Base { base, disp, .. } => match i8::try_from(disp) {
                Ok(disp) => MemForm::Base8(base.0, disp),
                Err(_) => MemForm::Base32(base.0, disp),
            },
        }
    }
}

/// Takes one instruction from dynasm.
pub(super) struct Asm<'c> {
    bytes: &'c mut Vec<u8>,
    /// Where distances are noted, and for which operation.
    pc_relative: Option<(&'c mut Vec<PcRelative>, u32)>,
    /// Where it is noted which value a displacement is.
    holes: Option<&'c mut Vec<Hole>>,
    start: usize,
    /// A register operand is spl, bpl, sil or dil, which a REX prefix tells from the high bytes.
    needs_rex: bool,
}

impl<'c> Asm<'c> {
    /// For an instruction without a memory operand.
    pub(super) fn new(bytes: &'c mut Vec<u8>) -> Self {
        let start = bytes.len();
        Self {
            bytes,
            pc_relative: None,
            holes: None,
            start,
            needs_rex: false,
        }
    }

    /// For an instruction with a memory operand.
    pub(super) fn with_mem(code: &'c mut EncodedCode) -> Self {
        let start = code.bytes.len();
        Self {
            bytes: &mut code.bytes,
            pc_relative: Some((&mut code.pc_relative, code.op)),
            holes: Some(&mut code.holes),
            start,
            needs_rex: false,
        }
    }

    /// The instruction has this register as an operand of that width.
    pub(super) fn operand(mut self, reg: Gpr, width: Width) -> Self {
        self.needs_rex |= width == Width::B1 && (4..8).contains(&reg.0);
        self
    }

    /// Changes `op rm, imm` (0x81) to the form with a sign-extended byte (0x83), which dynasm has
    /// for few instructions, where `value` is one byte.
    pub(super) fn shorten_imm(&mut self, width: Width, value: Imm) {
        let full = match width {
            Width::B1 => return,
            Width::B2 => 2,
            Width::B4 | Width::B8 => 4,
        };
        let insn = self.bytes.get_mut(self.start..);
        let insn = insn.expect("an instruction starts where the code ended");
        let opcode = insn.iter_mut().find(|byte| !matches!(byte, 0x66 | 0x40..=0x4f));
        if let (1, Some(opcode)) = (value.len(), opcode.filter(|opcode| **opcode == 0x81)) {
            *opcode = 0x83;
            self.bytes.truncate(self.bytes.len().saturating_sub(full - 1));
        }
    }

    /// Drops a displacement of 0, except for rbp and r13, and the SIB byte, except for rsp and r12
    /// (Intel SDM volume 2, tables 2-2 and 2-3).
    ///
    /// The number of bytes that the displacement keeps.
    fn shorten_address(&mut self, base: Gpr, disp: i32, imm_len: u32) -> usize {
        let disp_len = if i8::try_from(disp).is_ok() { 1 } else { 4 };
        // Behind it are the SIB byte, the displacement and the immediate.
        let modrm_at = self.bytes.len().checked_sub(imm_len as usize + disp_len + 2);
        let modrm_at = modrm_at.expect("dynasm gives an address with a base a SIB byte and a displacement");
        let modrm = self.bytes.get_mut(modrm_at);
        let modrm = modrm.expect("an address has a ModRM byte");
        let low = base.0 & 7;
        assert_eq!(*modrm & 7, 4, "the ModRM byte says that a SIB byte follows");
        let (no_disp, no_sib) = (disp == 0 && low != 5, low != 4);
        if no_disp {
            *modrm &= 0x3f;
        }
        if no_sib {
            *modrm = *modrm & 0xf8 | low;
        }
        if no_disp {
            self.bytes.remove(modrm_at + 2);
        }
        if no_sib {
            self.bytes.remove(modrm_at + 1);
        }
        if no_disp { 0 } else { disp_len }
    }

    /// Ends an instruction without a memory operand.
    pub(super) fn finish(self) {
        let insn = self.bytes.get(self.start..);
        let insn = insn.expect("an instruction starts where the code ended");
        let legacy = insn
            .iter()
            .take_while(|byte| matches!(byte, 0x66 | 0xf2 | 0xf3))
            .count();
        if !self.needs_rex && insn.get(legacy) == Some(&0x40) {
            self.bytes.remove(self.start + legacy);
        }
    }

    /// Ends an instruction with a memory operand and an immediate of `imm_len` bytes.
    pub(super) fn finish_mem(mut self, mem: Mem, imm_len: u32) {
        let mut disp_of = None;
        if let Mem::Base { base, disp, number } = mem {
            let len = self.shorten_address(base, disp, imm_len);
            disp_of = number.filter(|_| len > 0).map(|number| (number, len));
        }
        let (pc_relative, holes) = (self.pc_relative.take(), self.holes.take());
        // The distance is noted when the prefix is gone: its position is counted from the end.
        let Self {
            bytes,
            start,
            needs_rex,
            ..
        } = self;
        Asm {
            bytes: &mut *bytes,
            pc_relative: None,
            holes: None,
            start,
            needs_rex,
        }
        .finish();
        if let (Some((number, len)), Some(holes)) = (disp_of, holes) {
            let end = bytes.len().saturating_sub(imm_len as usize);
            holes.push(Hole::of_value(end, len as u32, number));
        }
        if let (Mem::Pc(target), Some((noted, op))) = (mem, pc_relative) {
            let to_end = imm_len.saturating_add(4);
            let at = (bytes.len() as u32).saturating_sub(to_end);
            noted.push(PcRelative {
                at,
                to_end,
                target,
                op,
            });
        }
    }
}

impl Extend<u8> for Asm<'_> {
    fn extend<I: IntoIterator<Item = u8>>(&mut self, bytes: I) {
        self.bytes.extend(bytes);
    }
}

impl<'b> Extend<&'b u8> for Asm<'_> {
    fn extend<I: IntoIterator<Item = &'b u8>>(&mut self, bytes: I) {
        self.bytes.extend(bytes);
    }
}

impl DynasmApi for Asm<'_> {
    fn offset(&self) -> AssemblyOffset {
        AssemblyOffset(self.bytes.len())
    }

    fn push(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    fn align(&mut self, alignment: usize, with: u8) {
        let len = self.bytes.len().next_multiple_of(alignment.max(1));
        self.bytes.resize(len, with);
    }
}
