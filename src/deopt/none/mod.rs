//! Hosts without ramps.

pub(in crate::deopt) mod capture;
pub(in crate::deopt) mod state;
