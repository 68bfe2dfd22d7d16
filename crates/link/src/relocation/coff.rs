//! The relocations of COFF for x86-64.
//!
//! Source: PE format, "COFF Relocations (Object Only)", "x64 Processors". All hold what is added in
//! the field. Relative ones count from the field's end, and those with a number at their end from
//! as many bytes behind it.

use object::pe::*;

use super::{Field, Fit, Formula, Relocation, RelocationRow, numbered, refused_numbers};

numbered! { X86_64:
    IMAGE_REL_AMD64_ABSOLUTE: Nothing, Field::NONE, Fit::ANY;
    IMAGE_REL_AMD64_ADDR64: Absolute, Field::DOUBLE, Fit::ANY;
    IMAGE_REL_AMD64_ADDR64: GotEntryAddress, Field::DOUBLE, Fit::ANY;
    IMAGE_REL_AMD64_ADDR32: Absolute, Field::WORD, Fit::unsigned(32);
    IMAGE_REL_AMD64_ADDR32NB: FromImageBase, Field::WORD, Fit::unsigned(32);
    IMAGE_REL_AMD64_REL32: Relative, Field::WORD, Fit::signed(32);
    IMAGE_REL_AMD64_REL32: Branch, Field::WORD, Fit::signed(32);
    IMAGE_REL_AMD64_REL32: GotEntry, Field::WORD, Fit::signed(32);
    IMAGE_REL_AMD64_REL32_1: Relative, Field::WORD, Fit::signed(32);
    IMAGE_REL_AMD64_REL32_1: GotEntry, Field::WORD, Fit::signed(32);
    IMAGE_REL_AMD64_REL32_2: Relative, Field::WORD, Fit::signed(32);
    IMAGE_REL_AMD64_REL32_2: GotEntry, Field::WORD, Fit::signed(32);
    IMAGE_REL_AMD64_REL32_3: Relative, Field::WORD, Fit::signed(32);
    IMAGE_REL_AMD64_REL32_3: GotEntry, Field::WORD, Fit::signed(32);
    IMAGE_REL_AMD64_REL32_4: Relative, Field::WORD, Fit::signed(32);
    IMAGE_REL_AMD64_REL32_4: GotEntry, Field::WORD, Fit::signed(32);
    IMAGE_REL_AMD64_REL32_5: Relative, Field::WORD, Fit::signed(32);
    IMAGE_REL_AMD64_REL32_5: GotEntry, Field::WORD, Fit::signed(32);
    IMAGE_REL_AMD64_SECREL: FromSection, Field::WORD, Fit::unsigned(32);
}

const NUMBERS: &str =
    "sections have no numbers in memory: only debug information, which is ignored, needs them";
const CLR: &str = "it belongs to managed code";
const SPANS: &str = "no compiler emits it for code";

refused_numbers! { REFUSED:
    NUMBERS => IMAGE_REL_AMD64_SECTION;
    SPANS => IMAGE_REL_AMD64_SECREL7 IMAGE_REL_AMD64_SREL32 IMAGE_REL_AMD64_PAIR IMAGE_REL_AMD64_SSPAN32;
    CLR => IMAGE_REL_AMD64_TOKEN;
}

const UNKNOWN: &str = "COFF gives this number no meaning for x86-64";

pub(super) const fn table() -> &'static [RelocationRow] {
    X86_64
}

/// The row of a number that computes this.
pub(crate) fn of(number: RelocationType, formula: Formula) -> Option<Relocation> {
    let found = |row: &&RelocationRow| row.number == u32::from(number.0) && row.formula == formula;
    X86_64.iter().find(found).map(Relocation)
}

/// The name of a relocation that is not supported, and why.
pub(crate) fn why_refused(number: RelocationType) -> (alloc::string::String, &'static str) {
    super::reason(REFUSED, X86_64, u32::from(number.0), UNKNOWN)
}
