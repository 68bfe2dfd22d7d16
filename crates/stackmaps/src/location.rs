//! What a record says of one value.

use core::fmt;

use crate::addr::DwarfReg;

/// What kind of location it is: where the value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LocationKind {
    /// In a register, `bit_offset` bits from its least significant bit (0 but for sub-registers,
    /// such as SystemZ's high halves).
    Register {
        /// The register.
        reg: DwarfReg,
        /// Bits from the least significant bit of the register.
        bit_offset: i32,
    },
    /// The value is the address `reg + offset` itself, a stack slot.
    Direct {
        /// The base register.
        reg: DwarfReg,
        /// Bytes added to it.
        offset: i32,
    },
    /// In memory at `reg + offset`, spilled.
    Indirect {
        /// The base register.
        reg: DwarfReg,
        /// Bytes added to it.
        offset: i32,
    },
    /// A small constant, sign-extended.
    Constant {
        /// The constant.
        value: i32,
    },
    /// A large constant: an index into the map's [`Constants`](super::Constants).
    ConstantIndex {
        /// The index, which is less than the number of constants.
        index: u32,
    },
}

impl fmt::Display for LocationKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Register { reg, bit_offset: 0 } => write!(f, "{reg}"),
            Self::Register { reg, bit_offset } => write!(f, "{reg} from bit {bit_offset}"),
            Self::Direct { reg, offset } => write!(f, "the address {reg}{offset:+}"),
            Self::Indirect { reg, offset } => write!(f, "the memory at {reg}{offset:+}"),
            Self::Constant { value } => write!(f, "the constant {value}"),
            Self::ConstantIndex { index } => write!(f, "the large constant with index {index}"),
        }
    }
}

/// One location of a record: where a live value is and how many bytes it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Location {
    /// Where the value is.
    pub kind: LocationKind,
    /// The size of the value in bytes.
    pub size: u16,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (size {})", self.kind, self.size)
    }
}

/// A register that is live after a patchpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LiveOut {
    /// The register. 65,535 stands for one that has no DWARF number, such as a control register of
    /// SystemZ.
    pub reg: DwarfReg,
    /// How many of its low bytes are live.
    pub size: u8,
}
