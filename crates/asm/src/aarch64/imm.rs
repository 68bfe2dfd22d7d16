//! Immediates that instructions can hold. Each type is made only of values that fit.

use dynasmrt::aarch64::encode_logical_immediate_64bit;

use crate::hole::{Class, Classes};
use crate::op::Width;

/// Of additions, subtractions and comparisons: 12 bits, as they are or shifted to the left by 12.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Imm12 {
    Low(u32),
    High(u32),
}

/// What two additions of an immediate reach.
pub(super) const TWO_IMMEDIATES: u64 = 1 << 24;

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
        Self::of_size(disp, width.bytes().into())
    }

    /// The same for an access of so many bytes.
    pub(super) fn of_size(disp: i32, size: u32) -> Option<Self> {
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

/// Of a displacement, in which form an access of so many bytes has it.
fn displacement(value: u64, size: u8) -> Class {
    match Disp::of_size(value as i32, size.into()) {
        Some(Disp::Scaled(_)) => Class::Of(0),
        Some(Disp::Unscaled(_)) => Class::Of(1),
        None => Class::Only(value),
    }
}

/// Of a number that is compared, in which form it is, and whether its opposite is added.
pub(super) const COMPARED: Classes = Classes::new(|value, _| {
    let number = value as i64;
    match Imm12::new(number.unsigned_abs()) {
        Some(Imm12::Low(_)) => Class::Of((number < 0).into()),
        Some(Imm12::High(_)) => Class::Of(2 | u64::from(number < 0)),
        None => Class::Only(value),
    }
});

/// Whether a number, or its opposite, is none of additions and comparisons.
pub(super) const BEYOND: Classes = Classes::new(|value, _| match Imm12::new((value as i64).unsigned_abs()) {
    Some(_) => Class::Only(value),
    None => Class::Of(0),
});

/// Of a number that is added in at most two steps, which ones.
pub(super) const ADDED: Classes = Classes::new(|value, _| {
    let (negative, size) = ((value as i64) < 0, (value as i64).unsigned_abs());
    match size {
        1..TWO_IMMEDIATES => {
            let (high, low) = (size >> 12 != 0, size & 0xfff != 0);
            Class::Of(u64::from(negative) << 2 | u64::from(high) << 1 | u64::from(low))
        }
        _ => Class::Only(value),
    }
});

/// The classes of displacements in accesses of that width.
pub(super) fn displacements(width: Width) -> Classes {
    Classes {
        of: displacement,
        with: width.bytes() as u8,
    }
}
