//! Resolved operations: what is left of a sequence when every operand has become a place of this
//! site.
//!
//! `sequence/` produces these, each architecture's [`Backend`](crate::backend::Backend) encodes
//! them.

use core::fmt;
use core::num::NonZeroU16;

use llvm_stackmaps::addr::{CodeAddr, DwarfReg};

/// The width of a memory access or of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Width {
    /// 1 byte.
    B1,
    /// 2 bytes.
    B2,
    /// 4 bytes.
    B4,
    /// 8 bytes.
    B8,
}

impl Width {
    /// The number of bytes.
    #[must_use]
    pub const fn bytes(self) -> u16 {
        match self {
            Self::B1 => 1,
            Self::B2 => 2,
            Self::B4 => 4,
            Self::B8 => 8,
        }
    }

    /// The width of that many bytes, if there is one.
    #[must_use]
    pub const fn of(bytes: u16) -> Option<Self> {
        match bytes {
            1 => Some(Self::B1),
            2 => Some(Self::B2),
            4 => Some(Self::B4),
            8 => Some(Self::B8),
            _ => None,
        }
    }

    const fn bits(self) -> u32 {
        self.bytes() as u32 * 8
    }

    /// The low bits of `value` that this width has, sign-extended; `None` if `value` is neither a
    /// signed nor an unsigned number of this width.
    pub const fn sign_extend(self, value: u64) -> Option<i64> {
        let unused = 64 - self.bits();
        let signed = ((value << unused) as i64) >> unused;
        if signed as u64 == value || (value << unused) >> unused == value {
            Some(signed)
        } else {
            None
        }
    }
}

/// How a narrow value fills a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Extension {
    /// With zeros.
    Zero,
    /// With copies of its sign bit.
    Sign,
}

/// A condition between a left and a right value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cond {
    /// Equal.
    Eq,
    /// Not equal.
    Ne,
    /// Less, unsigned.
    Below,
    /// Less or equal, unsigned.
    BelowOrEqual,
    /// Greater, unsigned.
    Above,
    /// Greater or equal, unsigned.
    AboveOrEqual,
    /// Less, signed.
    Less,
    /// Less or equal, signed.
    LessOrEqual,
    /// Greater, signed.
    Greater,
    /// Greater or equal, signed.
    GreaterOrEqual,
}

impl Cond {
    /// The condition that holds where this one does not.
    #[must_use]
    pub const fn negated(self) -> Self {
        match self {
            Self::Eq => Self::Ne,
            Self::Ne => Self::Eq,
            Self::Below => Self::AboveOrEqual,
            Self::BelowOrEqual => Self::Above,
            Self::Above => Self::BelowOrEqual,
            Self::AboveOrEqual => Self::Below,
            Self::Less => Self::GreaterOrEqual,
            Self::LessOrEqual => Self::Greater,
            Self::Greater => Self::LessOrEqual,
            Self::GreaterOrEqual => Self::Less,
        }
    }

    /// The condition that says the same with the two values exchanged.
    #[must_use]
    pub const fn swapped(self) -> Self {
        match self {
            Self::Eq => Self::Eq,
            Self::Ne => Self::Ne,
            Self::Below => Self::Above,
            Self::BelowOrEqual => Self::AboveOrEqual,
            Self::Above => Self::Below,
            Self::AboveOrEqual => Self::BelowOrEqual,
            Self::Less => Self::Greater,
            Self::LessOrEqual => Self::GreaterOrEqual,
            Self::Greater => Self::Less,
            Self::GreaterOrEqual => Self::LessOrEqual,
        }
    }
}

/// What is done to all 64 bits of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bits {
    /// Keeps the bits that the mask has.
    And(u64),
    /// Shifts to the left by 0 to 63 bits; zeros come in.
    Left(u8),
    /// Shifts to the right by 0 to 63 bits; zeros come in.
    Right(u8),
    /// Shifts to the right by 0 to 63 bits; copies of the sign come in.
    RightSigned(u8),
}

/// A position inside a sequence that its branches may name. The runtime chooses the numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Label(u32);

impl Label {
    /// The label of that number.
    #[must_use]
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// Its number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Debug for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "label {}", self.0)
    }
}

/// Where a branch goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dest {
    /// A label of the sequence.
    Label(Label),
    /// The end of the site.
    End,
    /// An address outside.
    Addr(CodeAddr),
}

/// What an address is based on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// A register.
    Reg(DwarfReg),
    /// A pointer that has been spilled to `[reg + disp]`.
    Slot {
        /// The register that points near the slot.
        reg: DwarfReg,
        /// The distance of the slot, in bytes.
        disp: i32,
    },
    /// A fixed address.
    Absolute(u64),
}

/// Which of its sequence's values a constant or a displacement is: its number among those of the
/// [`Outline`](crate::sequence::Outline). By it the encoder tells where in the code it has put the
/// value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueNumber(NonZeroU16);

impl ValueNumber {
    /// That number, unless it is 65,535 or more.
    #[must_use]
    pub fn new(number: u32) -> Option<Self> {
        let one_more = u16::try_from(number.checked_add(1)?).ok()?;
        NonZeroU16::new(one_more).map(Self)
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0.get() as u32 - 1
    }
}

/// A memory address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// What it is based on.
    pub base: Base,
    /// The distance from there, in bytes.
    pub disp: i32,
    /// Which value of the sequence the distance is, if it is just that.
    pub number: Option<ValueNumber>,
}

/// A value that an operation reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpValue {
    /// In a register.
    Reg(DwarfReg),
    /// Known, and which value of the sequence it is, if it is one.
    Imm(u64, Option<ValueNumber>),
    /// In memory.
    Mem(Address),
    /// The address of a stack slot.
    Frame {
        /// The register that points into the frame.
        reg: DwarfReg,
        /// The distance of the slot, in bytes.
        disp: i32,
    },
}

impl OpValue {
    /// A constant that is none of the sequence's values.
    #[must_use]
    pub const fn imm(value: u64) -> Self {
        Self::Imm(value, None)
    }
}

/// A resolved operation.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "each variant's sentence names its fields")]
pub enum Op<'a> {
    /// Writes the low `width` bytes of `src`, extended, to all of `dst`.
    Move { dst: DwarfReg, src: OpValue, width: Width, extension: Extension },
    /// Writes the low `width` bytes of `src` to memory.
    Store { to: Address, src: OpValue, width: Width },
    /// Adds the low `width` bytes of `src`, extended, to all of `dst`.
    AddToReg { dst: DwarfReg, src: OpValue, width: Width, extension: Extension },
    /// Changes all bits of `dst`, a general register. Shifts are by less than 64. A mask is the
    /// value of that number.
    Bits { dst: DwarfReg, what: Bits, number: Option<ValueNumber> },
    /// Adds `src` to memory.
    AddToMem { to: Address, src: OpValue, width: Width, atomic: bool },
    /// Branches if the condition holds between the low `width` bytes of the values.
    Branch { cond: Cond, lhs: OpValue, rhs: OpValue, width: Width, dest: Dest },
    /// Jumps.
    Jump(Dest),
    /// Calls.
    Call(CodeAddr),
    /// Returns to the caller of the function.
    Return,
    /// Raises the exception of an invalid instruction.
    Trap,
    /// Bytes as they are.
    Raw(&'a [u8]),
}
