//! Making cores execute what was written, and knowing that none is in the way.
//!
//! **Problem.** Bytes in memory are not yet bytes executed: an instruction cache may hold the old
//! ones, and a core that has already fetched them goes on with them until it serializes. And a site
//! may only be rewritten where no thread is inside.
//!
//! **Approach.** [`Publisher`] maintains the instruction cache on the executed addresses,
//! serializes the writer's own core, and, where the old bytes must be over on return, makes every
//! other thread serialize. [`World`] is what the runtime implements to stop its threads;
//! [`Stopped`] and [`GracePeriod`] are the proofs that functions ask for, so that a missing stop
//! does not compile.

mod clock;
mod epoch;
mod error;
mod keyed;
#[cfg(target_os = "linux")]
mod mask;
mod others;
mod publication;
mod publisher;
mod serialize;
#[cfg(target_os = "linux")]
mod signals;
#[cfg(target_os = "linux")]
pub(crate) mod signed;
mod sync_core;
#[cfg(target_os = "linux")]
mod threads;
#[cfg(target_os = "linux")]
pub mod trap;
#[cfg(target_os = "linux")]
mod turn;
mod vacated;
mod world;

pub(crate) use crate::quiescence::Moment;
pub use crate::quiescence::{GracePeriod, Stopped};
pub(crate) use clock::CoarseTime;
#[cfg(all(test, loom))]
pub(crate) use epoch::Participant;
pub use epoch::{Attached, Offline, QuiescentState, ThreadHandle};
pub(crate) use epoch::{Epochs, Passed};
pub use error::{Error, Result};
pub(crate) use keyed::{Key, Keyed};
pub use publication::Publication;
pub use publisher::{Level, Publisher};
#[cfg(test)]
pub(crate) use serialize::count as serialize_count;
pub use serialize::{Serializer, serialize};
#[cfg(target_os = "linux")]
pub use threads::{SignalAttached, SignalWorld, WhenInside};
pub use vacated::Vacated;
pub use world::{NeverStopped, Resumption, SingleThreaded, World};
