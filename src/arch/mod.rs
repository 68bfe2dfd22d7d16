//! What differs between architectures: registers and their DWARF numbers, nops, encoders, reach of
//! branches, calling conventions.
//!
//! What assembler and checker have to agree on is of the crate `patchpoint-isa`; here are the encoders.
//! Everything here is pure: every architecture can be asked, and assembled for, on every host.

#[cfg(feature = "std")]
pub mod aarch64;
#[cfg(feature = "std")]
pub(crate) mod backend;
#[cfg(feature = "std")]
mod dispatch;
#[cfg(feature = "std")]
pub(crate) mod live;
#[cfg(feature = "std")]
pub(crate) mod op;
#[cfg(feature = "std")]
pub mod powerpc64;
#[cfg(feature = "std")]
pub mod riscv64;
#[cfg(feature = "std")]
mod sink;
#[cfg(feature = "std")]
pub mod systemz;
#[cfg(feature = "std")]
pub mod x86_64;

#[cfg(feature = "std")]
pub(crate) use dispatch::backend_of;
#[cfg(feature = "std")]
pub use op::{Cond, Extension, Label, Width};
pub use patchpoint_isa::{
    Arch, CallShape, Convention, Declared, DeclaredTarget, OnReturn, RegSet, SiteContext, SiteKind, Vouched,
    registers,
};
#[cfg(feature = "std")]
pub(crate) use patchpoint_isa::{calls, conventions, exchange, nops};

/// Whether function pointers of this machine are those of descriptors.
#[cfg(feature = "std")]
#[allow(dead_code, reason = "asked for on PowerPC64 only, and by tests")]
pub(crate) const HOST_HAS_DESCRIPTORS: bool = match Arch::host() {
    Some(host) => host.has_descriptors(),
    None => false,
};
