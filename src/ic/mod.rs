//! Inline caches: sites that learn.
//!
//! Problem: dynamic code asks the same question (which property, which method) of values that
//! nearly always have the same few shapes. Approach: a site starts *uninitialized*, where every
//! execution goes to the runtime's [`Lookup`]. What the lookup finds it may hand over as an
//! [`Entry`]: guards over the site's values, and what to do where they hold. The cache then patches
//! its site: *monomorphic* with one entry, *polymorphic* with a chain of them. A site that sees too
//! many becomes *megamorphic* and gets the runtime's generic path. A [`Policy`] decides. When the
//! world changes, [`Caches::retract`] takes all entries back that depend on a [`Key`], from all
//! caches, in one transaction.
//!
//! Everything works on the values of the site's record: in the registers and stack slots that LLVM
//! chose.
//!
//! Invariants: the entries that a cache believes it has are those that its site tests, but for the
//! time in which a change of a live site reaches the other threads; a change replaces the site's
//! whole sequence, so a published stub never changes; an entry that was looked up before a
//! retraction is not installed after it.
//!
//! # Threads
//!
//! Any number of threads may miss at once, on one site too: each gets its own lookup's result. One
//! of them at a time changes the cache; the others go on without learning, and never wait for each
//! other. [`Caches::retract`] and [`Caches::reset`] wait for changes that are being made; a thread
//! that waits there must count as stopped for the runtime's [`World`](crate::publish::World), as
//! one that waits for the engine must.
//!
//! After a retraction returns, no thread begins to execute a retracted entry. A thread that was in
//! the middle of one finishes it, unless the world was stopped where no thread can be inside of a
//! site: a runtime that is about to reuse what entries refer to waits until every thread has passed
//! a [checkpoint](crate::publish::ThreadHandle::checkpoint).
//!
//! # Where the code is
//!
//! In live modules an entry is installed in a stub, so that no thread waits for it. A cache that has
//! not changed for a grace period is stable, and [`Engine::settle`](crate::Engine::settle) moves its
//! code into the site, if there is room: a hit then takes as long as one in code that was patched
//! under a stopped world. Call it where
//! [`reclaim_passed`](crate::Engine::reclaim_passed) is called. A cache that learns again leaves the
//! site by one store.
//!
//! ```
//! use patchpoint::ic::{Action, Caches, Entry, Guard, Learn, Pointer};
//! use patchpoint::sequence::{Field, arg};
//!
//! let caches = Caches::builder().lookup(|miss| {
//!     let object = miss.arg(0);
//!     miss.set_result(0).expect("the shape has a result");
//!     match object {
//!         // The runtime's own search comes here.
//!         Ok(_) => Learn::Entry(
//!             Entry::new(Action::load::<u64>(Pointer::plain(arg(0)), 24))
//!                 .guard(Guard::equal(u32::at(arg(0), 8), 0x17))
//!                 .depends_on(0x17),
//!         ),
//!         Err(_) => Learn::Nothing,
//!     }
//! });
//! let exit_stubs = caches.exit_stubs(); // for `Engine::builder().exits(exit_stubs)`
//! # drop(exit_stubs);
//! ```

mod c_lookup;
mod cache;
mod caches;
mod entry;
mod lower;
mod miss;
mod policy;
mod probe;
mod shared;
mod stats;

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;

pub use c_lookup::{CEntry, CMiss};
pub use cache::{Cache, CacheState};
pub use caches::{Caches, CachesBuilder, Retracted};
pub use entry::{Action, Entry, Guard, Key, Pointer};
pub use miss::{Learn, Lookup, Miss};
pub use policy::{Chain, Decision, History, Policy};
pub use probe::Probe;
pub use shared::SharedStats;
pub use stats::{CacheStats, Counting, Order, Totals};
