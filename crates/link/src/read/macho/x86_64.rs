//! What the relocation numbers of x86-64 mean. The field holds what is added.

use object::macho::*;
use patchpoint_isa::Arch;

use super::relocations::{Fields, Raw};
use crate::error::Result;
use crate::relocation::Formula;

const ARCH: Arch = Arch::X86_64;

/// The size of the fields that are relative to the end of their instruction.
const FIELD: u64 = 4;

/// Makes edges of a relocation. `second` is the one that follows, for those that come in pairs.
pub(crate) fn read(
    fields: &mut Fields<'_, '_>,
    raw: Raw,
    second: &mut dyn FnMut() -> Option<Raw>,
) -> Result<()> {
    let formula = match (raw.number, raw.relative) {
        (X86_64_RELOC_UNSIGNED, false) => return fields.pointer(ARCH, raw),
        (X86_64_RELOC_SUBTRACTOR, _) => {
            return fields.difference(ARCH, raw, second(), X86_64_RELOC_UNSIGNED);
        }
        (
            X86_64_RELOC_SIGNED | X86_64_RELOC_SIGNED_1 | X86_64_RELOC_SIGNED_2 | X86_64_RELOC_SIGNED_4,
            true,
        ) => Formula::Relative,
        (X86_64_RELOC_BRANCH, true) => Formula::Branch,
        (X86_64_RELOC_GOT_LOAD | X86_64_RELOC_GOT, true) => Formula::GotEntry,
        _ => return Err(fields.refused(ARCH, raw)),
    };
    let row = fields.row(ARCH, raw, formula)?;
    let (offset, value) = fields.field(row, raw)?;
    let target = fields.target(raw)?;
    let addend = if target.external {
        // A number that follows the field in its instruction (`SIGNED_1` and so on) is in the value
        // already.
        value.wrapping_sub(FIELD)
    } else if formula == Formula::GotEntry {
        return Err(fields.unsuited(row, raw, "a section has no entry in the global offset table"));
    } else {
        // The field holds the distance in the file from the end of the instruction, as it will; so
        // how far that is from the field does not matter.
        let place = fields.addr.wrapping_add(u64::from(offset));
        value.wrapping_add(place).wrapping_sub(target.counted_from)
    };
    fields.push(offset, row, target.symbol, addend);
    Ok(())
}
