//! The relocations of SystemZ.
//!
//! Source: ELF Application Binary Interface, s390x Supplement, table "Relocation types". Formats of
//! instructions: z/Architecture Principles of Operation, chapter 5. A displacement that is counted
//! in halfwords keeps the value's bits from bit 1 on.

use object::elf::*;

use super::{DYNAMIC, Field, Fit, TLS, part, refused, table};

/// D of 12 bits, behind B.
const DISPLACEMENT_12: Field = Field::new(2, &[part(0, 12, 0)]);
/// DL of 12 bits behind B, then DH of 8 bits, then a byte of the operation.
const DISPLACEMENT_20: Field = Field::new(4, &[part(0, 12, 16), part(12, 8, 8)]);
const HALFWORDS_16: Field = Field::new(2, &[part(1, 16, 0)]);
const HALFWORDS_32: Field = Field::new(4, &[part(1, 32, 0)]);

table! {
    R_390_NONE: Nothing, Field::NONE, Fit::ANY;
    R_390_8: Absolute, Field::BYTE, Fit::either(8);
    R_390_12: Absolute, DISPLACEMENT_12, Fit::unsigned(12);
    R_390_16: Absolute, Field::HALF, Fit::either(16);
    R_390_32: Absolute, Field::WORD, Fit::either(32);
    R_390_PC32: Relative, Field::WORD, Fit::signed(32);
    R_390_GOT12: GotOffset, DISPLACEMENT_12, Fit::unsigned(12);
    R_390_GOT32: GotOffset, Field::WORD, Fit::signed(32);
    R_390_PLT32: Branch, Field::WORD, Fit::signed(32);
    R_390_GOTOFF32: FromGot, Field::WORD, Fit::signed(32);
    R_390_GOTPC: GotBase, Field::DOUBLE, Fit::ANY;
    R_390_GOT16: GotOffset, Field::HALF, Fit::signed(16);
    R_390_PC16: Relative, Field::HALF, Fit::signed(16);
    R_390_PC16DBL: Relative, HALFWORDS_16, Fit::signed(17).zeros(1);
    R_390_PLT16DBL: Branch, HALFWORDS_16, Fit::signed(17).zeros(1);
    R_390_PC32DBL: Relative, HALFWORDS_32, Fit::signed(33).zeros(1);
    R_390_PLT32DBL: Branch, HALFWORDS_32, Fit::signed(33).zeros(1);
    R_390_GOTPCDBL: GotBase, HALFWORDS_32, Fit::signed(33).zeros(1);
    R_390_64: Absolute, Field::DOUBLE, Fit::ANY;
    R_390_PC64: Relative, Field::DOUBLE, Fit::ANY;
    R_390_GOT64: GotOffset, Field::DOUBLE, Fit::ANY;
    R_390_PLT64: Branch, Field::DOUBLE, Fit::ANY;
    R_390_GOTENT: GotEntry, HALFWORDS_32, Fit::signed(33).zeros(1);
    R_390_GOTOFF16: FromGot, Field::HALF, Fit::signed(16);
    R_390_GOTOFF64: FromGot, Field::DOUBLE, Fit::ANY;
    R_390_GOTPLT12: GotOffset, DISPLACEMENT_12, Fit::unsigned(12);
    R_390_GOTPLT16: GotOffset, Field::HALF, Fit::signed(16);
    R_390_GOTPLT32: GotOffset, Field::WORD, Fit::signed(32);
    R_390_GOTPLT64: GotOffset, Field::DOUBLE, Fit::ANY;
    R_390_GOTPLTENT: GotEntry, HALFWORDS_32, Fit::signed(33).zeros(1);
    R_390_PLTOFF64: BranchFromGot, Field::DOUBLE, Fit::ANY;
    R_390_20: Absolute, DISPLACEMENT_20, Fit::signed(20);
    R_390_GOT20: GotOffset, DISPLACEMENT_20, Fit::signed(20);
    R_390_GOTPLT20: GotOffset, DISPLACEMENT_20, Fit::signed(20);
}

refused! {
    TLS =>
        R_390_TLS_LOAD R_390_TLS_GDCALL R_390_TLS_LDCALL R_390_TLS_GD32 R_390_TLS_GD64 R_390_TLS_GOTIE12
        R_390_TLS_GOTIE32 R_390_TLS_GOTIE64 R_390_TLS_LDM32 R_390_TLS_LDM64 R_390_TLS_IE32 R_390_TLS_IE64
        R_390_TLS_IEENT R_390_TLS_LE32 R_390_TLS_LE64 R_390_TLS_LDO32 R_390_TLS_LDO64 R_390_TLS_DTPMOD
        R_390_TLS_DTPOFF R_390_TLS_TPOFF R_390_TLS_GOTIE20;
    DYNAMIC =>
        R_390_COPY R_390_GLOB_DAT R_390_JMP_SLOT R_390_RELATIVE R_390_IRELATIVE;
}

pub(super) const UNKNOWN: &str = "LLVM does not emit it for code that this loader takes";
