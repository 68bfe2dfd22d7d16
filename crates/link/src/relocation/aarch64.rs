//! The relocations of AArch64.
//!
//! Source: ELF for the Arm 64-bit Architecture (AAELF64), section 5.7 "Relocation types". Encodings
//! of the instructions: Arm Architecture Reference Manual, section C6.2, under the mnemonics named
//! here. Instructions are little-endian.
//!
//! Stricter than AAELF64 in one thing: PREL32 and PREL16 must fit with their sign, as LLVM reads
//! them back.

use object::elf::*;

use super::{DYNAMIC, Field, FieldPart, Fit, TLS, part, refused, table};

const fn word(parts: &'static [FieldPart]) -> Field {
    Field::new(4, parts)
}

/// B, BL: imm26.
pub(super) const IMM26: Field = word(&[part(2, 26, 0)]);
/// B.cond, CBZ, LDR (literal): imm19.
const IMM19: Field = word(&[part(2, 19, 5)]);
/// TBZ, TBNZ: imm14.
const IMM14: Field = word(&[part(2, 14, 5)]);
/// ADR: immlo, immhi.
const ADR: Field = word(&[part(0, 2, 29), part(2, 19, 5)]);
/// ADRP: the same of a number of pages.
pub(super) const ADRP: Field = word(&[part(12, 2, 29), part(14, 19, 5)]);
/// ADD (immediate), and loads and stores of a byte: imm12.
pub(super) const LOW12: Field = word(&[part(0, 12, 10)]);
/// Loads and stores of 2, 4, 8 and 16 bytes: imm12 in units of the size.
pub(super) const LOW12_BY_2: Field = word(&[part(1, 11, 10)]);
pub(super) const LOW12_BY_4: Field = word(&[part(2, 10, 10)]);
pub(super) const LOW12_BY_8: Field = word(&[part(3, 9, 10)]);
pub(super) const LOW12_BY_16: Field = word(&[part(4, 8, 10)]);
/// LDR of 8 bytes with an offset below 32 KiB: all of imm12.
const LOW15_BY_8: Field = word(&[part(3, 12, 10)]);
/// MOVZ, MOVK: imm16 of each group of 16 bits.
const MOVW_0: Field = word(&[part(0, 16, 5)]);
const MOVW_1: Field = word(&[part(16, 16, 5)]);
const MOVW_2: Field = word(&[part(32, 16, 5)]);
const MOVW_3: Field = word(&[part(48, 16, 5)]);

table! {
    R_AARCH64_NONE: Nothing, Field::NONE, Fit::ANY;
    R_AARCH64_ABS64: Absolute, Field::DOUBLE, Fit::ANY;
    R_AARCH64_ABS32: Absolute, Field::WORD, Fit::either(32);
    R_AARCH64_ABS16: Absolute, Field::HALF, Fit::either(16);
    R_AARCH64_PREL64: Relative, Field::DOUBLE, Fit::ANY;
    R_AARCH64_PREL32: Relative, Field::WORD, Fit::signed(32);
    R_AARCH64_PREL16: Relative, Field::HALF, Fit::signed(16);
    R_AARCH64_MOVW_UABS_G0: Absolute, MOVW_0, Fit::unsigned(16);
    R_AARCH64_MOVW_UABS_G0_NC: Absolute, MOVW_0, Fit::ANY;
    R_AARCH64_MOVW_UABS_G1: Absolute, MOVW_1, Fit::unsigned(32);
    R_AARCH64_MOVW_UABS_G1_NC: Absolute, MOVW_1, Fit::ANY;
    R_AARCH64_MOVW_UABS_G2: Absolute, MOVW_2, Fit::unsigned(48);
    R_AARCH64_MOVW_UABS_G2_NC: Absolute, MOVW_2, Fit::ANY;
    R_AARCH64_MOVW_UABS_G3: Absolute, MOVW_3, Fit::ANY;
    R_AARCH64_LD_PREL_LO19: Relative, IMM19, Fit::signed(21).zeros(2);
    R_AARCH64_ADR_PREL_LO21: Relative, ADR, Fit::signed(21);
    R_AARCH64_ADR_PREL_PG_HI21: Page, ADRP, Fit::signed(33);
    R_AARCH64_ADR_PREL_PG_HI21_NC: Page, ADRP, Fit::ANY;
    R_AARCH64_ADD_ABS_LO12_NC: Absolute, LOW12, Fit::ANY;
    R_AARCH64_LDST8_ABS_LO12_NC: Absolute, LOW12, Fit::ANY;
    R_AARCH64_TSTBR14: Relative, IMM14, Fit::signed(16).zeros(2);
    R_AARCH64_CONDBR19: Relative, IMM19, Fit::signed(21).zeros(2);
    R_AARCH64_JUMP26: Branch, IMM26, Fit::signed(28).zeros(2);
    R_AARCH64_CALL26: Branch, IMM26, Fit::signed(28).zeros(2);
    R_AARCH64_LDST16_ABS_LO12_NC: Absolute, LOW12_BY_2, Fit::ANY.zeros(1);
    R_AARCH64_LDST32_ABS_LO12_NC: Absolute, LOW12_BY_4, Fit::ANY.zeros(2);
    R_AARCH64_LDST64_ABS_LO12_NC: Absolute, LOW12_BY_8, Fit::ANY.zeros(3);
    R_AARCH64_LDST128_ABS_LO12_NC: Absolute, LOW12_BY_16, Fit::ANY.zeros(4);
    R_AARCH64_GOTREL64: FromGot, Field::DOUBLE, Fit::ANY;
    R_AARCH64_GOTREL32: FromGot, Field::WORD, Fit::signed(32);
    R_AARCH64_GOT_LD_PREL19: GotEntry, IMM19, Fit::signed(21).zeros(2);
    R_AARCH64_LD64_GOTOFF_LO15: GotOffset, LOW15_BY_8, Fit::unsigned(15).zeros(3);
    R_AARCH64_ADR_GOT_PAGE: GotPage, ADRP, Fit::signed(33);
    R_AARCH64_LD64_GOT_LO12_NC: GotEntryAddress, LOW12_BY_8, Fit::ANY.zeros(3);
    R_AARCH64_LD64_GOTPAGE_LO15: GotFromPage, LOW15_BY_8, Fit::unsigned(15).zeros(3);
    R_AARCH64_PLT32: Branch, Field::WORD, Fit::signed(32);
    R_AARCH64_GOTPCREL32: GotEntry, Field::WORD, Fit::signed(32);
}

refused! {
    TLS =>
        R_AARCH64_TLSGD_ADR_PREL21 R_AARCH64_TLSGD_ADR_PAGE21 R_AARCH64_TLSGD_ADD_LO12_NC
        R_AARCH64_TLSGD_MOVW_G1 R_AARCH64_TLSGD_MOVW_G0_NC R_AARCH64_TLSLD_ADR_PREL21
        R_AARCH64_TLSLD_ADR_PAGE21 R_AARCH64_TLSLD_ADD_LO12_NC R_AARCH64_TLSLD_MOVW_G1
        R_AARCH64_TLSLD_MOVW_G0_NC R_AARCH64_TLSLD_LD_PREL19 R_AARCH64_TLSLD_MOVW_DTPREL_G2
        R_AARCH64_TLSLD_MOVW_DTPREL_G1 R_AARCH64_TLSLD_MOVW_DTPREL_G1_NC R_AARCH64_TLSLD_MOVW_DTPREL_G0
        R_AARCH64_TLSLD_MOVW_DTPREL_G0_NC R_AARCH64_TLSLD_ADD_DTPREL_HI12 R_AARCH64_TLSLD_ADD_DTPREL_LO12
        R_AARCH64_TLSLD_ADD_DTPREL_LO12_NC R_AARCH64_TLSLD_LDST8_DTPREL_LO12
        R_AARCH64_TLSLD_LDST8_DTPREL_LO12_NC R_AARCH64_TLSLD_LDST16_DTPREL_LO12
        R_AARCH64_TLSLD_LDST16_DTPREL_LO12_NC R_AARCH64_TLSLD_LDST32_DTPREL_LO12
        R_AARCH64_TLSLD_LDST32_DTPREL_LO12_NC R_AARCH64_TLSLD_LDST64_DTPREL_LO12
        R_AARCH64_TLSLD_LDST64_DTPREL_LO12_NC R_AARCH64_TLSIE_MOVW_GOTTPREL_G1
        R_AARCH64_TLSIE_MOVW_GOTTPREL_G0_NC R_AARCH64_TLSIE_ADR_GOTTPREL_PAGE21
        R_AARCH64_TLSIE_LD64_GOTTPREL_LO12_NC R_AARCH64_TLSIE_LD_GOTTPREL_PREL19
        R_AARCH64_TLSLE_MOVW_TPREL_G2 R_AARCH64_TLSLE_MOVW_TPREL_G1 R_AARCH64_TLSLE_MOVW_TPREL_G1_NC
        R_AARCH64_TLSLE_MOVW_TPREL_G0 R_AARCH64_TLSLE_MOVW_TPREL_G0_NC R_AARCH64_TLSLE_ADD_TPREL_HI12
        R_AARCH64_TLSLE_ADD_TPREL_LO12 R_AARCH64_TLSLE_ADD_TPREL_LO12_NC R_AARCH64_TLSLE_LDST8_TPREL_LO12
        R_AARCH64_TLSLE_LDST8_TPREL_LO12_NC R_AARCH64_TLSLE_LDST16_TPREL_LO12
        R_AARCH64_TLSLE_LDST16_TPREL_LO12_NC R_AARCH64_TLSLE_LDST32_TPREL_LO12
        R_AARCH64_TLSLE_LDST32_TPREL_LO12_NC R_AARCH64_TLSLE_LDST64_TPREL_LO12
        R_AARCH64_TLSLE_LDST64_TPREL_LO12_NC R_AARCH64_TLSDESC_LD_PREL19 R_AARCH64_TLSDESC_ADR_PREL21
        R_AARCH64_TLSDESC_ADR_PAGE21 R_AARCH64_TLSDESC_LD64_LO12 R_AARCH64_TLSDESC_ADD_LO12
        R_AARCH64_TLSDESC_OFF_G1 R_AARCH64_TLSDESC_OFF_G0_NC R_AARCH64_TLSDESC_LDR R_AARCH64_TLSDESC_ADD
        R_AARCH64_TLSDESC_CALL R_AARCH64_TLSLE_LDST128_TPREL_LO12 R_AARCH64_TLSLE_LDST128_TPREL_LO12_NC
        R_AARCH64_TLSLD_LDST128_DTPREL_LO12 R_AARCH64_TLSLD_LDST128_DTPREL_LO12_NC R_AARCH64_TLS_DTPMOD
        R_AARCH64_TLS_DTPREL R_AARCH64_TLS_TPREL R_AARCH64_TLSDESC;
    DYNAMIC =>
        R_AARCH64_COPY R_AARCH64_GLOB_DAT R_AARCH64_JUMP_SLOT R_AARCH64_RELATIVE R_AARCH64_IRELATIVE;
}

pub(super) const UNKNOWN: &str = "LLVM does not emit it for code that this loader takes";
