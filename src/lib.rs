//! Verified patching of the patchpoints that LLVM leaves in compiled code.
#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

pub mod addr;
pub mod error;
pub mod stackmap;

pub mod arch;
#[cfg(feature = "std")]
pub mod sequence;
pub mod verify;

#[cfg(feature = "std")]
pub mod image;
#[cfg(feature = "std")]
pub mod memory;
#[cfg(feature = "std")]
pub mod publish;

#[cfg(feature = "std")]
pub mod site;

#[cfg(feature = "std")]
pub mod engine;

#[cfg(feature = "std")]
pub mod deopt;

#[cfg(all(feature = "std", any(test, feature = "fuzzing")))]
pub mod fuzzing;

pub use arch::{CallShape, Convention};
#[cfg(feature = "std")]
pub use engine::Engine;
pub use error::{Error, Result};
