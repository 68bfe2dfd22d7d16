//! The relocations of Mach-O, for x86-64 and arm64.
//!
//! A number alone does not say what a Mach-O relocation does: its length, whether it is relative,
//! and on arm64 the instruction count too. So several rows have one number, and the reader names
//! the row by formula and field.
//!
//! Source: `<mach-o/x86_64/reloc.h>`, `<mach-o/arm64/reloc.h>`; encodings of arm64's instructions
//! as in [`crate::relocation::aarch64`]. Where they leave it open which 32-bit values fit, what
//! LLVM's JITLink takes.

use object::macho::*;
use patchpoint_isa::Arch;

use super::aarch64::{ADRP, IMM26, LOW12, LOW12_BY_2, LOW12_BY_4, LOW12_BY_8, LOW12_BY_16};
use super::{Field, Fit, Formula, Refused, Relocation, RelocationRow, TLS, numbered, refused_numbers};

numbered! { X86_64:
    X86_64_RELOC_UNSIGNED: Absolute, Field::DOUBLE, Fit::ANY;
    X86_64_RELOC_UNSIGNED: Absolute, Field::WORD, Fit::unsigned(32);
    X86_64_RELOC_UNSIGNED: Difference, Field::DOUBLE, Fit::ANY;
    X86_64_RELOC_UNSIGNED: Difference, Field::WORD, Fit::signed(32);
    X86_64_RELOC_SIGNED: Relative, Field::WORD, Fit::signed(32);
    X86_64_RELOC_BRANCH: Branch, Field::WORD, Fit::signed(32);
    X86_64_RELOC_GOT_LOAD: GotEntry, Field::WORD, Fit::signed(32);
    X86_64_RELOC_GOT: GotEntry, Field::WORD, Fit::signed(32);
    X86_64_RELOC_SUBTRACTOR: Subtrahend, Field::DOUBLE, Fit::ANY;
    X86_64_RELOC_SUBTRACTOR: Subtrahend, Field::WORD, Fit::ANY;
    X86_64_RELOC_SUBTRACTOR: Relative, Field::DOUBLE, Fit::ANY;
    X86_64_RELOC_SUBTRACTOR: Relative, Field::WORD, Fit::signed(32);
    X86_64_RELOC_SIGNED_1: Relative, Field::WORD, Fit::signed(32);
    X86_64_RELOC_SIGNED_2: Relative, Field::WORD, Fit::signed(32);
    X86_64_RELOC_SIGNED_4: Relative, Field::WORD, Fit::signed(32);
}

numbered! { ARM64:
    ARM64_RELOC_UNSIGNED: Absolute, Field::DOUBLE, Fit::ANY;
    ARM64_RELOC_UNSIGNED: Absolute, Field::WORD, Fit::unsigned(32);
    ARM64_RELOC_UNSIGNED: Difference, Field::DOUBLE, Fit::ANY;
    ARM64_RELOC_UNSIGNED: Difference, Field::WORD, Fit::signed(32);
    ARM64_RELOC_SUBTRACTOR: Subtrahend, Field::DOUBLE, Fit::ANY;
    ARM64_RELOC_SUBTRACTOR: Subtrahend, Field::WORD, Fit::ANY;
    ARM64_RELOC_SUBTRACTOR: Relative, Field::DOUBLE, Fit::ANY;
    ARM64_RELOC_SUBTRACTOR: Relative, Field::WORD, Fit::signed(32);
    ARM64_RELOC_BRANCH26: Branch, IMM26, Fit::signed(28).zeros(2);
    ARM64_RELOC_PAGE21: Page, ADRP, Fit::signed(33);
    ARM64_RELOC_PAGEOFF12: Absolute, LOW12, Fit::ANY;
    ARM64_RELOC_PAGEOFF12: Absolute, LOW12_BY_2, Fit::ANY.zeros(1);
    ARM64_RELOC_PAGEOFF12: Absolute, LOW12_BY_4, Fit::ANY.zeros(2);
    ARM64_RELOC_PAGEOFF12: Absolute, LOW12_BY_8, Fit::ANY.zeros(3);
    ARM64_RELOC_PAGEOFF12: Absolute, LOW12_BY_16, Fit::ANY.zeros(4);
    ARM64_RELOC_GOT_LOAD_PAGE21: GotPage, ADRP, Fit::signed(33);
    ARM64_RELOC_GOT_LOAD_PAGEOFF12: GotEntryAddress, LOW12_BY_8, Fit::ANY.zeros(3);
    ARM64_RELOC_POINTER_TO_GOT: GotEntry, Field::WORD, Fit::signed(32);
    ARM64_RELOC_POINTER_TO_GOT: GotEntryAddress, Field::DOUBLE, Fit::ANY;
}

const SIGNED_POINTERS: &str = "signed pointers need the keys of the process: compile for arm64, not arm64e";

refused_numbers! { X86_64_REFUSED:
    TLS => X86_64_RELOC_TLV;
}

refused_numbers! { ARM64_REFUSED:
    TLS => ARM64_RELOC_TLVP_LOAD_PAGE21 ARM64_RELOC_TLVP_LOAD_PAGEOFF12;
    SIGNED_POINTERS => ARM64_RELOC_AUTHENTICATED_POINTER;
}

const UNKNOWN: &str = "Mach-O gives this number, length and way of counting no meaning for the architecture";

pub(super) const fn table(arch: Arch) -> &'static [RelocationRow] {
    match arch {
        Arch::X86_64 => X86_64,
        Arch::AArch64 => ARM64,
        _ => &[],
    }
}

/// The row of a number that computes this and writes so many bytes.
pub(crate) fn of(arch: Arch, number: RelocationType, formula: Formula, width: u8) -> Option<Relocation> {
    let found = |row: &&RelocationRow| {
        row.number == u32::from(number.0) && row.formula == formula && row.field.width == width
    };
    table(arch).iter().find(found).map(Relocation)
}

/// [`ARM64_RELOC_PAGEOFF12`] in an instruction that counts in units of two to this power.
pub(crate) fn page_offset(exponent: u8) -> Option<Relocation> {
    let scaled =
        |row: &&RelocationRow| row.number == u32::from(ARM64_RELOC_PAGEOFF12.0) && row.fit.zeros == exponent;
    ARM64.iter().find(scaled).map(Relocation)
}

/// The name of a relocation that is not supported, and why.
pub(crate) fn why_refused(arch: Arch, number: RelocationType) -> (alloc::string::String, &'static str) {
    let refused: &[Refused] = match arch {
        Arch::AArch64 => ARM64_REFUSED,
        _ => X86_64_REFUSED,
    };
    super::reason(refused, table(arch), u32::from(number.0), UNKNOWN)
}
