//! Architectures as the crate `patchpoint-isa` knows them, and the conditions, widths and labels of
//! sequences. Everything here can be asked on every host.
//!
//! ```
//! use patchpoint::arch::{Arch, registers, x86_64};
//!
//! let name = registers::register_name(Arch::X86_64, x86_64::R11);
//! assert_eq!(name.map(|name| name.to_string()).as_deref(), Some("r11"));
//! ```

#[cfg(feature = "std")]
pub use patchpoint_asm::{Cond, Extension, Label, Width};
pub use patchpoint_isa::{
    Arch, CallShape, Convention, Declared, DeclaredTarget, OnReturn, RegSet, SiteContext, SiteKind, Vouched,
    aarch64, instructions, powerpc64, registers, riscv64, systemz, x86_64,
};
#[cfg(feature = "std")]
pub(crate) use patchpoint_isa::{calls, conventions, exchange};

/// Whether function pointers of this machine are those of descriptors.
#[cfg(feature = "std")]
#[allow(dead_code, reason = "asked for on PowerPC64 only, and by tests")]
pub(crate) const HOST_HAS_DESCRIPTORS: bool = match Arch::host() {
    Some(host) => host.has_descriptors(),
    None => false,
};
