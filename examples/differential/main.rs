//! The differential test: random programs give the same results in the plain interpreter and on
//! patched code.
//!
//! A program creates objects, adds fields, changes classes, methods and the global that compiled
//! code takes for granted, and calls functions of the library of [`language`], whose compiled
//! versions are built on inline caches. It is executed by the interpreter alone; by a runtime with
//! one thread, whose sites are patched in place; and by each of several threads of a runtime with
//! live sites, which share its code, caches and assumptions. Every result of every instruction and
//! the heap at the end are compared.
//!
//!     cargo run --release --example differential -- --programs 100000 --threads 2 --seed 1
//!
//! With `-p patchpoint-remote --example remote_differential` another process executes the patched
//! code.
//!
//! One program again: `--programs 1 --seed` and its seed; though what the programs before it left
//! in the caches is not there then. Those that share a runtime with it begin at a multiple of 64
//! behind the first seed.
#![allow(unsafe_code, clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod compare;
#[path = "../host/mod.rs"]
mod host;
#[path = "../tiny_language/language/mod.rs"]
mod language;
mod program;
mod random;
mod report;

use std::process::ExitCode;

fn main() -> ExitCode {
    report::run(std::env::args().skip(1), &host::Host::Here)
}
