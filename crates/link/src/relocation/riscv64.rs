//! The relocations of RISC-V, 64 bits.
//!
//! Source: RISC-V ELF psABI, chapter "Relocations". Formats of instructions: RISC-V Instruction Set
//! Manual, volume I, section 2.2 (32 bits) and chapter "C" (16 bits). The upper 20 bits of an
//! address take the carry of the lower 12, which are sign-extended.
//!
//! Nothing is relaxed: RELAX is a hint, and the code is right without it. ALIGN is carried out when
//! the object is read.

use object::elf::*;

use super::{DYNAMIC, Field, FieldPart, Fit, TLS, carried, part, refused, table};

const fn word(parts: &'static [FieldPart]) -> Field {
    Field::new(4, parts)
}

/// Half of what a sign-extended field of 12 bits can hold.
const HALF_12: u16 = 0x800;
/// AUIPC, LUI.
const UPPER: Field = word(&[carried(12, 20, 12, HALF_12)]);
/// Loads, ADDI, JALR.
const FORMAT_I: Field = word(&[part(0, 12, 20)]);
/// Stores.
const FORMAT_S: Field = word(&[part(5, 7, 25), part(0, 5, 7)]);
/// Conditional branches.
const FORMAT_B: Field = word(&[part(12, 1, 31), part(5, 6, 25), part(1, 4, 8), part(11, 1, 7)]);
/// JAL.
const FORMAT_J: Field = word(&[part(20, 1, 31), part(1, 10, 21), part(11, 1, 20), part(12, 8, 12)]);
/// C.BEQZ, C.BNEZ.
const FORMAT_CB: Field = Field::new(
    2,
    &[
        part(8, 1, 12),
        part(3, 2, 10),
        part(6, 2, 5),
        part(1, 2, 3),
        part(5, 1, 2),
    ],
);
/// C.J.
const FORMAT_CJ: Field = Field::new(
    2,
    &[
        part(11, 1, 12),
        part(4, 1, 11),
        part(8, 2, 9),
        part(10, 1, 8),
        part(6, 1, 7),
        part(7, 1, 6),
        part(1, 3, 3),
        part(5, 1, 2),
    ],
);
/// AUIPC, then JALR.
const CALL: Field = Field::pair(&[carried(12, 20, 12, HALF_12), part(0, 12, 52)]);
const LOW_6: Field = Field::new(1, &[part(0, 6, 0)]);

const FAR: Fit = Fit::signed(32).carry(HALF_12);

table! {
    R_RISCV_NONE: Nothing, Field::NONE, Fit::ANY;
    R_RISCV_32: Absolute, Field::WORD, Fit::either(32);
    R_RISCV_64: Absolute, Field::DOUBLE, Fit::ANY;
    R_RISCV_BRANCH: Relative, FORMAT_B, Fit::signed(13).zeros(1);
    R_RISCV_JAL: Branch, FORMAT_J, Fit::signed(21).zeros(1);
    R_RISCV_CALL: Branch, CALL, FAR;
    R_RISCV_CALL_PLT: Branch, CALL, FAR;
    R_RISCV_GOT_HI20: GotEntry, UPPER, FAR;
    R_RISCV_PCREL_HI20: Relative, UPPER, FAR;
    R_RISCV_PCREL_LO12_I: LowOfPair, FORMAT_I, Fit::ANY;
    R_RISCV_PCREL_LO12_S: LowOfPair, FORMAT_S, Fit::ANY;
    R_RISCV_HI20: Absolute, UPPER, FAR;
    R_RISCV_LO12_I: Absolute, FORMAT_I, Fit::ANY;
    R_RISCV_LO12_S: Absolute, FORMAT_S, Fit::ANY;
    R_RISCV_ADD8: Add, Field::BYTE, Fit::ANY;
    R_RISCV_ADD16: Add, Field::HALF, Fit::ANY;
    R_RISCV_ADD32: Add, Field::WORD, Fit::ANY;
    R_RISCV_ADD64: Add, Field::DOUBLE, Fit::ANY;
    R_RISCV_SUB8: Sub, Field::BYTE, Fit::ANY;
    R_RISCV_SUB16: Sub, Field::HALF, Fit::ANY;
    R_RISCV_SUB32: Sub, Field::WORD, Fit::ANY;
    R_RISCV_SUB64: Sub, Field::DOUBLE, Fit::ANY;
    R_RISCV_GOT32_PCREL: GotEntry, Field::WORD, Fit::signed(32);
    R_RISCV_ALIGN: Nothing, Field::NONE, Fit::ANY;
    R_RISCV_RVC_BRANCH: Relative, FORMAT_CB, Fit::signed(9).zeros(1);
    R_RISCV_RVC_JUMP: Relative, FORMAT_CJ, Fit::signed(12).zeros(1);
    R_RISCV_RELAX: Nothing, Field::NONE, Fit::ANY;
    R_RISCV_SUB6: Sub, LOW_6, Fit::ANY;
    R_RISCV_SET6: Absolute, LOW_6, Fit::ANY;
    R_RISCV_SET8: Absolute, Field::BYTE, Fit::ANY;
    R_RISCV_SET16: Absolute, Field::HALF, Fit::ANY;
    R_RISCV_SET32: Absolute, Field::WORD, Fit::ANY;
    R_RISCV_32_PCREL: Relative, Field::WORD, Fit::signed(32);
    R_RISCV_PLT32: Branch, Field::WORD, Fit::signed(32);
    R_RISCV_SET_ULEB128: UlebSet, Field::NONE, Fit::ANY;
    R_RISCV_SUB_ULEB128: UlebSub, Field::NONE, Fit::ANY;
}

refused! {
    TLS =>
        R_RISCV_TLS_DTPMOD32 R_RISCV_TLS_DTPMOD64 R_RISCV_TLS_DTPREL32 R_RISCV_TLS_DTPREL64
        R_RISCV_TLS_TPREL32 R_RISCV_TLS_TPREL64 R_RISCV_TLSDESC R_RISCV_TLS_GOT_HI20 R_RISCV_TLS_GD_HI20
        R_RISCV_TPREL_HI20 R_RISCV_TPREL_LO12_I R_RISCV_TPREL_LO12_S R_RISCV_TPREL_ADD R_RISCV_TPREL_I
        R_RISCV_TPREL_S R_RISCV_TLSDESC_HI20 R_RISCV_TLSDESC_LOAD_LO12 R_RISCV_TLSDESC_ADD_LO12
        R_RISCV_TLSDESC_CALL;
    DYNAMIC =>
        R_RISCV_RELATIVE R_RISCV_COPY R_RISCV_JUMP_SLOT R_RISCV_IRELATIVE;
}

pub(super) const UNKNOWN: &str = "LLVM does not emit it for code that this loader takes";
