//! Where bytes are written, and how.
//!
//! **Problem.** Code must change, and no page may be writable and executable at once, not for an
//! instant. What can be done depends on who allocated the memory, and what it costs differs a
//! thousandfold.
//!
//! **Approach.** One trait, [`CodeMemory`], which a runtime can implement for pages that it manages
//! itself, and four strategies behind it:
//!
//! | strategy | memory | how | other threads may run there |
//! |---|---|---|---|
//! | [`Alias`] | from an [`Arena`] | stores through a second, writable mapping of a sealed memory file | yes |
//! | [`Remap`] | foreign, private | the same, when the pages were copied into such a file, and that mapped over them | yes |
//! | [`ProcMem`] | foreign, private | `pwrite` to `/proc/self/mem` | yes |
//! | [`Toggle`] | foreign | read-execute to read-write and back, once per run of pages | no: stopped world |
//!
//! Memory of an [`Arena`] may be executed in a [`Mirror`] of it, a second place where it is mapped
//! at the same addresses.
//!
//! [`adopt()`] takes the first of these that works for foreign memory and says why; Remap only where
//! it is asked for or needed (see [`StrategyChoice::Auto`]). Code that other threads may be
//! executing is only ever written through [`LiveMemory`], which Toggle does not
//! implement; everything else needs a [`Stopped`](crate::publish::Stopped), which only a stopped
//! [`World`](crate::publish::World) hands out.
//!
//! **Invariants.** Protections are learnt when memory is registered, never while it is patched.
//! Everything that can fail does so in [`CodeMemory::begin`], before the first byte; a `begin` that
//! fails has changed nothing. A strategy never writes outside the range it was registered for.
//!
//! **Forks.** What a parent patches never reaches a child, and what a child tries never its parent.
//! Code in memory of the engine's own is not inherited: the child of `fork` gets a copy at the same
//! addresses, as it was between two transactions, which nobody can change; so a server that forks
//! its workers works. A copy of the code is made for each fork, some 0.3 ms per MiB that is in use.
//! Foreign memory is private to the child anyway; for what of it was remapped, private copies stand
//! in before the child is made, so that code which it runs at once, such as the C library's, is
//! there. Where a copy cannot be made (no memory, no
//! descriptor, a transaction that takes longer than a second), and where the child is made by
//! calling `clone` directly, it has nothing at those addresses: executing there kills it. `vfork`
//! and `posix_spawn` copy nothing, as they share all memory until the new program starts; so does
//! `std::process::Command`, unless it has to fork (`pre_exec`, `uid`). In a child every change is
//! refused at once by [`Error::Forked`] or
//! [`Error::EngineForked`], whatever a thread of its parent was doing;
//! code and handlers run. It may build an engine of its own.
//!
//! **Cost.** A write through Alias is a range check, an addition and the copy: no lock, no
//! allocation.

mod adopt;
mod alias;
mod area;
mod arena;
mod chunk;
mod code;
mod counters;
mod error;
pub(crate) mod fork;
mod many_handles;
mod mirror;
mod proc_mem;
mod raw;
mod remap;
mod reserve;
mod runs;
pub(crate) mod short;
mod snapshot;
mod spans;
mod stubs;
mod sys;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod toggle;

pub use crate::image::SegmentKind;
pub(crate) use adopt::adopt_live;
pub use adopt::{Adopted, StrategyChoice, Verdict, adopt, adopt_code};
pub use alias::Alias;
pub use area::CodeArea;
pub use arena::{Arena, PlacedSegment, PlacedSegments, Placement, Reach, SegmentNeed};
pub use code::{CodeMemory, LiveMemory, Strategy};
pub(crate) use counters::{Counter, SharedCounters};
pub use error::{Error, Result};
pub(crate) use many_handles::{ManyHandles, OneOfMany};
pub use mirror::{MemoryFile, Mirror};
pub use proc_mem::ProcMem;
pub use remap::Remap;
pub use runs::PageRun;
pub(crate) use snapshot::Snapshot;
pub(crate) use stubs::{Block, BlockRooms, KeptRooms, StubRoom};
pub use stubs::{BlockForm, EmptyRoom, EmptyRooms, StubPool, StubSlot, StubStats};
pub use toggle::Toggle;

use code::check_within;
