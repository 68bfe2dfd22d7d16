//! Inline caches: sites that learn.
//!
//! Problem: dynamic code asks the same question (which property, which method) of values that
//! nearly always have the same few shapes. Approach: a site starts *uninitialized*, where every
//! execution goes to the runtime's [`Lookup`]. What the lookup finds it may hand over as an
//! [`Entry`]: guards over the site's values, and what to do where they hold. The cache then patches
//! its site: *monomorphic* with one entry, *polymorphic* with a chain of them. A site that sees too
//! many becomes *megamorphic*: its code looks into a cache that all of them share
//! ([`shared_cache`](CachesBuilder::shared_cache)), or takes the runtime's generic path. A [`Policy`]
//! decides. When the
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
//! # Many classes
//!
//! A site that looks into the shared cache finds what any site with an equal [`Probe`] has learnt: a
//! few instructions more than a monomorphic hit, and no call. It serves loads of fields and
//! constants; an entry that says something else is looked up each time.
//!
//! A chain whose hits are [counted](CachesBuilder::counting) is put in their order by
//! [`Caches::reorder`], where the policy says that this pays.
//!
//! ```
//! # #![allow(unsafe_code)]
//! # #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
//! # fn run() -> patchpoint::Result<()> {
//! use patchpoint::ic::{Action, CacheState, Caches, Entry, Guard, Learn, Pointer, Probe};
//! use patchpoint::publish::SingleThreaded;
//! use patchpoint::sequence::{Field, arg};
//! use patchpoint::{CallShape, Engine};
//!
//! /// An object has a 32-bit shape, which tells the runtime where its property is.
//! #[repr(C)]
//! struct Object {
//!     shape: u64,
//!     values: [u64; 2],
//! }
//!
//! const READ: u64 = 78;
//! let shape = || u32::at(arg(0), 0);
//! let caches = Caches::builder()
//!     // All reads are of one property.
//!     .shared_cache(256, move |_| Some(Probe::load::<u64>(READ, shape(), arg(0))))
//!     .lookup(move |miss| {
//!         let at = miss.arg(0).ok().and_then(|arg| arg.u64()).expect("reads have an object");
//!         // SAFETY: compiled code passes objects.
//!         let object = unsafe { &*(at as *const Object) };
//!         // The runtime's own search: shapes with odd numbers have the property second.
//!         let place = (object.shape % 2) as usize;
//!         miss.set_result(object.values[place]).expect("reads have a result");
//!         let load = Action::load::<u64>(Pointer::plain(arg(0)), 8 + 8 * place as i32);
//!         let entry = Entry::new(load).guard(Guard::equal(shape(), object.shape));
//!         // It is valid until the shape's key is retracted.
//!         Learn::Entry(entry.depends_on(object.shape))
//!     });
//!
//! // SAFETY: this thread alone executes the code.
//! let world = unsafe { SingleThreaded::promise() };
//! let engine = Engine::builder().world(world).exits(caches.exit_stubs()).build()?;
//! let code = engine.load(include_bytes!("../../examples/objects/inline_cache.o"), |_| None)?;
//! let reads = |record: &patchpoint::site::Candidate<'_>| {
//!     (record.id().get() == READ).then(|| CallShape::any_reg(32).result().args(1))
//! };
//! // SAFETY: that is what the code's compiler has made them.
//! let module = unsafe { engine.register(code, reads) }?;
//! let function = module.function("get")?;
//! let site = function.sites().next().expect("it has one read");
//! let cache = caches.attach(&engine, &site)?;
//! module.release();
//! // SAFETY: that is its type.
//! let get: extern "C" fn(&Object) -> u64 = unsafe { function.typed() }?;
//!
//! for round in 0..2 {
//!     for shape in 0..100 {
//!         assert_eq!(get(&Object { shape, values: [10, 20] }), if shape % 2 == 0 { 10 } else { 20 });
//!     }
//! }
//! assert_eq!(cache.state(), CacheState::Megamorphic);
//! assert_eq!(caches.stats(&cache).misses, 100, "each shape is looked up once");
//! assert_eq!(caches.retract(&[7.into()])?.shared, 1);
//! # Ok(())
//! # }
//! # #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
//! # run().unwrap();
//! ```

mod builder;
mod c_lookup;
mod cache;
mod caches;
mod entry;
mod hash;
mod lower;
mod miss;
mod policy;
mod probe;
mod shared;
mod stats;

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;

pub use builder::CachesBuilder;
pub use c_lookup::{CEntry, CMiss};
pub use cache::{Cache, CacheState};
pub use caches::{Caches, Retracted};
pub use entry::{Action, Entry, Guard, Key, Pointer};
pub use miss::{Learn, Lookup, Miss};
pub use policy::{Chain, Decision, History, Policy};
pub use probe::Probe;
pub use shared::SharedStats;
pub use stats::{CacheStats, Counting, Order, Totals};
