//! The relocations of x86-64.
//!
//! Source: System V ABI, AMD64 supplement, table 4.9 (relocation types). Which of the 32-bit forms
//! are signed: the same table's text on R_X86_64_32 and 32S; everything relative is signed.

use object::elf::*;

use super::{DYNAMIC, Field, Fit, TLS, refused, table};

table! {
    R_X86_64_NONE: Nothing, Field::NONE, Fit::ANY;
    R_X86_64_64: Absolute, Field::DOUBLE, Fit::ANY;
    R_X86_64_PC32: Relative, Field::WORD, Fit::signed(32);
    R_X86_64_GOT32: GotOffset, Field::WORD, Fit::signed(32);
    R_X86_64_PLT32: Branch, Field::WORD, Fit::signed(32);
    R_X86_64_GOTPCREL: GotEntry, Field::WORD, Fit::signed(32);
    R_X86_64_32: Absolute, Field::WORD, Fit::unsigned(32);
    R_X86_64_32S: Absolute, Field::WORD, Fit::signed(32);
    R_X86_64_16: Absolute, Field::HALF, Fit::either(16);
    R_X86_64_PC16: Relative, Field::HALF, Fit::signed(16);
    R_X86_64_8: Absolute, Field::BYTE, Fit::either(8);
    R_X86_64_PC8: Relative, Field::BYTE, Fit::signed(8);
    R_X86_64_PC64: Relative, Field::DOUBLE, Fit::ANY;
    R_X86_64_GOTOFF64: FromGot, Field::DOUBLE, Fit::ANY;
    R_X86_64_GOTPC32: GotBase, Field::WORD, Fit::signed(32);
    R_X86_64_GOT64: GotOffset, Field::DOUBLE, Fit::ANY;
    R_X86_64_GOTPCREL64: GotEntry, Field::DOUBLE, Fit::ANY;
    R_X86_64_GOTPC64: GotBase, Field::DOUBLE, Fit::ANY;
    R_X86_64_GOTPLT64: GotOffset, Field::DOUBLE, Fit::ANY;
    R_X86_64_PLTOFF64: BranchFromGot, Field::DOUBLE, Fit::ANY;
    R_X86_64_SIZE32: Size, Field::WORD, Fit::unsigned(32);
    R_X86_64_SIZE64: Size, Field::DOUBLE, Fit::ANY;
    R_X86_64_GOTPCRELX: GotEntry, Field::WORD, Fit::signed(32);
    R_X86_64_REX_GOTPCRELX: GotEntry, Field::WORD, Fit::signed(32);
}

refused! {
    TLS =>
        R_X86_64_DTPMOD64 R_X86_64_DTPOFF64 R_X86_64_TPOFF64 R_X86_64_TLSGD R_X86_64_TLSLD R_X86_64_DTPOFF32
        R_X86_64_GOTTPOFF R_X86_64_TPOFF32 R_X86_64_GOTPC32_TLSDESC R_X86_64_TLSDESC_CALL R_X86_64_TLSDESC;
    DYNAMIC =>
        R_X86_64_COPY R_X86_64_GLOB_DAT R_X86_64_JUMP_SLOT R_X86_64_RELATIVE R_X86_64_IRELATIVE
        R_X86_64_RELATIVE64;
}

pub(super) const UNKNOWN: &str = "the x86-64 ABI gives this number no meaning that LLVM emits";
