//! What the operations of sequences and the guards of caches work on.

use patchpoint::addr::{CodeAddr, DwarfReg};
use patchpoint::arch::{Cond, Label, OnReturn};
use patchpoint::sequence::{Field, Mem, Operand, OperandPart, Source, Target};

use crate::error::{Misuse, Result};

/// What an operand is.
#[repr(C)]
pub enum pp_operand_kind {
    /// The constant `value`.
    PP_OPERAND_IMM = 0,
    /// The argument of the site with number `value`.
    PP_OPERAND_ARG = 1,
    /// The floating-point argument with number `value`, with the C convention.
    PP_OPERAND_FLOAT_ARG = 2,
    /// The live value with number `value`: of the record's locations, behind result and arguments.
    PP_OPERAND_LIVE = 3,
    /// The location of the record with number `value`.
    PP_OPERAND_LOCATION = 4,
    /// The result of the site.
    PP_OPERAND_RESULT = 5,
    /// The floating-point result, with the C convention.
    PP_OPERAND_FLOAT_RESULT = 6,
    /// A general register that is free at the site.
    PP_OPERAND_TEMP = 7,
    /// The register with the DWARF number `value`.
    PP_OPERAND_REG = 8,
}

/// An operand. The functions pp_arg() and so on, below, make one.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pp_operand {
    /// One of pp_operand_kind.
    pub kind: u32,
    /// What it says.
    pub value: u64,
}

/// As what type of integer memory or an operand is read, and how it fills a register.
#[repr(C)]
pub enum pp_type {
    /// 1 byte, extended with zeros.
    PP_U8 = 0,
    /// 2 bytes, extended with zeros.
    PP_U16 = 1,
    /// 4 bytes, extended with zeros.
    PP_U32 = 2,
    /// 8 bytes.
    PP_U64 = 3,
    /// 1 byte, extended with its sign.
    PP_I8 = 4,
    /// 2 bytes, extended with their sign.
    PP_I16 = 5,
    /// 4 bytes, extended with their sign.
    PP_I32 = 6,
    /// 8 bytes.
    PP_I64 = 7,
}

/// What a source is.
#[repr(C)]
pub enum pp_source_kind {
    /// All of the operand.
    PP_SOURCE_OPERAND = 0,
    /// The low bytes of the operand, as many as the type has.
    PP_SOURCE_PART = 1,
    /// The memory at the operand plus the displacement.
    PP_SOURCE_MEMORY = 2,
}

/// A value that an operation reads, or memory that it writes. The functions pp_value_of(), pp_part()
/// and pp_at(), below, make one.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pp_source {
    /// One of pp_source_kind.
    pub kind: u32,
    /// One of pp_type.
    pub type_: u32,
    /// The operand.
    pub operand: pp_operand,
    /// The displacement of memory, in bytes.
    pub disp: i32,
}

/// Where a sequence goes.
#[repr(C)]
pub enum pp_target_kind {
    /// The site's exit stub for a miss.
    PP_TARGET_MISS = 0,
    /// The site's exit stub for a deoptimization.
    PP_TARGET_DEOPT = 1,
    /// The end of the site: on with the compiled code.
    PP_TARGET_END = 2,
    /// The label with number `value` of the sequence.
    PP_TARGET_LABEL = 3,
    /// Code at the address `value`, which is entered by a jump and does not come back. It promises
    /// that there is such code as long as the sequence may be executed.
    PP_TARGET_ADDRESS = 4,
}

/// Where a sequence goes. The functions pp_miss() and so on, below, make one.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pp_target {
    /// One of pp_target_kind.
    pub kind: u32,
    /// What it says.
    pub value: u64,
}

/// A condition between a left and a right value.
#[repr(C)]
pub enum pp_cond {
    /// Equal.
    PP_COND_EQ = 0,
    /// Not equal.
    PP_COND_NE = 1,
    /// Less, unsigned.
    PP_COND_BELOW = 2,
    /// Less or equal, unsigned.
    PP_COND_BELOW_OR_EQUAL = 3,
    /// Greater, unsigned.
    PP_COND_ABOVE = 4,
    /// Greater or equal, unsigned.
    PP_COND_ABOVE_OR_EQUAL = 5,
    /// Less, signed.
    PP_COND_LESS = 6,
    /// Less or equal, signed.
    PP_COND_LESS_OR_EQUAL = 7,
    /// Greater, signed.
    PP_COND_GREATER = 8,
    /// Greater or equal, signed.
    PP_COND_GREATER_OR_EQUAL = 9,
}

/// What a called function does when it is done.
#[repr(C)]
pub enum pp_on_return {
    /// It does not come back.
    PP_ON_RETURN_NEVER = 0,
    /// It preserves every register but the call's own scratch register and the flags.
    PP_ON_RETURN_PRESERVES_ALL = 1,
    /// It follows the platform's C convention.
    PP_ON_RETURN_FOLLOWS_C = 2,
}

fn number(value: u64) -> Result<u32> {
    u32::try_from(value).map_err(|_| Misuse::Number("number of an operand or label", value).into())
}

impl pp_operand {
    pub(crate) fn get(self) -> Result<Operand> {
        Ok(match self.kind {
            0 => Operand::Imm(self.value),
            1 => Operand::Arg(number(self.value)?),
            2 => Operand::FloatArg(number(self.value)?),
            3 => Operand::Live(number(self.value)?),
            4 => Operand::Location(number(self.value)?),
            5 => Operand::Result,
            6 => Operand::FloatResult,
            7 => Operand::Temp,
            8 => {
                let number = u16::try_from(self.value);
                let number = number.map_err(|_| Misuse::Number("DWARF register number", self.value))?;
                Operand::Reg(DwarfReg::new(number))
            }
            other => return Err(Misuse::Number("pp_operand_kind", other.into()).into()),
        })
    }
}

/// Does something with the type of integer of that number.
macro_rules! of_type {
    ($number:expr, $field:ident => $work:expr) => {
        match $number {
            0 => {
                type $field = u8;
                Ok($work)
            }
            1 => {
                type $field = u16;
                Ok($work)
            }
            2 => {
                type $field = u32;
                Ok($work)
            }
            3 => {
                type $field = u64;
                Ok($work)
            }
            4 => {
                type $field = i8;
                Ok($work)
            }
            5 => {
                type $field = i16;
                Ok($work)
            }
            6 => {
                type $field = i32;
                Ok($work)
            }
            7 => {
                type $field = i64;
                Ok($work)
            }
            other => Err($crate::error::Failure::from($crate::error::Misuse::Number(
                "pp_type",
                u64::from(other),
            ))),
        }
    };
}
pub(crate) use of_type;

impl pp_source {
    pub(crate) fn get(self) -> Result<Source> {
        let operand = self.operand.get()?;
        Ok(match self.kind {
            0 => Source::Operand(operand),
            1 => Source::Part(self.part(operand)?),
            2 => Source::Mem(self.memory()?),
            other => return Err(Misuse::Number("pp_source_kind", other.into()).into()),
        })
    }

    fn part(self, operand: Operand) -> Result<OperandPart> {
        of_type!(self.type_, T => T::of(operand))
    }

    /// The memory that is written.
    pub(crate) fn memory(self) -> Result<Mem> {
        if self.kind != pp_source_kind::PP_SOURCE_MEMORY as u32 {
            return Err(Misuse::Order("what is written to is memory: make it by pp_at()").into());
        }
        let (operand, disp) = (self.operand.get()?, self.disp);
        of_type!(self.type_, T => T::at(operand, disp))
    }
}

impl pp_target {
    /// # Safety
    /// As for [`Target::addr`], where it is an address.
    pub(crate) unsafe fn get(self) -> Result<Target> {
        Ok(match self.kind {
            0 => Target::Miss,
            1 => Target::Deopt,
            2 => Target::End,
            3 => Target::Label(Label::new(number(self.value)?)),
            // SAFETY: the caller says so.
            4 => unsafe { Target::addr(CodeAddr::new(self.value)) },
            other => return Err(Misuse::Number("pp_target_kind", other.into()).into()),
        })
    }
}

pub(crate) fn cond(number: u32) -> Result<Cond> {
    Ok(match number {
        0 => Cond::Eq,
        1 => Cond::Ne,
        2 => Cond::Below,
        3 => Cond::BelowOrEqual,
        4 => Cond::Above,
        5 => Cond::AboveOrEqual,
        6 => Cond::Less,
        7 => Cond::LessOrEqual,
        8 => Cond::Greater,
        9 => Cond::GreaterOrEqual,
        other => return Err(Misuse::Number("pp_cond", other.into()).into()),
    })
}

pub(crate) fn on_return(number: u32) -> Result<OnReturn> {
    Ok(match number {
        0 => OnReturn::Never,
        1 => OnReturn::PreservesAll,
        2 => OnReturn::FollowsC,
        other => return Err(Misuse::Number("pp_on_return", other.into()).into()),
    })
}
