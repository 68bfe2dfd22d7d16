//! Immediates that instructions can hold. Each type is made only of values that fit.

use dynasmrt::aarch64::encode_logical_immediate_64bit;

use crate::op::Width;

/// Of additions, subtractions and comparisons: 12 bits, as they are or shifted to the left by 12.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Imm12 {
    Low(u32),
    High(u32),
}

impl Imm12 {
    pub(super) fn new(value: u64) -> Option<Self> {
        match value {
            0..=0xfff => Some(Self::Low(value as u32)),
            0x1000..=0xff_f000 if value & 0xfff == 0 => Some(Self::High((value >> 12) as u32)),
            _ => None,
        }
    }
}

/// Of bitwise instructions: a run of ones, rotated, repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Logical(u64);

impl Logical {
    pub(super) fn new(value: u64) -> Option<Self> {
        encode_logical_immediate_64bit(value).map(|_| Self(value))
    }

    pub(super) fn get(self) -> u64 {
        self.0
    }
}

/// One of the four 16-bit parts of a register, and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Halfword {
    pub(super) value: u32,
    /// 0, 16, 32 or 48.
    pub(super) shift: u32,
}

impl Halfword {
    /// All parts of a value, lowest first.
    pub(super) fn all(value: u64) -> [Self; 4] {
        [0, 16, 32, 48].map(|shift| Self {
            value: u32::from((value >> shift) as u16),
            shift,
        })
    }
}

/// The distance from a base register in a load or store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Disp {
    /// A multiple of the width, up to 4095 of them.
    Scaled(u32),
    /// -256 to 255.
    Unscaled(i32),
}

impl Disp {
    pub(super) fn new(disp: i32, width: Width) -> Option<Self> {
        let size = u32::from(width.bytes());
        match u32::try_from(disp) {
            Ok(disp) if disp % size == 0 && disp / size <= 0xfff => Some(Self::Scaled(disp)),
            _ if (-256..=255).contains(&disp) => Some(Self::Unscaled(disp)),
            _ => None,
        }
    }
}

/// The distance of a shift: 0 to 63.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shift(u32);

impl Shift {
    pub(super) fn new(by: u8) -> Option<Self> {
        (by < 64).then_some(Self(by.into()))
    }

    pub(super) fn get(self) -> u32 {
        self.0
    }
}
