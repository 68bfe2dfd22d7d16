//! The relocations of 64-bit PowerPC, for both of its ABIs.
//!
//! Sources: 64-Bit ELF V2 ABI Specification, Power Architecture, section 3.5 "Relocation types";
//! 64-bit PowerPC ELF ABI Supplement 1.9 (ELFv1), section 4.5. Formats of instructions: Power ISA,
//! book I, sections 1.6 and 1.6.3 (prefixed). GOT is the TOC pointer here, 0x8000 behind the
//! table's start. The place of a 16-bit field is the field, not its instruction. `HA` parts take
//! the carry of the 16 bits below them, which are sign-extended.

use object::elf::*;

use super::{DYNAMIC, Field, FieldPart, Fit, TLS, carried, part, refused, table};

/// Those of ELFv2 that are newer than the `object` crate's list.
mod newer {
    use object::elf::RelocationType;

    pub(super) const R_PPC64_REL24_NOTOC: RelocationType = RelocationType(116);
    pub(super) const R_PPC64_PCREL_OPT: RelocationType = RelocationType(123);
    pub(super) const R_PPC64_REL24_P9NOTOC: RelocationType = RelocationType(124);
    pub(super) const R_PPC64_PCREL34: RelocationType = RelocationType(132);
    pub(super) const R_PPC64_GOT_PCREL34: RelocationType = RelocationType(133);
    pub(super) const R_PPC64_TPREL34: RelocationType = RelocationType(146);
    pub(super) const R_PPC64_DTPREL34: RelocationType = RelocationType(147);
    pub(super) const R_PPC64_GOT_TLSGD_PCREL34: RelocationType = RelocationType(148);
    pub(super) const R_PPC64_GOT_TLSLD_PCREL34: RelocationType = RelocationType(149);
    pub(super) const R_PPC64_GOT_TPREL_PCREL34: RelocationType = RelocationType(150);
    pub(super) const R_PPC64_GOT_DTPREL_PCREL34: RelocationType = RelocationType(151);
}
use newer::*;

/// Half of what a sign-extended field of 16 bits can hold.
const HALF_16: u16 = 0x8000;

const fn half(parts: &'static [FieldPart]) -> Field {
    Field::new(2, parts)
}

const LO: Field = Field::HALF;
/// Format DS: the two lowest bits belong to the operation.
const LO_DS: Field = half(&[part(2, 14, 2)]);
const HI: Field = half(&[part(16, 16, 0)]);
const HA: Field = half(&[carried(16, 16, 0, HALF_16)]);
const HIGHER: Field = half(&[part(32, 16, 0)]);
const HIGHERA: Field = half(&[carried(32, 16, 0, HALF_16)]);
const HIGHEST: Field = half(&[part(48, 16, 0)]);
const HIGHESTA: Field = half(&[carried(48, 16, 0, HALF_16)]);
/// Format I: b, bl.
const LI: Field = Field::new(4, &[part(2, 24, 2)]);
/// Format B: bc.
const BD: Field = Field::new(4, &[part(2, 14, 2)]);
/// Prefixed: 18 bits in the first word, 16 in the second.
const D34: Field = Field::pair(&[part(16, 18, 0), part(0, 16, 32)]);

const FIT_16: Fit = Fit::signed(16);
const FIT_DS: Fit = Fit::signed(16).zeros(2);
const FIT_HI: Fit = Fit::signed(32);
const FIT_HA: Fit = Fit::signed(32).carry(HALF_16);
const ANY_DS: Fit = Fit::ANY.zeros(2);

table! {
    R_PPC64_NONE: Nothing, Field::NONE, Fit::ANY;
    R_PPC64_ADDR32: Absolute, Field::WORD, Fit::either(32);
    R_PPC64_ADDR24: Absolute, LI, Fit::signed(26).zeros(2);
    R_PPC64_ADDR16: Absolute, LO, Fit::either(16);
    R_PPC64_ADDR16_LO: Absolute, LO, Fit::ANY;
    R_PPC64_ADDR16_HI: Absolute, HI, FIT_HI;
    R_PPC64_ADDR16_HA: Absolute, HA, FIT_HA;
    // protection: absolute-branches-have-a-range
    R_PPC64_ADDR14: Absolute, BD, Fit::signed(16).zeros(2);
    R_PPC64_REL24: Branch, LI, Fit::signed(26).zeros(2);
    R_PPC64_REL14: Relative, BD, Fit::signed(16).zeros(2);
    R_PPC64_GOT16: GotOffset, LO, FIT_16;
    R_PPC64_GOT16_LO: GotOffset, LO, Fit::ANY;
    R_PPC64_GOT16_HI: GotOffset, HI, FIT_HI;
    R_PPC64_GOT16_HA: GotOffset, HA, FIT_HA;
    R_PPC64_REL32: Relative, Field::WORD, Fit::signed(32);
    R_PPC64_ADDR64: Absolute, Field::DOUBLE, Fit::ANY;
    R_PPC64_ADDR16_HIGHER: Absolute, HIGHER, Fit::ANY;
    R_PPC64_ADDR16_HIGHERA: Absolute, HIGHERA, Fit::ANY;
    R_PPC64_ADDR16_HIGHEST: Absolute, HIGHEST, Fit::ANY;
    R_PPC64_ADDR16_HIGHESTA: Absolute, HIGHESTA, Fit::ANY;
    R_PPC64_REL64: Relative, Field::DOUBLE, Fit::ANY;
    R_PPC64_TOC16: FromGot, LO, FIT_16;
    R_PPC64_TOC16_LO: FromGot, LO, Fit::ANY;
    R_PPC64_TOC16_HI: FromGot, HI, FIT_HI;
    R_PPC64_TOC16_HA: FromGot, HA, FIT_HA;
    R_PPC64_TOC: GotAddress, Field::DOUBLE, Fit::ANY;
    R_PPC64_ADDR16_DS: Absolute, LO_DS, Fit::either(16).zeros(2);
    R_PPC64_ADDR16_LO_DS: Absolute, LO_DS, ANY_DS;
    R_PPC64_GOT16_DS: GotOffset, LO_DS, FIT_DS;
    R_PPC64_GOT16_LO_DS: GotOffset, LO_DS, ANY_DS;
    R_PPC64_TOC16_DS: FromGot, LO_DS, FIT_DS;
    R_PPC64_TOC16_LO_DS: FromGot, LO_DS, ANY_DS;
    R_PPC64_ADDR16_HIGH: Absolute, HI, Fit::ANY;
    R_PPC64_ADDR16_HIGHA: Absolute, HA, Fit::ANY;
    R_PPC64_REL24_NOTOC: BranchNoToc, LI, Fit::signed(26).zeros(2);
    R_PPC64_PCREL_OPT: Nothing, Field::NONE, Fit::ANY;
    R_PPC64_REL24_P9NOTOC: BranchNoToc, LI, Fit::signed(26).zeros(2);
    R_PPC64_PCREL34: Relative, D34, Fit::signed(34);
    R_PPC64_GOT_PCREL34: GotEntry, D34, Fit::signed(34);
    R_PPC64_REL16: Relative, LO, FIT_16;
    R_PPC64_REL16_LO: Relative, LO, Fit::ANY;
    R_PPC64_REL16_HI: Relative, HI, FIT_HI;
    R_PPC64_REL16_HA: Relative, HA, FIT_HA;
}

refused! {
    TLS =>
        R_PPC64_TLS R_PPC64_DTPMOD64 R_PPC64_TPREL16 R_PPC64_TPREL16_LO R_PPC64_TPREL16_HI
        R_PPC64_TPREL16_HA R_PPC64_TPREL64 R_PPC64_DTPREL16 R_PPC64_DTPREL16_LO R_PPC64_DTPREL16_HI
        R_PPC64_DTPREL16_HA R_PPC64_DTPREL64 R_PPC64_GOT_TLSGD16 R_PPC64_GOT_TLSGD16_LO
        R_PPC64_GOT_TLSGD16_HI R_PPC64_GOT_TLSGD16_HA R_PPC64_GOT_TLSLD16 R_PPC64_GOT_TLSLD16_LO
        R_PPC64_GOT_TLSLD16_HI R_PPC64_GOT_TLSLD16_HA R_PPC64_GOT_TPREL16_DS R_PPC64_GOT_TPREL16_LO_DS
        R_PPC64_GOT_TPREL16_HI R_PPC64_GOT_TPREL16_HA R_PPC64_GOT_DTPREL16_DS R_PPC64_GOT_DTPREL16_LO_DS
        R_PPC64_GOT_DTPREL16_HI R_PPC64_GOT_DTPREL16_HA R_PPC64_TPREL16_DS R_PPC64_TPREL16_LO_DS
        R_PPC64_TPREL16_HIGHER R_PPC64_TPREL16_HIGHERA R_PPC64_TPREL16_HIGHEST R_PPC64_TPREL16_HIGHESTA
        R_PPC64_DTPREL16_DS R_PPC64_DTPREL16_LO_DS R_PPC64_DTPREL16_HIGHER R_PPC64_DTPREL16_HIGHERA
        R_PPC64_DTPREL16_HIGHEST R_PPC64_DTPREL16_HIGHESTA R_PPC64_TLSGD R_PPC64_TLSLD R_PPC64_TPREL16_HIGH
        R_PPC64_TPREL16_HIGHA R_PPC64_DTPREL16_HIGH R_PPC64_DTPREL16_HIGHA R_PPC64_TPREL34 R_PPC64_DTPREL34
        R_PPC64_GOT_TLSGD_PCREL34 R_PPC64_GOT_TLSLD_PCREL34 R_PPC64_GOT_TPREL_PCREL34
        R_PPC64_GOT_DTPREL_PCREL34;
    DYNAMIC =>
        R_PPC64_COPY R_PPC64_GLOB_DAT R_PPC64_JMP_SLOT R_PPC64_RELATIVE R_PPC64_JMP_IREL R_PPC64_IRELATIVE;
}

pub(super) const UNKNOWN: &str = "LLVM does not emit it for code that this loader takes";
