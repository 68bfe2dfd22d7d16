//! The linker's refusals. Each is one sentence with the place, what was needed, what was there, and
//! how to mend it; a variant's fields are what its sentence names.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use llvm_stackmaps::addr::{ByteOffset, CodeAddr, Len};
use patchpoint_isa::Arch;

use crate::MAX_SIZE;
use crate::format::ObjectFormat;
use crate::image::SegmentKind;

/// The result of everything here that can fail.
pub type Result<T> = core::result::Result<T, Error>;

/// Why an object was refused, or a graph could not be linked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(
    missing_docs,
    reason = "each variant's sentence names its fields, with their units"
)]
pub enum Error {
    /// The bytes are no object that the loader reads.
    #[error(
        "cannot load {found}: needs a relocatable object (llc -filetype=obj, clang -c): 64-bit ELF for x86-64, AArch64, \
         PowerPC64, s390x or RISC-V, Mach-O for x86-64 or arm64, COFF for x86-64"
    )]
    ObjectUnsupported { found: String },
    /// The object file contradicts itself or ends too early.
    #[error("malformed object: {what}: {reason}")]
    ObjectMalformed { what: &'static str, reason: String },
    /// A section needs more than loading, or may not be loaded.
    #[error("section {section} cannot be loaded: {reason}")]
    SectionRefused { section: String, reason: &'static str },
    /// The image is larger than the loader takes.
    #[error("the image needs at least {size} bytes, more than the limit of {limit}: {}", mend_size(*limit))]
    ImageTooLarge { size: u64, limit: u64 },
    /// A relocation that is unknown, or not possible in its place.
    #[error("{relocation} at {section}+{offset} cannot be applied: {reason}")]
    RelocationUnsupported { relocation: String, section: String, offset: ByteOffset, reason: &'static str },
    /// A symbol whose place depends on the thread.
    #[error(
        "`{symbol}` ({place}) is thread-local, which only the system's loader can lay out: compile with clang's \
         -femulated-tls or llc's -emulated-tls, and resolve __emutls_get_address, which they call, by patchpoint's \
         image::emulated_tls or the compiler's library; or keep it in memory that the runtime hands to each thread"
    )]
    ThreadLocal { symbol: String, place: String },
    /// A relocation changes bytes that its section does not have.
    #[error("{relocation} at {section}+{offset} is outside the section's {size} bytes")]
    RelocationOutsideSection { relocation: &'static str, section: String, offset: ByteOffset, size: u64 },
    /// A relocation's value does not fit.
    #[error(
        "{relocation} at {section}+{offset} ({from}) cannot reach `{symbol}` ({to}): {value} does not fit into {bits} \
         bits: {mend}"
    )]
    RelocationOutOfReach {
        relocation: &'static str,
        section: String,
        offset: ByteOffset,
        symbol: Box<str>,
        from: CodeAddr,
        to: CodeAddr,
        value: i64,
        bits: u8,
        mend: &'static str,
    },
    /// A relocation's value is no multiple of the unit that its instruction counts in.
    #[error(
        "{relocation} at {section}+{offset} cannot refer to `{symbol}` ({to}): {value} is no multiple of {align}: \
         align the symbol"
    )]
    RelocationMisaligned {
        relocation: &'static str,
        section: String,
        offset: ByteOffset,
        symbol: Box<str>,
        to: CodeAddr,
        value: i64,
        align: u32,
    },
    /// Symbols that neither the object nor the resolver defines.
    #[error("undefined: {}: define them in the resolver", symbols.join(", "))]
    SymbolsUnresolved { symbols: Vec<String> },
    /// Two objects that are linked together define the same symbol, and neither gives way.
    #[error("`{symbol}` is defined by both {first} and {second}: leave one out, or make one weak or local")]
    SymbolDuplicate { symbol: String, first: String, second: String },
    /// Two objects that are linked together have a group of sections of one name, but not one that
    /// stands for both.
    #[error(
        "{first} and {second} both have the group `{group}`, but {reason}: compile both alike, or leave one out"
    )]
    GroupsDiffer { group: String, first: String, second: String, reason: &'static str },
    /// A harness names a symbol that is local to two of the objects that it tests.
    #[error(
        "`{symbol}` is local to both {first} and {second}: test them in graphs of their own, or rename one"
    )]
    LocalAmbiguous { symbol: String, first: String, second: String },
    /// A harness replaces a local variable, uses of which cannot be told from those of others in
    /// its section.
    #[error(
        "`{symbol}` of {file} cannot be replaced, for it is a local variable that shares its section with others: compile \
         with -fdata-sections, or make it global"
    )]
    LocalNotReplaceable { symbol: String, file: String },
    /// Objects that are to be linked together are for different architectures.
    #[error("{second} is for {found:?}, but {first} is for {arch:?}: link them apart")]
    ObjectsDiffer { first: String, arch: Arch, second: String, found: Arch },
    /// Objects that are to be linked together are of different formats, and name the same things
    /// differently.
    #[error("{second} is a {found:?} object, but {first} is a {format:?} object: link them apart")]
    ObjectFormatsDiffer { first: String, format: ObjectFormat, second: String, found: ObjectFormat },
    /// A root is named that no object defines.
    #[error("`{symbol}` is to be kept with all it needs, but no object defines it")]
    RootUndefined { symbol: String },
    /// A link had to wait, where nobody waits.
    #[error("the link waits for {waiting_for}: poll it until it is ready")]
    LinkUnfinished { waiting_for: String },
    /// A relocation refers to a symbol that has no address.
    #[error("symbol `{symbol}` cannot be linked to: {reason}")]
    SymbolRefused { symbol: String, reason: &'static str },
    /// A segment cannot be at the address that was given.
    #[error("the {segment} segment cannot be at {addr}: {reason}")]
    SegmentMisplaced { segment: SegmentKind, addr: CodeAddr, reason: &'static str },
    /// A section cannot be at the place of its segment that was given.
    #[error("section {section} cannot be {:#x} behind its segment's start: {reason}", offset.get())]
    SectionMisplaced { section: String, offset: Len, reason: &'static str },
}

/// What to do about an image that is larger than a limit: than the largest there can be, or than
/// one that the caller sets.
fn mend_size(limit: u64) -> &'static str {
    if limit < MAX_SIZE {
        "raise it (EngineBuilder::image_limit of an engine, Graph::set_size_limit without one; at most 1 GiB), or split the object"
    } else {
        "split the object"
    }
}

/// The few kinds that errors have, for callers that treat kinds alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The bytes contradict themselves or end too early.
    Malformed,
    /// It is well-formed, and nothing here can link it.
    Unsupported,
    /// A name that nobody defines.
    NotFound,
    /// What was asked for does not go together: definitions, formats, places, sizes.
    Refused,
    /// The link has to wait for memory or symbols.
    Busy,
}

impl Error {
    /// Which of the few kinds of errors this is.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::ObjectMalformed { .. } | Self::RelocationOutsideSection { .. } => ErrorKind::Malformed,
            Self::ObjectUnsupported { .. }
            | Self::SectionRefused { .. }
            | Self::RelocationUnsupported { .. }
            | Self::ThreadLocal { .. }
            | Self::SymbolRefused { .. } => ErrorKind::Unsupported,
            Self::SymbolsUnresolved { .. } | Self::RootUndefined { .. } => ErrorKind::NotFound,
            Self::ImageTooLarge { .. }
            | Self::RelocationOutOfReach { .. }
            | Self::RelocationMisaligned { .. }
            | Self::SymbolDuplicate { .. }
            | Self::GroupsDiffer { .. }
            | Self::LocalAmbiguous { .. }
            | Self::LocalNotReplaceable { .. }
            | Self::ObjectsDiffer { .. }
            | Self::ObjectFormatsDiffer { .. }
            | Self::SegmentMisplaced { .. }
            | Self::SectionMisplaced { .. } => ErrorKind::Refused,
            Self::LinkUnfinished { .. } => ErrorKind::Busy,
        }
    }
}
