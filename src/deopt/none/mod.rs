//! Hosts without exit stubs.

pub(in crate::deopt) mod capture;
pub(in crate::deopt) mod state;
