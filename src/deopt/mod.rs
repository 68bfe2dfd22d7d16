//! Ramps out of compiled code.
