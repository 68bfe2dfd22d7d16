//! Operands in LLVM's order, of the instructions in which compilers leave relocations, and their
//! kin.

use iced_x86::{
    Code, ConditionCode, ConstantOffsets, Decoder, DecoderOptions, Instruction, Mnemonic, OpKind,
};

use super::Operand::{self, Immediate, Register};

/// How the operands of the manual become those of LLVM.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OperandMapping {
    /// They are the same.
    Plain,
    /// The first is read and written: a register is listed twice.
    Tied,
    /// The accumulator, which the encoding does not name, is left out.
    Accumulator,
    /// As `Tied`, and a count that is 1 or in a register is left out.
    Shift,
    /// The number of the condition follows.
    Condition,
    /// As `Tied`, and the number of the condition follows.
    TiedCondition,
}

/// The operands of the instruction that the bytes start with; `None` for one that is not known
/// here.
pub(super) fn operands(bytes: &[u8]) -> Option<Vec<Operand>> {
    let mut decoder = Decoder::with_ip(64, bytes, 0, DecoderOptions::NONE);
    let insn = decoder.decode();
    let form = form(&insn)?;
    let encoding = Encoding {
        bytes,
        at: decoder.get_constant_offsets(&insn),
        insn: &insn,
    };
    let mut all = Vec::new();
    if is_tied(form) && insn.op0_kind() == OpKind::Register {
        all.push(Register);
    }
    for index in 0..insn.op_count() {
        if !encoding.leaves_out(form, index) {
            encoding.push(index, &mut all)?;
        }
    }
    if matches!(form, OperandMapping::Condition | OperandMapping::TiedCondition) {
        // The numbers are those in the opcodes (AMD64 APM volume 3, table 1-6), which the decoder
        // counts from 1.
        all.push(Immediate(insn.condition_code() as i64 - 1));
    }
    Some(all)
}

const fn is_tied(form: OperandMapping) -> bool {
    matches!(
        form,
        OperandMapping::Tied | OperandMapping::Shift | OperandMapping::TiedCondition
    )
}

struct Encoding<'a> {
    bytes: &'a [u8],
    at: ConstantOffsets,
    insn: &'a Instruction,
}

impl Encoding<'_> {
    /// Whether LLVM has no such operand, as the instruction can have no other.
    fn leaves_out(&self, form: OperandMapping, index: u32) -> bool {
        match form {
            OperandMapping::Accumulator => self.insn.op_kind(index) == OpKind::Register,
            OperandMapping::Shift => index == 1 && !self.at.has_immediate(),
            _ => false,
        }
    }

    fn push(&self, index: u32, all: &mut Vec<Operand>) -> Option<()> {
        match self.insn.op_kind(index) {
            OpKind::Register => all.push(Register),
            OpKind::Memory => {
                let displacement = Immediate(match self.at.has_displacement() {
                    true => self.number(self.at.displacement_offset(), self.at.displacement_size())?,
                    false => 0,
                });
                if !is_absolute(self.insn.code()) {
                    let scale = Immediate(self.insn.memory_index_scale().into());
                    all.extend([Register, scale, Register]);
                }
                // The segment follows.
                all.extend([displacement, Register]);
            }
            kind if self.at.has_immediate() && !self.at.has_immediate2() => {
                let value = self.number(self.at.immediate_offset(), self.at.immediate_size())?;
                all.push(Immediate(match kind {
                    // What fills its operand has no sign there; the number of bytes that a return
                    // releases has.
                    OpKind::Immediate16 if self.insn.mnemonic() != Mnemonic::Ret => value & 0xffff,
                    OpKind::Immediate32 => value & 0xffff_ffff,
                    _ => value,
                }));
            }
            _ => return None,
        }
        Some(())
    }

    /// So many bytes of the encoding, as a number with a sign.
    fn number(&self, offset: usize, size: usize) -> Option<i64> {
        let bytes = self.bytes.get(offset..)?.get(..size)?;
        let append = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
        let spare = 64_usize.checked_sub(8 * size)?;
        Some((bytes.iter().rev().fold(0, append) << spare) as i64 >> spare)
    }
}

fn form(insn: &Instruction) -> Option<OperandMapping> {
    use Mnemonic as M;
    if is_accumulator(insn.code()) || is_absolute(insn.code()) {
        return Some(OperandMapping::Accumulator);
    }
    if let Some(form) = conditional(insn) {
        return Some(form);
    }
    let registers = insn.op_count() == 2 && (0..2).all(|index| insn.op_kind(index) == OpKind::Register);
    Some(match insn.mnemonic() {
        M::Movss | M::Movsd if registers => OperandMapping::Tied,
        M::Imul if insn.op_count() == 2 => OperandMapping::Tied,
        M::Mov
        | M::Movzx
        | M::Movsx
        | M::Movsxd
        | M::Lea
        | M::Cmp
        | M::Test
        | M::Imul
        | M::Mul
        | M::Idiv
        | M::Div
        | M::Push
        | M::Pop
        | M::Call
        | M::Jmp
        | M::Ret
        | M::Nop
        | M::Endbr64
        | M::Leave
        | M::Int3
        | M::Ud2
        | M::Hlt
        | M::Cdq
        | M::Cqo
        | M::Cdqe
        | M::Movaps
        | M::Movups
        | M::Movapd
        | M::Movupd
        | M::Movdqa
        | M::Movdqu
        | M::Movd
        | M::Movq
        | M::Movss
        | M::Movsd
        | M::Ucomiss
        | M::Ucomisd
        | M::Comiss
        | M::Comisd
        | M::Cvttss2si
        | M::Cvttsd2si => OperandMapping::Plain,
        M::Add
        | M::Or
        | M::Adc
        | M::Sbb
        | M::And
        | M::Sub
        | M::Xor
        | M::Inc
        | M::Dec
        | M::Neg
        | M::Not
        | M::Addss
        | M::Addsd
        | M::Addps
        | M::Addpd
        | M::Subss
        | M::Subsd
        | M::Subps
        | M::Subpd
        | M::Mulss
        | M::Mulsd
        | M::Mulps
        | M::Mulpd
        | M::Divss
        | M::Divsd
        | M::Divps
        | M::Divpd
        | M::Andps
        | M::Andpd
        | M::Andnps
        | M::Andnpd
        | M::Orps
        | M::Orpd
        | M::Xorps
        | M::Xorpd
        | M::Pand
        | M::Pandn
        | M::Por
        | M::Pxor
        | M::Paddb
        | M::Paddw
        | M::Paddd
        | M::Paddq
        | M::Psubb
        | M::Psubw
        | M::Psubd
        | M::Psubq => OperandMapping::Tied,
        M::Rol | M::Ror | M::Rcl | M::Rcr | M::Shl | M::Shr | M::Sar => OperandMapping::Shift,
        _ => return None,
    })
}

/// `jcc`, `setcc`, `cmovcc`: the others with a condition are loops, and have more to them.
fn conditional(insn: &Instruction) -> Option<OperandMapping> {
    let has_condition = insn.condition_code() != ConditionCode::None;
    match insn.op_count() {
        _ if !has_condition => None,
        1 if insn.is_jcc_short_or_near() => Some(OperandMapping::Condition),
        1 if matches!(insn.op0_kind(), OpKind::Register | OpKind::Memory) => Some(OperandMapping::Condition),
        2 => Some(OperandMapping::TiedCondition),
        _ => None,
    }
}

/// A move between the accumulator and an address of 64 bits.
fn is_absolute(code: Code) -> bool {
    use Code::*;
    matches!(
        code,
        Mov_AL_moffs8
            | Mov_AX_moffs16
            | Mov_EAX_moffs32
            | Mov_RAX_moffs64
            | Mov_moffs8_AL
            | Mov_moffs16_AX
            | Mov_moffs32_EAX
            | Mov_moffs64_RAX
    )
}

/// Arithmetic of the accumulator and a number, in its shorter encoding.
fn is_accumulator(code: Code) -> bool {
    use Code::*;
    matches!(
        code,
        Add_AL_imm8
            | Add_AX_imm16
            | Add_EAX_imm32
            | Add_RAX_imm32
            | Or_AL_imm8
            | Or_AX_imm16
            | Or_EAX_imm32
            | Or_RAX_imm32
            | Adc_AL_imm8
            | Adc_AX_imm16
            | Adc_EAX_imm32
            | Adc_RAX_imm32
            | Sbb_AL_imm8
            | Sbb_AX_imm16
            | Sbb_EAX_imm32
            | Sbb_RAX_imm32
            | And_AL_imm8
            | And_AX_imm16
            | And_EAX_imm32
            | And_RAX_imm32
            | Sub_AL_imm8
            | Sub_AX_imm16
            | Sub_EAX_imm32
            | Sub_RAX_imm32
            | Xor_AL_imm8
            | Xor_AX_imm16
            | Xor_EAX_imm32
            | Xor_RAX_imm32
            | Cmp_AL_imm8
            | Cmp_AX_imm16
            | Cmp_EAX_imm32
            | Cmp_RAX_imm32
            | Test_AL_imm8
            | Test_AX_imm16
            | Test_EAX_imm32
            | Test_RAX_imm32
    )
}
