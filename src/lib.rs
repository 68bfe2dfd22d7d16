//! Verified patching of the patchpoints that LLVM leaves in compiled code.
#![no_std]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

pub mod addr;
pub mod error;
pub mod stackmap;

pub mod arch;
#[cfg(feature = "std")]
pub mod sequence;
#[cfg(feature = "std")]
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

pub use arch::{CallShape, Convention};
pub use error::{Error, Result};
