//! Fuzz bodies, and a plain runner for them.
//!
//! A body takes any bytes and panics when something that must hold does not. The targets under `fuzz/` call
//! a body in one line; `cargo test` runs each body over its corpus and over some thousands of mutations of
//! it. [`mutate_and_run`] is deterministic: the same seed gives the same inputs on every machine.

mod mutate;
mod stackmap;

pub use mutate::{executions, mutate_and_run};
pub use stackmap::stackmap;
