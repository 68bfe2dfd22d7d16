//! What the errors of all rooms are made of: their kinds, and what several of them name. Each room
//! has an error of its own, and so has the engine, which wraps those below it
//! ([`patchpoint::Error`](crate::Error)).

mod kind;
mod place;
mod provider;
#[cfg(test)]
pub(crate) mod testing;

pub use kind::ErrorKind;
pub use patchpoint_isa::SiteName;
#[cfg(feature = "std")]
pub(crate) use place::bytes;
pub use place::{Errno, Fate};
pub use provider::ProviderError;
