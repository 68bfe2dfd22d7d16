//! The engine's error, which wraps those of the rooms below it, and what all of them share. Each
//! variant is one sentence with the place, what was needed, what was there, and how to mend it; a
//! variant's fields are what its sentence names.

mod kind;
mod place;
mod provider;
mod site;

pub use kind::ErrorKind;
pub use patchpoint_isa::SiteName;
pub use place::{Errno, Fate};
pub use provider::ProviderError;

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use crate::addr::{ByteOffset, CodeAddr, CodeRange, DwarfReg, FnOffset, Len, RecordId};
use crate::arch::Arch;
use crate::stackmap;
#[cfg(feature = "std")]
use crate::{memory, publish};

/// A number of bytes in words.
fn bytes(number: &impl core::fmt::Display) -> String {
    match alloc::format!("{number}").as_str() {
        "1" => String::from("1 byte"),
        number => alloc::format!("{number} bytes"),
    }
}

/// The result of everything here that can fail.
pub type Result<T> = core::result::Result<T, Error>;

/// Why something was refused or failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(
    missing_docs,
    reason = "each variant's sentence names its fields, with their units"
)]
pub enum Error {
    /// Memory refuses, or fails.
    #[cfg(feature = "std")]
    #[error(transparent)]
    Memory(memory::Error),
    /// Code cannot be published, or threads not be stopped.
    #[cfg(feature = "std")]
    #[error(transparent)]
    Publish(publish::Error),
    /// What a compiler wrote about its code cannot be read.
    #[error(transparent)]
    Tables(#[from] stackmap::Error),
    /// The displacement of a field cannot be had.
    #[error(
        "{site}: a field of a cache entry is more than 2 GiB from its object: give a displacement in reach"
    )]
    CacheField { site: Box<SiteName> },
    /// Caches belong to one engine.
    #[error("{site}: these caches are attached to sites of another engine: make caches for each engine")]
    CacheEngine { site: Box<SiteName> },
    /// A sequence cannot be assembled for its site, or its text cannot be read.
    #[cfg(feature = "std")]
    #[error(transparent)]
    Assemble(#[from] patchpoint_asm::Error),
    /// The checker refuses a sequence, an exchange or a call, or does not understand what a site
    /// holds.
    #[cfg(feature = "std")]
    #[error(transparent)]
    Check(#[from] patchpoint_verify::Error),
    /// An object cannot be read, or a graph not linked.
    #[cfg(feature = "std")]
    #[error(transparent)]
    Link(#[from] patchpoint_link::Error),
    /// Another number of function addresses than the stack map has functions.
    #[error(
        "the stack map has {needed} functions, {found} addresses were given: give one for each, in its order"
    )]
    AdoptedFunctionCount { needed: usize, found: usize },
    /// A function of adopted code that cannot be.
    #[error("function {name} at {addr} cannot be adopted: {reason}")]
    AdoptedFunction { name: String, addr: CodeAddr, reason: &'static str },
    /// Somebody else's implementation of a trait of this crate has failed.
    #[error(transparent)]
    Provider(#[from] ProviderError),
    /// What a thread in a mirror is said to have saved cannot be.
    #[error("a thread that left compiled code handed over {why}: its stack was written by somebody else")]
    SavedFrame { why: &'static str },
    /// A frame in a mirror has an address that is not on its stack.
    #[error(
        "patchpoint {id} at {addr}: {at:#x} is not on the stack {stack} of the thread: in a mirror only values on the stack can be reached"
    )]
    FrameOutside { id: RecordId, addr: CodeAddr, at: u64, stack: CodeRange },
    /// A thread is inside a site that is to be changed.
    #[error(
        "{site}: thread {thread} {} byte {offset} of it: wait until it has left",
        if *.returns { "may return to" } else { "executes" }
    )]
    ThreadInSite { site: Box<SiteName>, thread: i32, offset: Len, returns: bool },
    /// Threads are to be looked for by a world that does not.
    #[error(
        "this world does not look for threads in sites: use one that stops them by signal, or promise a grace period"
    )]
    WorldDoesNotLook,
    /// Memory whose writing allocates, under a world that stops threads in the middle of anything,
    /// the allocator included.
    #[error(
        "{range} would be written by {strategy}, which allocates, and the engine's world stops threads anywhere: let the \
         engine load the code (Alias), adopt it where ProcMem works, or build the engine with a world that stops threads \
         at places of their own"
    )]
    MemoryAllocates { range: CodeRange, strategy: &'static str },
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
    #[error("{site} has a record: declare entry sites by function name, marked ones by PC section")]
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
    /// A call that is to be a site is in no function.
    #[error(
        "the call of {callee} at {at} is in no function: give the code that has it a symbol of type function"
    )]
    CallOutsideFunctions { callee: String, at: CodeAddr },
    /// A call that is to be a site cannot be retargeted.
    #[error("{site} cannot be retargeted: {why}")]
    CallFixed { site: Box<SiteName>, why: &'static str },
    /// No call of the function has been recorded.
    #[error("no call of {function:?} is a site: ask for it by name when the code that calls it is loaded")]
    NoCallSite { function: String },
    /// A change was asked for a call site that is for others, or the other way round.
    #[error("{site}: a call site can only be retargeted and restored, and no other site can be retargeted")]
    CallSiteOnly { site: Box<SiteName> },
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
    /// A value of a frame that waits for a callee cannot be had.
    #[error(
        "{location} of {function} at {pc} cannot be read or written while it waits for a callee: only registers \
         that callees preserve are known, and only saved ones can be written"
    )]
    CallerValue { function: String, pc: CodeAddr, location: stackmap::Location },
    /// Code was compiled under an assumption that does not hold any more.
    #[error(
        "{function} depends on assumption {assumption}, which has broken: do not enter it, compile it without,          or renew the assumption"
    )]
    AssumptionBroken { function: String, assumption: String },
    /// The engine was given no world.
    #[error(
        "an engine needs a world: say how the runtime's threads are stopped, or promise that there is one thread"
    )]
    NoWorld,
    /// Code of this machine cannot be patched.
    #[error("there is no engine for {host} machines: code is patched on machines of its own architecture")]
    NoHost { host: &'static str },
    /// The module is not registered with this engine.
    #[error("the module is not registered with this engine, or not any more")]
    ModuleForeign,
    /// The original bytes of a site would not keep a return offset.
    #[error(
        "{site}: a return address may point at byte {return_offset} of it, where its original bytes have no nops up to the end: wait for a grace period first, or patch it with a sequence that has"
    )]
    ReturnOffsetLost { site: Box<SiteName>, return_offset: u32 },
    /// No site has that ID.
    #[error(
        "no registered site has ID {id}: LLVM may have merged or removed the call, or its module is not registered"
    )]
    NoSuchSite { id: RecordId },
    /// A change was asked for a site that has been invalidated.
    #[error("{site} has been invalidated, which is for good: compile the function anew")]
    SiteInvalidated { site: Box<SiteName> },
    /// A change other than another redirection was asked for a site that has been redirected.
    #[error("{site} has been redirected: redirect it again, or compile the function anew")]
    SiteRedirected { site: Box<SiteName> },
    /// A function without an entry site was to be redirected.
    #[error("{function} at {addr} has no entry site: give one when its module is registered")]
    NoEntrySite { function: String, addr: CodeAddr },
    /// A function without a site that could be invalidated was to be invalidated.
    #[error(
        "{function} at {addr} has no patchpoint or shadow to invalidate: register those of its records, or give it an entry site \
         and redirect it"
    )]
    NothingToInvalidate { function: String, addr: CodeAddr },
    /// The engine of a module is gone.
    #[error("the engine that this module was registered with is gone: keep a handle of it")]
    EngineGone,
    /// A change was asked for a site that a failed roll-back left in doubt.
    #[error("{site} was left in doubt by a roll-back that failed: do not execute it, unregister its module")]
    SiteLost { site: Box<SiteName> },
    /// The frame at a site cannot be left, and handlers will want to.
    #[error(
        "the frame at {site} cannot be left for its caller: {reason}; or say how the module's frames are found, or that they are not left"
    )]
    SiteNotLeavable { site: Box<SiteName>, reason: String },
    /// A site was to be described twice.
    #[error(
        "{site} has a description already, which handlers may be reading: keep what changes behind a lock in it"
    )]
    SiteDescribed { site: Box<SiteName> },
    /// A transaction names a site twice.
    #[error("the transaction changes {site} twice: commit the first change before the second")]
    SiteTwice { site: Box<SiteName> },
    /// The site was changed, or its module released, after the transaction was prepared.
    #[error(
        "{site} has been changed, or its module released, since the transaction was prepared: prepare it again"
    )]
    SiteChanged { site: Box<SiteName> },
    /// The bytes of a site are not those that the engine wrote or found.
    #[error("{site} should hold {expected:02x?} and holds {found:02x?}: something else writes there")]
    BytesChanged { site: Box<SiteName>, expected: Vec<u8>, found: Vec<u8> },
    /// A transaction failed, and so did taking it back.
    #[error("{cause}; and taking the transaction back left {} sites in doubt: {sites:?}", sites.len())]
    RollBackFailed { cause: Box<Error>, sites: Vec<(SiteName, Fate)> },
    /// The engine has no handler for what the sequence or the change needs.
    #[error(
        "{site} needs an exit stub to a {role} handler, and the engine has none: give it one when it is built"
    )]
    NoHandler { site: Box<SiteName>, role: &'static str },
    /// The module has been unregistered, or belongs to another engine.
    #[error("{site} belongs to no module that is registered with this engine")]
    SiteForeign { site: Box<SiteName> },
    /// The code is for another architecture than the engine.
    #[error("the module is for {found}, the engine runs {host}")]
    ForeignArch { found: Arch, host: Arch },
    /// A site has no room for a patchable jump.
    #[error("{site} reserves {}; to be live it needs {needed} at its address: raise numBytes", bytes(.reserved))]
    NoPatchableJump { site: Box<SiteName>, reserved: Len, needed: Len },
    /// Code that is to be live may have run.
    #[error(
        "{site} cannot be armed, as its code may have run: register it before it runs, adopted code as `not_yet_run`"
    )]
    ArmedTooLate { site: Box<SiteName> },
    /// Code that is to be live lies in memory that cannot be written under execution.
    #[error(
        "{site} lies in memory written by {strategy}, which has no atomic store ({why}): let the engine load the code"
    )]
    ArmedMemory { site: Box<SiteName>, strategy: &'static str, why: String },
    /// A change was asked for a shadow or marked site of a live module.
    #[error(
        "{site} holds the function's own instructions, and its module is live: it can only be invalidated, by a trap"
    )]
    ShadowNotArmed { site: Box<SiteName> },
    /// A sequence that refuses a stub was given to a live site.
    #[error("{site} is live, where sequences are in stubs, and this one refuses to: drop `in_place_only`")]
    LiveInPlace { site: Box<SiteName> },
    /// An exit stub was asked for code of another architecture than the host's.
    #[error(
        "no exit stub for {arch} on this host: exit stubs exist where code of the host's own architecture runs"
    )]
    ExitStubArch { arch: crate::arch::Arch },
    /// An exit stub's jump back, for which no register is free, does not reach.
    #[error(
        "the exit stub at {exit_stub} does not reach {to}, where it resumes: place stubs nearer to the code"
    )]
    ExitStubOutOfReach { exit_stub: CodeAddr, to: CodeAddr },
    /// A register was not captured, or is narrower than the value asked for.
    #[error(
        "site {id} at {addr}: {size} bytes from bit {bit_offset} of {reg} asked for, {have} bytes were captured; ask for a part that this machine has"
    )]
    FrameRegister { id: RecordId, addr: CodeAddr, reg: DwarfReg, bit_offset: i32, size: u16, have: u16 },
    /// The frame has no such value.
    #[error("site {id} at {addr}: no {what} {index}, there are {have}")]
    FrameIndex { id: RecordId, addr: CodeAddr, what: &'static str, index: usize, have: usize },
    /// A value of the frame is no number of 8 bytes.
    #[error(
        "site {id} at {addr}: {what} {index} has {size} bytes, more than the 8 of a number: ask for the value itself"
    )]
    FrameWide { id: RecordId, addr: CodeAddr, what: &'static str, index: usize, size: u16 },
    /// The location is not one of the site's record.
    #[error(
        "site {id} at {addr}: {location} is not a location of its record; take it from the record of this site"
    )]
    FrameLocation { id: RecordId, addr: CodeAddr, location: crate::stackmap::Location },
    /// A value is wider than 64 bytes, or has another size than its location, or the location is a
    /// constant.
    #[error(
        "site {id} at {addr}: a value of {found} bytes does not fit {location}; at most {limit} bytes can be moved there"
    )]
    FrameValue { id: RecordId, addr: CodeAddr, location: crate::stackmap::Location, found: u16, limit: u16 },
    /// The frame cannot be left with this stack pointer.
    #[error(
        "site {id} at {addr}: the frame can be left with a stack pointer of {lowest:#x} or above, a multiple of 8, not {found:#x}; enter code that makes its own room below"
    )]
    FrameStackPointer { id: RecordId, addr: CodeAddr, lowest: u64, found: u64 },
    /// The frame cannot be left to another address while a shadow stack is active.
    #[error(
        "site {id} at {addr}: this thread has a shadow stack, which forbids leaving the frame to another address; resume, or disable it (GLIBC_TUNABLES=glibc.cpu.x86_shstk=off)"
    )]
    FrameShadowStack { id: RecordId, addr: CodeAddr },
    /// A frame cannot be put in the place of a compiled one.
    #[error("site {id} at {addr}: a frame of {size} bytes cannot be pushed: {reason}")]
    NewFrame { id: RecordId, addr: CodeAddr, size: u64, reason: &'static str },
    /// A value does not lie in its new frame.
    #[error(
        "site {id} at {addr}: {len} bytes at offset {offset} do not lie in a new frame of {size} bytes, nor in what it may write of its caller's: push a larger one"
    )]
    NewFramePlace { id: RecordId, addr: CodeAddr, offset: u32, len: usize, size: u32 },
    /// A frame cannot be left of which only the live registers were saved.
    #[error(
        "site {id} at {addr}: only the live registers of this frame were saved, so it can only be resumed; let an exit stub save all (`on_miss`, or `whole_frames` of inline caches)"
    )]
    FrameNotWhole { id: RecordId, addr: CodeAddr },
    /// The unwind information cannot be read.
    #[error(
        "unwind information at {addr}: {reason}; give the relocated .eh_frame and the address it was relocated to"
    )]
    UnwindFormat { addr: CodeAddr, reason: String },
    /// There is no unwind information for an address.
    #[error(
        "no unwind information covers {pc}: compile the function with the attribute uwtable and keep .eh_frame"
    )]
    UnwindMissing { pc: CodeAddr },
    /// The unwind information uses a rule that is not understood.
    #[error(
        "unwind information for {pc}: {reason}; only offsets from a register and saved registers can be undone"
    )]
    UnwindRule { pc: CodeAddr, reason: String },
}

impl Error {
    /// Which of the few kinds of errors this is.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            #[cfg(feature = "std")]
            Self::Memory(why) => why.kind(),
            #[cfg(feature = "std")]
            Self::Publish(why) => why.kind(),
            Self::Tables(why) => why.kind().into(),
            #[cfg(feature = "std")]
            Self::Assemble(why) => why.kind().into(),
            #[cfg(feature = "std")]
            Self::Check(why) => why.kind().into(),
            #[cfg(feature = "std")]
            Self::Link(why) => why.kind().into(),
            Self::Provider(_) => ErrorKind::Provider,
            Self::SavedFrame { .. }
            | Self::StackMapFunction { .. }
            | Self::StackMapFunctionTwice { .. }
            | Self::FunctionOutsideCode { .. }
            | Self::RecordOutsideFunction { .. }
            | Self::RecordOverflowed { .. }
            | Self::MarkOutsideFunctions { .. }
            | Self::CallOutsideFunctions { .. }
            | Self::SiteUndecodable { .. }
            | Self::NotLlvmPatchpoint { .. }
            | Self::UnwindFormat { .. } => ErrorKind::Malformed,
            Self::WorldDoesNotLook { .. }
            | Self::MemoryAllocates { .. }
            | Self::SiteConvention { .. }
            | Self::RegisterNotKept { .. }
            | Self::ScalableVectors { .. }
            | Self::CallFixed { .. }
            | Self::TooManyShapes { .. }
            | Self::CallerValue { .. }
            | Self::NoHost { .. }
            | Self::SiteNotLeavable { .. }
            | Self::ForeignArch { .. }
            | Self::ArmedMemory { .. }
            | Self::ExitStubArch { .. }
            | Self::FrameShadowStack { .. }
            | Self::UnwindRule { .. } => ErrorKind::Unsupported,
            Self::NoSuchFunction { .. }
            | Self::NoSuchPcSection { .. }
            | Self::MarkConstant { .. }
            | Self::NoCallSite { .. }
            | Self::NoSuchSite { .. }
            | Self::NoEntrySite { .. }
            | Self::NothingToInvalidate { .. }
            | Self::NoHandler { .. }
            | Self::FrameRegister { .. }
            | Self::FrameIndex { .. }
            | Self::UnwindMissing { .. } => ErrorKind::NotFound,
            Self::CacheField { .. }
            | Self::CacheEngine { .. }
            | Self::AdoptedFunctionCount { .. }
            | Self::AdoptedFunction { .. }
            | Self::FrameOutside { .. }
            | Self::SiteEmpty { .. }
            | Self::SiteOutsideFunction { .. }
            | Self::SiteOverlapsRecord { .. }
            | Self::SitesOverlap { .. }
            | Self::CodeAlreadyRegistered { .. }
            | Self::EntryHasNoRecord { .. }
            | Self::BranchIntoSite { .. }
            | Self::CallSiteOnly { .. }
            | Self::TooFewLocations { .. }
            | Self::ResultNotRegister { .. }
            | Self::EntryNotNops { .. }
            | Self::EntryNotAtStart { .. }
            | Self::ReservedBeyondRecorded { .. }
            | Self::ReservedLengthNotTold { .. }
            | Self::ReservedLengthAmbiguous { .. }
            | Self::NoWorld { .. }
            | Self::SiteRedirected { .. }
            | Self::SiteDescribed { .. }
            | Self::SiteTwice { .. }
            | Self::NoPatchableJump { .. }
            | Self::ArmedTooLate { .. }
            | Self::ShadowNotArmed { .. }
            | Self::LiveInPlace { .. }
            | Self::ExitStubOutOfReach { .. }
            | Self::FrameWide { .. }
            | Self::FrameLocation { .. }
            | Self::FrameValue { .. }
            | Self::FrameStackPointer { .. }
            | Self::NewFrame { .. }
            | Self::NewFramePlace { .. }
            | Self::FrameNotWhole { .. } => ErrorKind::Refused,
            Self::ThreadInSite { .. } | Self::NotReleased { .. } | Self::ReturnOffsetLost { .. } => {
                ErrorKind::Busy
            }
            Self::AssumptionBroken { .. } | Self::SiteChanged { .. } | Self::BytesChanged { .. } => {
                ErrorKind::Changed
            }
            Self::ModuleForeign { .. }
            | Self::SiteInvalidated { .. }
            | Self::EngineGone { .. }
            | Self::SiteForeign { .. } => ErrorKind::Gone,
            Self::SiteLost { .. } | Self::RollBackFailed { .. } => ErrorKind::Broken,
        }
    }
}

/// An error of memory's, or the one of a link or a provider that it hands on.
#[cfg(feature = "std")]
impl From<memory::Error> for Error {
    fn from(error: memory::Error) -> Self {
        match error {
            memory::Error::Link(why) => Self::Link(*why),
            memory::Error::Provider(why) => Self::Provider(why),
            own => Self::Memory(own),
        }
    }
}

/// An error of publishing, or the one of memory or of a provider that it hands on.
#[cfg(feature = "std")]
impl From<publish::Error> for Error {
    fn from(error: publish::Error) -> Self {
        match error {
            publish::Error::Memory(error) => error.into(),
            publish::Error::Provider(why) => Self::Provider(why),
            own => Self::Publish(own),
        }
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;

    /// Whoever asks for an error finds it in one place, whichever room it came through.
    #[test]
    fn what_a_room_hands_on_is_not_wrapped_twice() {
        let forked = memory::Error::EngineForked;
        let through = Error::from(publish::Error::Memory(forked.clone()));
        assert_eq!(through, Error::Memory(forked));
        let why = ProviderError::new(std::io::Error::other("it is cut"));
        let handed = [
            Error::from(memory::Error::from(why.clone())),
            Error::from(publish::Error::from(why.clone())),
            Error::from(publish::Error::Memory(why.clone().into())),
        ];
        assert!(handed.iter().all(|error| *error == Error::Provider(why.clone())));
        let twice = patchpoint_link::Error::LinkUnfinished {
            waiting_for: "f".into(),
        };
        let through = Error::from(memory::Error::from(twice.clone()));
        assert_eq!(through, Error::Link(twice));
        assert_eq!(through.kind(), ErrorKind::Busy);
    }

    /// A kind and a sentence are those of the error that is wrapped.
    #[test]
    fn kinds_and_sentences_are_those_of_what_is_wrapped() {
        let stops = publish::Error::WorldNotStopped { why: "it does not" };
        let wrapped = Error::from(stops.clone());
        assert_eq!(wrapped.kind(), ErrorKind::Busy);
        assert_eq!(
            alloc::string::ToString::to_string(&wrapped),
            "the threads could not be stopped: it does not"
        );
        assert_eq!(Error::EngineGone.kind(), ErrorKind::Gone);
    }

    /// What changes sites returns these by value.
    #[test]
    fn wrapping_takes_no_room() {
        assert_eq!(size_of::<Error>(), size_of::<patchpoint_link::Error>());
    }
}
