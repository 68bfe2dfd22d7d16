//! Hosts without ramps.

pub(in crate::deopt) mod capture;
pub(in crate::deopt) mod state;

/// No architecture's registers are captured.
pub(in crate::deopt) const ARCH: Option<crate::arch::Arch> = None;
