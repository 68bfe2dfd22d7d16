//! x86-64: its exit stubs, which are encoded on every host, and the capture of its registers, on
//! its own.

#[cfg(target_arch = "x86_64")]
pub(super) mod capture;
pub(super) mod exit_stub;
#[cfg(target_arch = "x86_64")]
pub(super) mod state;
