//! Relocations: what each computes, which values fit, and where their bits go.
//!
//! Problem: five architectures and three formats with some hundred relocations, most of which
//! differ in nothing but the bits of an instruction that they fill. Approach: a relocation is a row
//! of its architecture's table: a [`Formula`], a [`Fit`], and a [`Field`] that moves runs of bits.
//! One loop applies them all.
//!
//! The letters are those of the ABIs: S the symbol, A the addend, P the place, G the symbol's entry
//! in the global offset table, GOT that table (on PowerPC the TOC pointer), L the symbol or a stub
//! that goes there, Z the symbol's size, V what the field holds.

use alloc::format;
use alloc::string::String;
use core::fmt;

use llvm_stackmaps::Endian;
use object::elf::{self, RelocationType};
use patchpoint_isa::Arch;

mod aarch64;
pub(crate) mod coff;
pub(crate) mod macho;
mod powerpc64;
mod riscv64;
mod s390x;
mod x86_64;

/// What a relocation writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Formula {
    /// Nothing.
    Nothing,
    /// S + A.
    Absolute,
    /// S + A - P.
    Relative,
    /// L + A - P.
    Branch,
    /// L + A - P, from code without a TOC pointer.
    BranchNoToc,
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
    /// GOT + A.
    GotAddress,
    /// Z + A.
    Size,
    /// Page(S + A) - Page(P), pages of 4 KiB.
    Page,
    /// Page(G + GOT + A) - Page(P).
    GotPage,
    /// G + GOT + A.
    GotEntryAddress,
    /// G + GOT + A - Page(GOT).
    GotFromPage,
    /// What the relocation at S writes, of which this one holds the low bits.
    LowOfPair,
    /// V + S + A.
    Add,
    /// V - S - A.
    Sub,
    /// S + A, less what [`Formula::UlebSub`] at the same place says.
    UlebSet,
    /// S + A of the [`Formula::UlebSet`] before it, less S + A.
    UlebSub,
    /// Nothing: S is what [`Formula::Difference`], which follows at the same place, subtracts.
    Subtrahend,
    /// S + A, less S of the [`Formula::Subtrahend`] before it.
    Difference,
    /// S + A - B, where B is the lowest address of the image.
    FromImageBase,
    /// S + A, less the address of the section that S is in.
    FromSection,
}

impl Formula {
    /// Whether it needs an entry in the global offset table for the symbol.
    pub(crate) const fn needs_got(self) -> bool {
        matches!(
            self,
            Self::GotOffset | Self::GotEntry | Self::GotPage | Self::GotEntryAddress | Self::GotFromPage
        )
    }

    /// Whether it needs the place to have an address.
    pub(crate) const fn needs_place(self) -> bool {
        matches!(
            self,
            Self::Relative
                | Self::Branch
                | Self::BranchNoToc
                | Self::GotEntry
                | Self::GotBase
                | Self::Page
                | Self::GotPage
        )
    }

    /// Whether a stub may stand in for the symbol.
    pub(crate) const fn is_branch(self) -> bool {
        matches!(self, Self::Branch | Self::BranchNoToc)
    }
}

/// How the value is read from the bits that are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Extension {
    /// Modulo 2^64: everything fits.
    None,
    /// By sign extension.
    Signed,
    /// By zero extension.
    Unsigned,
    /// By either.
    Either,
}

/// Which values fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Fit {
    extension: Extension,
    /// How many low bits of the value are kept.
    bits: u8,
    /// How many of them are zero, because the field does not hold them.
    zeros: u8,
    /// Added before the comparison, as the field's upper part takes the carry of its lower one.
    carry: u16,
}

/// Why a value does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Misfit {
    /// It has more bits.
    TooLarge,
    /// It is no multiple of this.
    Misaligned(u32),
}

impl Fit {
    /// Every value fits: the field holds all 64 bits, or a part of them by design.
    const ANY: Self = Self::new(Extension::None, 64);

    const fn new(extension: Extension, bits: u8) -> Self {
        Self {
            extension,
            bits,
            zeros: 0,
            carry: 0,
        }
    }

    pub(crate) const fn signed(bits: u8) -> Self {
        Self::new(Extension::Signed, bits)
    }

    pub(crate) const fn unsigned(bits: u8) -> Self {
        Self::new(Extension::Unsigned, bits)
    }

    const fn either(bits: u8) -> Self {
        Self::new(Extension::Either, bits)
    }

    /// The lowest `zeros` bits must be zero.
    const fn zeros(self, zeros: u8) -> Self {
        Self { zeros, ..self }
    }

    const fn carry(self, carry: u16) -> Self {
        Self { carry, ..self }
    }

    /// How many bits of the value are kept; 64 where it is not looked at.
    pub(crate) const fn bits(self) -> u8 {
        self.bits
    }

    /// Whether `value`, a number modulo 2^64, fits.
    pub(crate) fn check(self, value: u64) -> Result<(), Misfit> {
        let align = 1_u32 << self.zeros;
        if value & u64::from(align - 1) != 0 {
            return Err(Misfit::Misaligned(align));
        }
        let spare = 64_u32.saturating_sub(u32::from(self.bits)).min(63);
        let value = value.wrapping_add(u64::from(self.carry));
        let signed = ((value << spare) as i64 >> spare) as u64 == value;
        let unsigned = value << spare >> spare == value;
        let fits = match self.extension {
            Extension::None => true,
            Extension::Signed => signed,
            Extension::Unsigned => unsigned,
            Extension::Either => signed || unsigned,
        };
        if fits { Ok(()) } else { Err(Misfit::TooLarge) }
    }
}

/// A run of bits: those of the value from `from` on go to the field from bit `at` on, 0 being the
/// least significant.
#[derive(Debug, PartialEq, Eq, Hash)]
struct FieldPart {
    from: u8,
    bits: u8,
    at: u8,
    /// Added to the value first: half of what the part below, which is sign-extended, can hold.
    carry: u16,
}

const fn part(from: u8, bits: u8, at: u8) -> FieldPart {
    FieldPart {
        from,
        bits,
        at,
        carry: 0,
    }
}

const fn carried(from: u8, bits: u8, at: u8, carry: u16) -> FieldPart {
    FieldPart {
        from,
        bits,
        at,
        carry,
    }
}

/// The bytes that a relocation changes.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Field {
    /// How many, up to 8.
    width: u8,
    /// Two instruction words: bit 0 is the first one's in either byte order, bit 32 the second
    /// one's.
    pair: bool,
    parts: &'static [FieldPart],
}

impl Field {
    const NONE: Self = Self::new(0, &[]);
    const BYTE: Self = Self::new(1, &[part(0, 8, 0)]);
    const HALF: Self = Self::new(2, &[part(0, 16, 0)]);
    const WORD: Self = Self::new(4, &[part(0, 32, 0)]);
    const DOUBLE: Self = Self::new(8, &[part(0, 64, 0)]);

    const fn new(width: u8, parts: &'static [FieldPart]) -> Self {
        Self {
            width,
            pair: false,
            parts,
        }
    }

    const fn pair(parts: &'static [FieldPart]) -> Self {
        Self {
            width: 8,
            pair: true,
            parts,
        }
    }

    /// The field with the value's bits in place of its own.
    fn insert(&self, mut word: u64, value: u64) -> u64 {
        for part in self.parts {
            let mask = u64::MAX >> 64_u32.saturating_sub(u32::from(part.bits)).min(63);
            let bits = value.wrapping_add(u64::from(part.carry)) >> part.from & mask;
            word = word & !(mask << part.at) | bits << part.at;
        }
        word
    }

    /// The bits of the value that the field holds.
    fn extract(&self, word: u64) -> u64 {
        self.parts.iter().fold(0, |value, part| {
            let mask = u64::MAX >> 64_u32.saturating_sub(u32::from(part.bits)).min(63);
            value | (word >> part.at & mask) << part.from
        })
    }

    fn read(&self, bytes: &[u8], endian: Endian) -> u64 {
        let word = match endian {
            Endian::Little => bytes
                .iter()
                .rev()
                .fold(0, |word, byte| word << 8 | u64::from(*byte)),
            Endian::Big => bytes.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)),
        };
        self.order(word, endian)
    }

    /// A big-endian pair has its first word in the upper half.
    fn order(&self, word: u64, endian: Endian) -> u64 {
        if self.pair && endian == Endian::Big {
            word.rotate_left(32)
        } else {
            word
        }
    }
}

/// A row of an architecture's table.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct RelocationRow {
    number: u32,
    name: &'static str,
    formula: Formula,
    field: Field,
    fit: Fit,
}

/// A number that is not applied: its name, and why.
struct Refused {
    number: u32,
    name: &'static str,
    reason: &'static str,
}

pub(crate) const TLS: &str = "it is of thread-local storage, which only the system's loader can lay out";
const DYNAMIC: &str = "it belongs into linked files, not into objects";

/// Rows are written `NAME: Formula, field, fit;`, ascending by number.
macro_rules! table {
    ($($name:ident: $formula:ident, $field:expr, $fit:expr;)*) => {
        pub(super) const TABLE: &[super::RelocationRow] = &[
            $(super::RelocationRow {
                number: $name.0,
                name: stringify!($name),
                formula: super::Formula::$formula,
                field: $field,
                fit: $fit,
            },)*
        ];
    };
}
use table;

/// Names under the reason for which they are refused.
macro_rules! refused {
    ($($reason:ident => $($name:ident)*;)*) => {
        pub(super) const REFUSED: &[super::Refused] = &[
            $($(super::Refused {
                number: $name.0,
                name: stringify!($name),
                reason: $reason,
            },)*)*
        ];
    };
}
use refused;

/// The same for formats whose numbers are of other types. A number may have several rows.
macro_rules! numbered {
    ($table:ident: $($name:ident: $formula:ident, $field:expr, $fit:expr;)*) => {
        const $table: &[super::RelocationRow] = &[
            $(super::RelocationRow {
                number: $name.0 as u32,
                name: stringify!($name),
                formula: super::Formula::$formula,
                field: $field,
                fit: $fit,
            },)*
        ];
    };
}
use numbered;

macro_rules! refused_numbers {
    ($table:ident: $($reason:ident => $($name:ident)*;)*) => {
        const $table: &[super::Refused] = &[
            $($(super::Refused {
                number: $name.0 as u32,
                name: stringify!($name),
                reason: $reason,
            },)*)*
        ];
    };
}
use refused_numbers;

/// The type of an edge: a relocation of its architecture in one of the formats. A graph of one
/// format may have edges of another's, which a pass makes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Relocation(&'static RelocationRow);

impl Relocation {
    /// The relocation with this number in the architecture's ELF supplement, if it is supported.
    #[must_use]
    pub fn from_elf(arch: Arch, number: u32) -> Option<Self> {
        let table = match arch {
            Arch::X86_64 => x86_64::TABLE,
            Arch::AArch64 => aarch64::TABLE,
            Arch::PowerPc64 | Arch::PowerPc64Le | Arch::PowerPc64ElfV2 => powerpc64::TABLE,
            Arch::SystemZ => s390x::TABLE,
            Arch::RiscV64 => riscv64::TABLE,
        };
        let index = table.binary_search_by_key(&number, |row| row.number).ok()?;
        table.get(index).map(Self)
    }

    /// Whether a graph of this architecture may have it.
    pub(crate) fn is_of(self, arch: Arch) -> bool {
        let coff = if arch == Arch::X86_64 { coff::table() } else { &[] };
        coff.contains(self.0)
            || Self::from_elf(arch, self.number()) == Some(self)
            || macho::table(arch).contains(self.0)
    }

    /// The number in its format.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0.number
    }

    /// The format's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.0.name
    }

    /// How many bytes it writes; 0 where it writes none, or as many as a number of variable length
    /// has.
    #[must_use]
    pub const fn width(self) -> u8 {
        self.0.field.width
    }

    pub(crate) const fn formula(self) -> Formula {
        self.0.formula
    }

    pub(crate) const fn fit(self) -> Fit {
        self.0.fit
    }

    /// The bits of the value that are in these bytes.
    pub(crate) fn extract(self, bytes: &[u8], endian: Endian) -> u64 {
        self.0.field.extract(self.0.field.read(bytes, endian))
    }

    /// Writes the value, of which [`fit`](Self::fit) has been checked, into these bytes.
    pub(crate) fn insert(self, bytes: &mut [u8], endian: Endian, value: u64) {
        let field = &self.0.field;
        let word = field.insert(field.read(bytes, endian), value);
        let word = field.order(word, endian).to_le_bytes();
        let len = bytes.len();
        for (index, byte) in bytes.iter_mut().enumerate() {
            let significance = match endian {
                Endian::Little => index,
                Endian::Big => len - 1 - index,
            };
            *byte = word.get(significance).copied().unwrap_or(*byte);
        }
    }

    /// Whether it holds the upper bits of a distance whose lower ones another relocation holds.
    pub(crate) fn is_upper_half(self) -> bool {
        matches!(
            RelocationType(self.0.number),
            elf::R_RISCV_PCREL_HI20 | elf::R_RISCV_GOT_HI20
        ) && matches!(self.0.formula, Formula::Relative | Formula::GotEntry)
    }

    /// Whether its target must have an address of 32 bits, as the object's own have only in low
    /// memory.
    pub(crate) fn needs_low(self) -> bool {
        self.0.formula == Formula::Absolute && self.0.fit.bits == 32
    }
}

impl fmt::Debug for Relocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The name of a relocation that is not supported, and why.
pub(crate) fn why_refused(arch: Arch, number: u32) -> (String, &'static str) {
    let (refused, unknown) = match arch {
        Arch::X86_64 => (x86_64::REFUSED, x86_64::UNKNOWN),
        Arch::AArch64 => (aarch64::REFUSED, aarch64::UNKNOWN),
        Arch::PowerPc64 | Arch::PowerPc64Le | Arch::PowerPc64ElfV2 => {
            (powerpc64::REFUSED, powerpc64::UNKNOWN)
        }
        Arch::SystemZ => (s390x::REFUSED, s390x::UNKNOWN),
        Arch::RiscV64 => (riscv64::REFUSED, riscv64::UNKNOWN),
    };
    reason(refused, &[], number, unknown)
}

/// The name of a number and why it is refused: one for which there are rows is, where none of them
/// suits.
fn reason(
    refused: &[Refused],
    rows: &[RelocationRow],
    number: u32,
    unknown: &'static str,
) -> (String, &'static str) {
    if let Some(refused) = refused.iter().find(|refused| refused.number == number) {
        return (refused.name.into(), refused.reason);
    }
    match rows.iter().find(|row| row.number == number) {
        Some(row) => (row.name.into(), unknown),
        None => (format!("relocation type {number}"), unknown),
    }
}
