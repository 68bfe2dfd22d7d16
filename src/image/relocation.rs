//! The relocations of x86-64: what each computes, how wide it is, which values fit.
//!
//! Source: System V ABI, AMD64 supplement, table 4.9 (relocation types), with its letters: S the symbol, A
//! the addend, P the place, G the offset of the symbol's GOT entry, GOT the table's address, L the symbol
//! or a stub that goes there, Z the symbol's size. Which of 32-bit forms are signed: the same table's
//! text on R_X86_64_32 and 32S; everything relative is signed.

use object::elf;

/// What a relocation writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Formula {
    /// Nothing.
    Nothing,
    /// S + A.
    Absolute,
    /// S + A - P.
    Relative,
    /// L + A - P.
    Branch,
    /// L + A - GOT, where L may be S: all 64 bits are there.
    BranchFromGot,
    /// G + A.
    GotOffset,
    /// G + GOT + A - P.
    GotEntry,
    /// GOT + A - P.
    GotBase,
    /// S + A - GOT.
    FromGot,
    /// Z + A.
    Size,
}

impl Formula {
    /// Whether it needs an entry in the global offset table for the symbol.
    pub(super) const fn needs_got(self) -> bool {
        matches!(self, Self::GotOffset | Self::GotEntry)
    }

    /// Whether it needs the place to have an address.
    pub(super) const fn needs_place(self) -> bool {
        matches!(
            self,
            Self::Relative | Self::Branch | Self::GotEntry | Self::GotBase
        )
    }
}

/// Which values fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    /// Sign extension of the field gives the value.
    Signed,
    /// Zero extension of the field gives the value.
    Unsigned,
    /// Either of them.
    Either,
}

macro_rules! relocations {
    ($($name:ident: $constant:ident, $formula:ident, $width:literal, $fit:ident;)*) => {
        /// The type of an edge: a relocation of x86-64 ELF.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Relocation {
            $(#[doc = concat!("`", stringify!($constant), "`, ", $width, " bytes.")] $name,)*
        }

        impl Relocation {
            /// The relocation with this number in ELF, if it is supported.
            #[must_use]
            pub const fn from_elf(number: u32) -> Option<Self> {
                match number {
                    $(elf::$constant => Some(Self::$name),)*
                    _ => None,
                }
            }

            /// The ABI's name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($constant),)*
                }
            }

            /// How many bytes it writes.
            #[must_use]
            pub const fn width(self) -> u8 {
                match self {
                    $(Self::$name => $width,)*
                }
            }

            pub(super) const fn formula(self) -> Formula {
                match self {
                    $(Self::$name => Formula::$formula,)*
                }
            }

            pub(super) const fn fit(self) -> Fit {
                match self {
                    $(Self::$name => Fit::$fit,)*
                }
            }
        }
    };
}

relocations! {
    None: R_X86_64_NONE, Nothing, 0, Either;
    Abs64: R_X86_64_64, Absolute, 8, Either;
    Abs32: R_X86_64_32, Absolute, 4, Unsigned;
    Abs32S: R_X86_64_32S, Absolute, 4, Signed;
    Abs16: R_X86_64_16, Absolute, 2, Either;
    Abs8: R_X86_64_8, Absolute, 1, Either;
    Pc64: R_X86_64_PC64, Relative, 8, Either;
    Pc32: R_X86_64_PC32, Relative, 4, Signed;
    Pc16: R_X86_64_PC16, Relative, 2, Signed;
    Pc8: R_X86_64_PC8, Relative, 1, Signed;
    Plt32: R_X86_64_PLT32, Branch, 4, Signed;
    PltOff64: R_X86_64_PLTOFF64, BranchFromGot, 8, Either;
    Got32: R_X86_64_GOT32, GotOffset, 4, Signed;
    Got64: R_X86_64_GOT64, GotOffset, 8, Either;
    GotPlt64: R_X86_64_GOTPLT64, GotOffset, 8, Either;
    GotPcRel: R_X86_64_GOTPCREL, GotEntry, 4, Signed;
    GotPcRelX: R_X86_64_GOTPCRELX, GotEntry, 4, Signed;
    RexGotPcRelX: R_X86_64_REX_GOTPCRELX, GotEntry, 4, Signed;
    GotPcRel64: R_X86_64_GOTPCREL64, GotEntry, 8, Either;
    GotPc32: R_X86_64_GOTPC32, GotBase, 4, Signed;
    GotPc64: R_X86_64_GOTPC64, GotBase, 8, Either;
    GotOff64: R_X86_64_GOTOFF64, FromGot, 8, Either;
    Size32: R_X86_64_SIZE32, Size, 4, Unsigned;
    Size64: R_X86_64_SIZE64, Size, 8, Either;
}

impl Fit {
    /// Whether `value`, a number modulo 2^64, fits into `width` bytes.
    pub(super) fn admits(self, value: u64, width: u8) -> bool {
        if width == 0 || width >= 8 {
            return true;
        }
        let spare = 64 - 8 * u32::from(width);
        let signed = ((value << spare) as i64 >> spare) as u64 == value;
        let unsigned = value << spare >> spare == value;
        match self {
            Self::Signed => signed,
            Self::Unsigned => unsigned,
            Self::Either => signed || unsigned,
        }
    }
}

/// The name of a relocation that is not supported, and why.
pub(super) fn refused(number: u32) -> (Option<&'static str>, &'static str) {
    const TLS: &str =
        "thread-local storage needs a thread runtime; keep such data in memory that the runtime passes";
    const DYNAMIC: &str = "it belongs into linked files, not into objects";
    match number {
        elf::R_X86_64_DTPMOD64 => (Some("R_X86_64_DTPMOD64"), TLS),
        elf::R_X86_64_DTPOFF64 => (Some("R_X86_64_DTPOFF64"), TLS),
        elf::R_X86_64_TPOFF64 => (Some("R_X86_64_TPOFF64"), TLS),
        elf::R_X86_64_TLSGD => (Some("R_X86_64_TLSGD"), TLS),
        elf::R_X86_64_TLSLD => (Some("R_X86_64_TLSLD"), TLS),
        elf::R_X86_64_DTPOFF32 => (Some("R_X86_64_DTPOFF32"), TLS),
        elf::R_X86_64_GOTTPOFF => (Some("R_X86_64_GOTTPOFF"), TLS),
        elf::R_X86_64_TPOFF32 => (Some("R_X86_64_TPOFF32"), TLS),
        elf::R_X86_64_GOTPC32_TLSDESC => (Some("R_X86_64_GOTPC32_TLSDESC"), TLS),
        elf::R_X86_64_TLSDESC_CALL => (Some("R_X86_64_TLSDESC_CALL"), TLS),
        elf::R_X86_64_TLSDESC => (Some("R_X86_64_TLSDESC"), TLS),
        elf::R_X86_64_COPY => (Some("R_X86_64_COPY"), DYNAMIC),
        elf::R_X86_64_GLOB_DAT => (Some("R_X86_64_GLOB_DAT"), DYNAMIC),
        elf::R_X86_64_JUMP_SLOT => (Some("R_X86_64_JUMP_SLOT"), DYNAMIC),
        elf::R_X86_64_RELATIVE => (Some("R_X86_64_RELATIVE"), DYNAMIC),
        elf::R_X86_64_RELATIVE64 => (Some("R_X86_64_RELATIVE64"), DYNAMIC),
        elf::R_X86_64_IRELATIVE => (Some("R_X86_64_IRELATIVE"), DYNAMIC),
        _ => (
            None,
            "the x86-64 ABI gives this number no meaning that LLVM emits",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_each_fit() {
        let min = i64::from(i32::MIN) as u64;
        assert!(Fit::Signed.admits(min, 4) && !Fit::Signed.admits(min - 1, 4));
        assert!(Fit::Signed.admits(0x7fff_ffff, 4) && !Fit::Signed.admits(0x8000_0000, 4));
        assert!(Fit::Unsigned.admits(0xffff_ffff, 4) && !Fit::Unsigned.admits(0x1_0000_0000, 4));
        assert!(!Fit::Unsigned.admits(u64::MAX, 4));
        assert!(Fit::Either.admits(u64::MAX, 1) && Fit::Either.admits(255, 1) && !Fit::Either.admits(256, 1));
        assert!(Fit::Signed.admits(u64::MAX, 8));
    }
}
