//! x86-64: its ramps, which are encoded on every host, and the capture of its registers, on its own.

#[cfg(target_arch = "x86_64")]
pub(super) mod capture;
pub(super) mod ramp;
#[cfg(target_arch = "x86_64")]
pub(super) mod state;
