//! What operations work on.

#![allow(unsafe_code, reason = "an address is a promise")]

use llvm_stackmaps::addr::{CodeAddr, DwarfReg};

use crate::op::{Extension, Label, Width};

/// An operand in terms of the site: what it is there is known when the sequence is assembled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operand {
    /// The n-th argument of the patchpoint. With the C convention: the n-th integer argument, where
    /// floating-point arguments do not count and all of these are in registers.
    Arg(u32),
    /// The n-th floating-point argument of a patchpoint or entry with the C convention.
    FloatArg(u32),
    /// The n-th live value: of the record's locations, the n-th behind result and arguments.
    Live(u32),
    /// The n-th location of the record.
    Location(u32),
    /// The result of the patchpoint. With the C convention: an integer or a pointer.
    Result,
    /// The result of a patchpoint with the C convention that returns a floating-point number.
    FloatResult,
    /// A general register that is free at the site, the same for the whole sequence. What it holds
    /// at the beginning is not known.
    Temp,
    /// A register by its DWARF number.
    Reg(DwarfReg),
    /// A constant; signed ones are sign-extended.
    Imm(u64),
}

/// The n-th argument of the patchpoint.
#[must_use]
pub const fn arg(n: u32) -> Operand {
    Operand::Arg(n)
}

/// The n-th floating-point argument of a patchpoint with the C convention.
#[must_use]
pub const fn float_arg(n: u32) -> Operand {
    Operand::FloatArg(n)
}

/// The n-th live value: of the record's locations, the n-th behind result and arguments.
#[must_use]
pub const fn live(n: u32) -> Operand {
    Operand::Live(n)
}

/// The n-th location of the record.
#[must_use]
pub const fn location(n: u32) -> Operand {
    Operand::Location(n)
}

/// The result of the patchpoint.
#[must_use]
pub const fn result() -> Operand {
    Operand::Result
}

/// The floating-point result of a patchpoint with the C convention.
#[must_use]
pub const fn float_result() -> Operand {
    Operand::FloatResult
}

/// A general register that is free at the site, the same for the whole sequence: where a value
/// is that has to be taken apart before it is looked at.
#[must_use]
pub const fn temp() -> Operand {
    Operand::Temp
}

/// A register by its DWARF number, as the constants of `patchpoint-isa` name them.
#[must_use]
pub const fn reg(reg: DwarfReg) -> Operand {
    Operand::Reg(reg)
}

/// A value in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mem {
    pub(super) base: Operand,
    pub(super) disp: i32,
    pub(super) width: Width,
    pub(super) extension: Extension,
}

impl Mem {
    /// The same field of what is at `base` plus `by`; `None` beyond 2 GiB.
    #[must_use]
    pub fn of(self, base: Operand, by: i32) -> Option<Self> {
        let disp = self.disp.checked_add(by)?;
        Some(Self { base, disp, ..self })
    }
}

/// The low bytes of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OperandPart {
    pub(super) operand: Operand,
    pub(super) width: Width,
    pub(super) extension: Extension,
}

/// A type of integer as which memory or an operand is read: `u32::at(arg(0), 8)` is the four bytes
/// at the first argument plus 8, extended with zeros where they are loaded.
pub trait Field {
    /// The width in memory.
    const WIDTH: Width;
    /// How it fills a register.
    const EXTENSION: Extension;

    /// The memory `disp` bytes behind the address that `base` is. A constant as base is a fixed
    /// address.
    #[must_use]
    fn at(base: impl Into<Operand>, disp: i32) -> Mem {
        Mem {
            base: base.into(),
            disp,
            width: Self::WIDTH,
            extension: Self::EXTENSION,
        }
    }

    /// The low bytes of an operand.
    #[must_use]
    fn of(operand: impl Into<Operand>) -> OperandPart {
        OperandPart {
            operand: operand.into(),
            width: Self::WIDTH,
            extension: Self::EXTENSION,
        }
    }
}

/// Any value that an operation reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Source {
    /// All of an operand.
    Operand(Operand),
    /// The low bytes of an operand.
    Part(OperandPart),
    /// Memory.
    Mem(Mem),
}

impl Source {
    /// How many bytes are read, and how they fill a register; `None` for all of an operand.
    #[must_use]
    pub const fn read_as(self) -> Option<(Width, Extension)> {
        match self {
            Self::Operand(_) => None,
            Self::Part(part) => Some((part.width, part.extension)),
            Self::Mem(mem) => Some((mem.width, mem.extension)),
        }
    }
}

impl From<Mem> for Source {
    fn from(mem: Mem) -> Self {
        Self::Mem(mem)
    }
}

impl From<OperandPart> for Source {
    fn from(part: OperandPart) -> Self {
        Self::Part(part)
    }
}

impl From<Operand> for Source {
    fn from(operand: Operand) -> Self {
        Self::Operand(operand)
    }
}

impl From<DwarfReg> for Operand {
    fn from(reg: DwarfReg) -> Self {
        Self::Reg(reg)
    }
}

impl From<DwarfReg> for Source {
    fn from(reg: DwarfReg) -> Self {
        Self::Operand(Operand::Reg(reg))
    }
}

impl From<CodeAddr> for Operand {
    fn from(addr: CodeAddr) -> Self {
        Self::Imm(addr.get())
    }
}

impl From<CodeAddr> for Source {
    fn from(addr: CodeAddr) -> Self {
        Self::Operand(addr.into())
    }
}

macro_rules! integers {
    ($($int:ty, $wide:ty, $width:ident, $extension:ident;)*) => {
        $(
            impl Field for $int {
                const WIDTH: Width = Width::$width;
                const EXTENSION: Extension = Extension::$extension;
            }

            impl From<$int> for Operand {
                fn from(value: $int) -> Self {
                    Self::Imm(<$wide>::from(value) as u64)
                }
            }

            impl From<$int> for Source {
                fn from(value: $int) -> Self {
                    Self::Operand(value.into())
                }
            }
        )*
    };
}

integers! {
    u8, u64, B1, Zero; u16, u64, B2, Zero; u32, u64, B4, Zero; u64, u64, B8, Zero;
    i8, i64, B1, Sign; i16, i64, B2, Sign; i32, i64, B4, Sign; i64, i64, B8, Sign;
}

/// Where a sequence goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Target {
    /// The site's exit stub for an inline cache miss.
    Miss,
    /// The site's exit stub for a deoptimization.
    Deopt,
    /// The end of the site: on with the compiled code.
    End,
    /// A label of the sequence.
    Label(Label),
    /// An address outside, which is entered by a jump and does not come back: see [`Target::addr`].
    Addr(TargetAddr),
}

impl Target {
    /// An address outside, which is entered by a jump and does not come back.
    ///
    /// # Safety
    ///
    /// As long as a sequence with this target may be executed at a site, there is code at `addr`
    /// that goes on from there: with the registers and the stack as the compiled code has them at
    /// the branch, and it hands them on as whoever it goes on to needs them. What patchpoint's
    /// `Engine::publish_stub` returned is such code for sequences of the same site, until its
    /// module is unregistered.
    #[must_use]
    pub const unsafe fn addr(addr: CodeAddr) -> Self {
        Self::to(addr)
    }

    /// The same for who has that promise from its caller.
    pub(super) const fn to(addr: CodeAddr) -> Self {
        Self::Addr(TargetAddr(addr))
    }
}

/// An address that somebody has promised to be fit for a branch; only [`Target::addr`] makes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TargetAddr(CodeAddr);

impl TargetAddr {
    /// The address.
    #[inline]
    #[must_use]
    pub const fn get(self) -> CodeAddr {
        self.0
    }
}

impl From<Label> for Target {
    fn from(label: Label) -> Self {
        Self::Label(label)
    }
}
