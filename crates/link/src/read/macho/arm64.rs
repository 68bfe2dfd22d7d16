//! What the relocation numbers of arm64 mean. Data holds what is added; instructions do not, but a
//! relocation of its own does that comes before (`ARM64_RELOC_ADDEND`).

use object::macho::*;
use patchpoint_isa::Arch;

use super::relocations::{ADDS_NOTHING, Fields, Raw};
use crate::error::Result;
use crate::relocation::{self, Formula, Relocation};

const ARCH: Arch = Arch::AArch64;

/// Instructions by their fixed bits, as mask and value, and their operands (DDI 0487, C6.2 under
/// the mnemonics).
struct Instruction {
    mask: u32,
    value: u32,
    operand: u32,
}

const B_OR_BL: Instruction = Instruction {
    mask: 0x7c00_0000,
    value: 0x1400_0000,
    operand: 0x03ff_ffff,
};
const ADRP: Instruction = Instruction {
    mask: 0x9f00_0000,
    value: 0x9000_0000,
    operand: 0x60ff_ffe0,
};
/// ADD of either size, with an operand that is not shifted.
const ADD: Instruction = Instruction {
    mask: 0x7fc0_0000,
    value: 0x1100_0000,
    operand: 0x003f_fc00,
};
/// Loads and stores of every size, of general and vector registers, with an unsigned offset.
const LOAD_OR_STORE: Instruction = Instruction {
    mask: 0x3b00_0000,
    value: 0x3900_0000,
    operand: 0x003f_fc00,
};
const LDR_X: Instruction = Instruction {
    mask: 0xffc0_0000,
    value: 0xf940_0000,
    operand: 0x003f_fc00,
};

impl Instruction {
    fn is(&self, word: u32) -> bool {
        word & self.mask == self.value
    }
}

/// Makes edges of a relocation. `second` is the one that follows, for those that come in pairs.
pub(crate) fn read(
    fields: &mut Fields<'_, '_>,
    raw: Raw,
    second: &mut dyn FnMut() -> Option<Raw>,
) -> Result<()> {
    match (raw.number, raw.relative) {
        (ARM64_RELOC_UNSIGNED, false) => fields.pointer(ARCH, raw),
        (ARM64_RELOC_SUBTRACTOR, _) => fields.difference(ARCH, raw, second(), ARM64_RELOC_UNSIGNED),
        (ARM64_RELOC_POINTER_TO_GOT, _) => pointer_to_got(fields, raw),
        (ARM64_RELOC_ADDEND, false) => {
            // A number of 24 bits with its sign.
            let addend = i64::from((raw.index << 8) as i32 >> 8);
            match second().filter(|second| second.offset == raw.offset && takes_addend(*second)) {
                Some(second) => instruction(fields, second, addend),
                None => Err(fields.refused(ARCH, raw)),
            }
        }
        _ => instruction(fields, raw, 0),
    }
}

fn takes_addend(raw: Raw) -> bool {
    matches!(
        raw.number,
        ARM64_RELOC_BRANCH26 | ARM64_RELOC_PAGE21 | ARM64_RELOC_PAGEOFF12
    )
}

/// The distance to an entry of the global offset table, or its address.
fn pointer_to_got(fields: &mut Fields<'_, '_>, raw: Raw) -> Result<()> {
    let (formula, width) = if raw.relative {
        (Formula::GotEntry, 4)
    } else {
        (Formula::GotEntryAddress, 8)
    };
    let row = fields.row(ARCH, raw, formula)?;
    // What is there is a distance within the file, not something to add.
    let (offset, _) = fields.field(row, raw)?;
    let target = fields.target(raw)?;
    if raw.width != width || !target.external {
        return Err(fields.refused(ARCH, raw));
    }
    fields.push(offset, row, target.symbol, 0);
    Ok(())
}

fn instruction(fields: &mut Fields<'_, '_>, raw: Raw, addend: i64) -> Result<()> {
    let (formula, expected) = match (raw.number, raw.relative, raw.width) {
        (ARM64_RELOC_BRANCH26, true, 4) => (Formula::Branch, B_OR_BL),
        (ARM64_RELOC_PAGE21, true, 4) => (Formula::Page, ADRP),
        (ARM64_RELOC_PAGEOFF12, false, 4) => (Formula::Absolute, ADD),
        (ARM64_RELOC_GOT_LOAD_PAGE21, true, 4) => (Formula::GotPage, ADRP),
        (ARM64_RELOC_GOT_LOAD_PAGEOFF12, false, 4) => (Formula::GotEntryAddress, LDR_X),
        _ => return Err(fields.refused(ARCH, raw)),
    };
    let row = fields.row(ARCH, raw, formula)?;
    let (offset, value) = fields.field(row, raw)?;
    let word = value as u32;
    let target = fields.target(raw)?;
    if !target.external {
        return Err(fields.unsuited(row, raw, "instructions refer to symbols only"));
    }
    let scaled = if raw.number == ARM64_RELOC_PAGEOFF12 {
        unit(word).and_then(relocation::macho::page_offset)
    } else {
        Some(row).filter(|_| expected.is(word))
    };
    let Some(row): Option<Relocation> = scaled else {
        return Err(fields.unsuited(row, raw, "the instruction there has no such operand"));
    };
    if word & expected.operand != 0 {
        return Err(fields.unsuited(row, raw, ADDS_NOTHING));
    }
    fields.push(offset, row, target.symbol, addend as u64);
    Ok(())
}

/// What the 12 bits of an offset count in, as an exponent of two.
fn unit(word: u32) -> Option<u8> {
    /// The size of a vector register's 16 bytes is in two places.
    const VECTOR: u32 = 1 << 26;
    const WHOLE: u32 = 1 << 23;
    if ADD.is(word) {
        return Some(0);
    }
    if !LOAD_OR_STORE.is(word) {
        return None;
    }
    match (word >> 30) as u8 {
        0 if word & VECTOR != 0 && word & WHOLE != 0 => Some(4),
        size => Some(size),
    }
}
