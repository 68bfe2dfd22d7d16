//! Where instructions end, and what functions begin with: what can be told of bytes without
//! decoding them.

use crate::Arch;

/// What the lengths of all instructions are multiples of, in bytes; so are the addresses at which
/// they are.
///
/// ```
/// use patchpoint_isa::{Arch, instructions};
/// assert_eq!(instructions::unit(Arch::RiscV64), 2);
/// ```
#[must_use]
pub fn unit(arch: Arch) -> u32 {
    arch.isa().instruction_unit()
}

/// The length in bytes of the instruction that begins with these; `None` where only a decoder can
/// tell, as on x86-64, or where nothing begins. There may be fewer bytes than that.
///
/// ```
/// use patchpoint_isa::{Arch, instructions};
/// assert_eq!(instructions::len(Arch::SystemZ, &[0xc0, 0xe5]), Some(6)); // brasl
/// assert_eq!(instructions::len(Arch::X86_64, &[0x90]), None);
/// ```
#[must_use]
pub fn len(arch: Arch, bytes: &[u8]) -> Option<usize> {
    arch.isa().instruction_len(*bytes.first()?)
}

/// What a function may begin with that changes nothing for a sequence behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prologue {
    /// Nothing of that kind.
    None,
    /// What indirect branches may target. Four bytes on every architecture.
    LandingPad,
    /// The TOC pointer is made of the function's address. A caller that has it jumps over these
    /// eight bytes.
    Toc,
}

impl Prologue {
    /// What a function begins with whose first bytes these are.
    #[must_use]
    pub fn of(arch: Arch, code: &[u8]) -> Self {
        arch.isa().prologue(code)
    }

    /// Its length in bytes.
    #[must_use]
    pub const fn len(self) -> usize {
        match self {
            Self::None => 0,
            Self::LandingPad => 4,
            Self::Toc => 8,
        }
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        matches!(self, Self::None)
    }

    pub(crate) const fn pad_if(is_pad: bool) -> Self {
        match is_pad {
            true => Self::LandingPad,
            false => Self::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_those_of_the_first_byte() {
        for (arch, first, expected) in [
            (Arch::X86_64, 0x90, None),
            (Arch::AArch64, 0x1f, Some(4)),
            (Arch::PowerPc64, 0x60, Some(4)),
            (Arch::PowerPc64Le, 0, Some(4)),
            (Arch::PowerPc64ElfV2, 0x60, Some(4)),
            // bcr, bc, l, brcl
            (Arch::SystemZ, 0x07, Some(2)),
            (Arch::SystemZ, 0x47, Some(4)),
            (Arch::SystemZ, 0x58, Some(4)),
            (Arch::SystemZ, 0xc0, Some(6)),
            // c.nop, addi
            (Arch::RiscV64, 0x01, Some(2)),
            (Arch::RiscV64, 0x13, Some(4)),
        ] {
            assert_eq!(len(arch, &[first]), expected, "{arch} {first:#x}");
            assert_eq!(len(arch, &[]), None);
            assert!(expected.is_none_or(|len| len % unit(arch) as usize == 0));
        }
    }

    #[test]
    fn prologues_are_recognised() {
        for (arch, code, expected) in [
            (Arch::X86_64, &[0xf3, 0x0f, 0x1e, 0xfa][..], Prologue::LandingPad),
            (Arch::X86_64, &[0xf3, 0x0f, 0x1e], Prologue::None),
            // bti c, bti jc, nop
            (Arch::AArch64, &[0x5f, 0x24, 0x03, 0xd5], Prologue::LandingPad),
            (Arch::AArch64, &[0xdf, 0x24, 0x03, 0xd5], Prologue::LandingPad),
            (Arch::AArch64, &[0x1f, 0x20, 0x03, 0xd5], Prologue::None),
            // lpad 0; auipc a0, 0
            (Arch::RiscV64, &[0x17, 0, 0, 0], Prologue::LandingPad),
            (Arch::RiscV64, &[0x17, 0x05, 0, 0], Prologue::None),
            // addis r2, r12, 1; addi r2, r2, 2; and without the second
            (
                Arch::PowerPc64Le,
                &[1, 0, 0x4c, 0x3c, 2, 0, 0x42, 0x38],
                Prologue::Toc,
            ),
            (
                Arch::PowerPc64ElfV2,
                &[0x3c, 0x4c, 0, 1, 0x38, 0x42, 0, 2],
                Prologue::Toc,
            ),
            (
                Arch::PowerPc64,
                &[0x3c, 0x4c, 0, 1, 0x38, 0x42, 0, 2],
                Prologue::None,
            ),
            (Arch::PowerPc64Le, &[1, 0, 0x4c, 0x3c], Prologue::None),
            (Arch::SystemZ, &[0xc0, 0x04, 0, 0, 0, 0], Prologue::None),
        ] {
            assert_eq!(Prologue::of(arch, code), expected, "{arch} {code:02x?}");
        }
    }
}
