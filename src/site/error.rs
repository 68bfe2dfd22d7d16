//! Why code and its sites are refused. Each is one sentence with the place, what was needed, what
//! was there, and how to mend it; a variant's fields are what its sentence names.

use crate::addr::{ByteOffset, CodeAddr, CodeRange, DwarfReg, FnOffset, Len};
use crate::error::{ErrorKind, ProviderError, SiteName, bytes};
use crate::{memory, stackmap};

/// The result of everything about modules and sites that can fail.
pub type Result<T> = core::result::Result<T, Error>;

/// Why a module or a site was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(
    missing_docs,
    reason = "each variant's sentence names its fields, with their units"
)]
pub enum Error {
    /// No function of the module has that name.
    #[error("the module has no function named {name:?}: use the name of its symbol")]
    NoSuchFunction { name: String },
    /// The entry of a function was asked for before its module was released.
    #[error(
        "{function} has no entry yet, as its code is not to run: call `Module::release` from when on it may"
    )]
    NotReleased { function: Box<str> },
    /// A function of the stack map is not among those of the module.
    #[error("the stack map names a function at {addr}, where the module has none: give its address and size")]
    StackMapFunction { addr: CodeAddr },
    /// Two maps, or one map twice, describe a function.
    #[error("the stack maps describe the function at {addr} twice: keep the map of the code that was kept")]
    StackMapFunctionTwice { addr: CodeAddr },
    /// A function does not lie in the module's code.
    #[error("{function} at {addr}, {}, does not lie in one code range of its module", bytes(.len))]
    FunctionOutsideCode { function: String, addr: CodeAddr, len: Len },
    /// A record's offset is beyond its function.
    #[error("{site} lies beyond its function, which has {} at {function}", bytes(.len))]
    RecordOutsideFunction { site: Box<SiteName>, function: CodeAddr, len: Len },
    /// The runtime told a reserved length of zero.
    #[error("{site} reserves no bytes: tell its numBytes, or no shape if it is not to be patched")]
    SiteEmpty { site: Box<SiteName> },
    /// The reserved bytes end beyond the function.
    #[error(
        "{site} reserves {}, beyond the end of its function of {len}: LLVM emitted fewer bytes, or the reserved length is wrong", bytes(.reserved))]
    SiteOutsideFunction { site: Box<SiteName>, reserved: Len, len: Len },
    /// Another record starts inside the reserved bytes.
    #[error(
        "{site} reserves {}, but the next record is at {next}: LLVM emitted fewer bytes, or the reserved length is wrong", bytes(.reserved))]
    SiteOverlapsRecord { site: Box<SiteName>, reserved: Len, next: FnOffset },
    /// A site's registers are those of another convention than the engine's.
    #[error(
        "{site} has the C convention of Windows, whose registers the engine does not know: compile its patchpoint with anyregcc"
    )]
    SiteConvention { site: Box<SiteName> },
    /// Two sites have bytes in common.
    #[error("{site} of {} overlaps site {other}", bytes(.reserved))]
    SitesOverlap { site: Box<SiteName>, reserved: Len, other: Box<SiteName> },
    /// The code is registered already.
    #[error("the code at {range} is registered already, as part of {other}: unregister that module first")]
    CodeAlreadyRegistered { range: CodeRange, other: CodeRange },
    /// LLVM could not encode the record, or a legal record looks so.
    #[error(
        "{site} has ID u64::MAX and no locations, as one that LLVM could not encode: use fewer live values, or another ID"
    )]
    RecordOverflowed { site: Box<SiteName> },
    /// The record names a register whose value would be lost.
    #[error(
        "{site}: the record names register {register} ({name}), which no exit saves: compile the function without the \
         extension that it belongs to (AArch64: SVE and SME, RISC-V: V, x86-64: APX), or keep the value in memory"
    )]
    RegisterNotKept { site: Box<SiteName>, register: DwarfReg, name: String },
    /// The function has instructions on scalable vectors, and nothing tells which of these are live
    /// at a site.
    #[error(
        "the instruction at {at} works on scalable vectors, which no exit saves, and nothing tells which are live at \
         {site}: compile the function without them (AArch64: SVE and SME, RISC-V: V), or let a patchpoint be there"
    )]
    ScalableVectors { site: Box<SiteName>, at: CodeAddr },
    /// The shape of a record said that it is of a kind that no stack map records.
    #[error(
        "{site} has a record: declare entry sites by function name, marked ones by PC section, told ones by `SiteSpec`"
    )]
    EntryHasNoRecord { site: Box<SiteName> },
    /// There is no table about the code with the name of a PC section.
    #[error(
        "the code came with no PC section named {section:?}: use the name in its `!pcsections` metadata, without options"
    )]
    NoSuchPcSection { section: String },
    /// A PC section's entry has no such constant.
    #[error(
        "the entry at {at} of PC section {section:?} has no constant {index}: count from 0 in the shape that was told"
    )]
    MarkConstant { section: String, at: ByteOffset, index: usize },
    /// A PC section marks what is in no function.
    #[error(
        "PC section {section:?} marks {at}, which is in no function of the module: give all functions, or the section's address"
    )]
    MarkOutsideFunctions { section: String, at: CodeAddr },
    /// A branch goes into the middle of a site. LLVM counts too many bytes for a shadow where there
    /// are instructions that emit none (fences within one thread, empty inline assembly): then what
    /// is behind the shadow counts as its own.
    #[error(
        "the branch at {from} goes to {to}, inside {site}: reserve fewer bytes, up to {to}, or let the compiler reserve more \
         or mark another instruction"
    )]
    BranchIntoSite { site: Box<SiteName>, from: CodeAddr, to: CodeAddr },
    /// What was told of a site does not fit together.
    #[error("{site}: {why}")]
    ToldInconsistent { site: Box<SiteName>, why: &'static str },
    /// What was told of a register cannot be.
    #[error("{site}: register {register} ({name}) {why}")]
    ToldRegister { site: Box<SiteName>, register: DwarfReg, name: String, why: &'static str },
    /// Other instructions are there than was told.
    #[error("{site} was told to hold {told}, and holds `{found}`: tell what is there, or where the site is")]
    NotAsTold { site: Box<SiteName>, told: &'static str, found: String },
    /// A return address cannot point there.
    #[error("{site}: byte {return_offset}, to which a call may return, {why}")]
    ToldReturnOffset { site: Box<SiteName>, return_offset: u32, why: &'static str },
    /// A call that is to be a site is in no function.
    #[error(
        "the call of {callee} at {at} is in no function: give the code that has it a symbol of type function"
    )]
    CallOutsideFunctions { callee: String, at: CodeAddr },
    /// A call that is to be a site cannot be retargeted.
    #[error("{site} cannot be retargeted: {why}")]
    CallFixed { site: Box<SiteName>, why: &'static str },
    /// The record has fewer locations than the shape says.
    #[error(
        "{site} should have {needed} locations for its result and arguments, the record has {have}: tell its shape as in the IR"
    )]
    TooFewLocations { site: Box<SiteName>, needed: u64, have: u64 },
    /// The first location of a patchpoint with a result is not a register.
    #[error(
        "{site} should have its result in a register, its first location is {found}: does it have a result?"
    )]
    ResultNotRegister { site: Box<SiteName>, found: stackmap::LocationKind },
    /// The reserved bytes do not decode, or an instruction straddles their end.
    #[error(
        "{site} reserves {}, and no whole instructions are there ({why}): is the reserved length right?", bytes(.reserved))]
    SiteUndecodable { site: Box<SiteName>, reserved: Len, why: String },
    /// The reserved bytes of a patchpoint hold something that LLVM does not put there.
    #[error("{site} reserves {}, and not just LLVM's call and nops are there: is the reserved length right?", bytes(.reserved))]
    NotLlvmPatchpoint { site: Box<SiteName>, reserved: Len },
    /// The bytes of an entry site are not all nops.
    #[error(
        "{site} reserves {}, and not just nops are there: reserve them with \"patchable-function-entry\"", bytes(.reserved))]
    EntryNotNops { site: Box<SiteName>, reserved: Len },
    /// Other code runs before an entry site, or branches there: the registers are not as a call has
    /// left them.
    #[error(
        "entry {site} is not at its function's entry: the instruction at {at} {why}; leave out `EntrySpec::at`, or promise what holds there by `EntrySpec::promised_at`"
    )]
    EntryNotAtStart { site: Box<SiteName>, at: CodeAddr, why: &'static str },
    /// More bytes are told than the stack map says are reserved.
    #[error(
        "{site} is told to reserve {}, its stack map says {recorded}: tell no more than that", bytes(.reserved))]
    ReservedBeyondRecorded { site: Box<SiteName>, reserved: Len, recorded: Len },
    /// The stack map does not hold the reserved length.
    #[error("the stack map does not tell the reserved length of {site}, as flat ones may: tell it")]
    ReservedLengthNotTold { site: Box<SiteName> },
    /// The reserved length cannot be told from the bytes.
    #[error("the reserved length of {site} cannot be inferred after {}: {why}; tell it", bytes(.seen))]
    ReservedLengthAmbiguous { site: Box<SiteName>, seen: Len, why: &'static str },
    /// The module has more different shapes than can be numbered.
    #[error("a module cannot have more than {limit} different shapes: register it in parts")]
    TooManyShapes { limit: u32 },
    /// A site was to be described twice.
    #[error(
        "{site} has a description already, which handlers may be reading: keep what changes behind a lock in it"
    )]
    SiteDescribed { site: Box<SiteName> },
    /// The module has been unregistered, or belongs to another engine.
    #[error("{site} belongs to no module that is registered with this engine")]
    SiteForeign { site: Box<SiteName> },
    /// A site has no room for a patchable jump.
    #[error("{site} reserves {}; to be live it needs {needed} at its address: raise numBytes", bytes(.reserved))]
    NoPatchableJump { site: Box<SiteName>, reserved: Len, needed: Len },
    /// A change was asked for a shadow or marked site of a live module.
    #[error(
        "{site} holds the function's own instructions, and its module is live: it can only be invalidated, by a trap"
    )]
    ShadowNotArmed { site: Box<SiteName> },
    /// What a compiler wrote about its code cannot be read.
    #[error(transparent)]
    Tables(#[from] stackmap::Error),
    /// The code is larger than an image can be.
    #[error(transparent)]
    Link(Box<patchpoint_link::Error>),
    /// The memory of the code refuses.
    #[error(transparent)]
    Memory(memory::Error),
    /// Whoever [tells the shapes](super::IntoShape) refuses, or somebody else's memory does.
    #[error(transparent)]
    Provider(#[from] ProviderError),
}

impl Error {
    /// Which of the few kinds of errors this is.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Tables(why) => why.kind().into(),
            Self::Link(why) => why.kind().into(),
            Self::Memory(why) => why.kind(),
            Self::Provider(why) => why.kind(),
            Self::StackMapFunction { .. }
            | Self::StackMapFunctionTwice { .. }
            | Self::FunctionOutsideCode { .. }
            | Self::RecordOutsideFunction { .. }
            | Self::RecordOverflowed { .. }
            | Self::MarkOutsideFunctions { .. }
            | Self::CallOutsideFunctions { .. }
            | Self::SiteUndecodable { .. }
            | Self::NotLlvmPatchpoint { .. } => ErrorKind::Malformed,
            Self::SiteConvention { .. }
            | Self::RegisterNotKept { .. }
            | Self::ScalableVectors { .. }
            | Self::CallFixed { .. }
            | Self::TooManyShapes { .. } => ErrorKind::Unsupported,
            Self::NoSuchFunction { .. } | Self::NoSuchPcSection { .. } | Self::MarkConstant { .. } => {
                ErrorKind::NotFound
            }
            Self::SiteEmpty { .. }
            | Self::SiteOutsideFunction { .. }
            | Self::SiteOverlapsRecord { .. }
            | Self::SitesOverlap { .. }
            | Self::CodeAlreadyRegistered { .. }
            | Self::EntryHasNoRecord { .. }
            | Self::BranchIntoSite { .. }
            | Self::TooFewLocations { .. }
            | Self::ResultNotRegister { .. }
            | Self::EntryNotNops { .. }
            | Self::EntryNotAtStart { .. }
            | Self::ToldInconsistent { .. }
            | Self::ToldRegister { .. }
            | Self::NotAsTold { .. }
            | Self::ToldReturnOffset { .. }
            | Self::ReservedBeyondRecorded { .. }
            | Self::ReservedLengthNotTold { .. }
            | Self::ReservedLengthAmbiguous { .. }
            | Self::SiteDescribed { .. }
            | Self::NoPatchableJump { .. }
            | Self::ShadowNotArmed { .. } => ErrorKind::Refused,
            Self::NotReleased { .. } => ErrorKind::Busy,
            Self::SiteForeign { .. } => ErrorKind::Gone,
        }
    }

    /// The site that it is about, if it is about one.
    #[must_use]
    pub fn site(&self) -> Option<&SiteName> {
        match self {
            Self::RecordOutsideFunction { site, .. }
            | Self::SiteEmpty { site, .. }
            | Self::SiteOutsideFunction { site, .. }
            | Self::SiteOverlapsRecord { site, .. }
            | Self::SiteConvention { site, .. }
            | Self::SitesOverlap { site, .. }
            | Self::RecordOverflowed { site, .. }
            | Self::RegisterNotKept { site, .. }
            | Self::ScalableVectors { site, .. }
            | Self::EntryHasNoRecord { site, .. }
            | Self::BranchIntoSite { site, .. }
            | Self::CallFixed { site, .. }
            | Self::TooFewLocations { site, .. }
            | Self::ResultNotRegister { site, .. }
            | Self::SiteUndecodable { site, .. }
            | Self::NotLlvmPatchpoint { site, .. }
            | Self::EntryNotNops { site, .. }
            | Self::ToldInconsistent { site, .. }
            | Self::ToldRegister { site, .. }
            | Self::NotAsTold { site, .. }
            | Self::ToldReturnOffset { site, .. }
            | Self::EntryNotAtStart { site, .. }
            | Self::ReservedBeyondRecorded { site, .. }
            | Self::ReservedLengthNotTold { site, .. }
            | Self::ReservedLengthAmbiguous { site, .. }
            | Self::SiteDescribed { site, .. }
            | Self::SiteForeign { site, .. }
            | Self::NoPatchableJump { site, .. }
            | Self::ShadowNotArmed { site, .. } => Some(site),
            _ => None,
        }
    }
}

/// An error of memory's, or the one of a link or a provider that it hands on.
impl From<memory::Error> for Error {
    fn from(error: memory::Error) -> Self {
        match error {
            memory::Error::Link(why) => Self::Link(why),
            memory::Error::Provider(why) => Self::Provider(why),
            own => Self::Memory(own),
        }
    }
}

impl From<patchpoint_link::Error> for Error {
    fn from(error: patchpoint_link::Error) -> Self {
        Self::Link(Box::new(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::testing::names_all_sites;

    /// The fields are named alike everywhere.
    #[test]
    fn no_error_with_a_site_is_left_out() {
        assert!(names_all_sites(include_str!("error.rs")) > 20);
    }

    /// What changes sites returns these by value, in the engine's.
    #[test]
    fn the_error_of_a_site_is_small() {
        assert!(size_of::<Error>() <= 72, "{}", size_of::<Error>());
    }
}
