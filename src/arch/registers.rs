//! Registers.
