//! A small dynamic language that starts in an interpreter and becomes fast by patching.
//!
//! A function that is called often gets the version that LLVM compiled (`examples/objects/tiny`):
//! its property accesses and method calls are patchpoints, which become inline caches. One of them
//! takes a global for granted; a method that it calls in a loop sets that global, so its code is
//! invalidated while it is on the stack, and the interpreter goes on in the middle of the loop.
//! Then it tiers up again. The same program is run once more by several threads, which share code,
//! caches and assumptions.
//!
//!     cargo run --release --example tiny_language
//!
//! With `-p patchpoint-remote --example remote_tiny_language` another process executes the compiled
//! code, and cannot write it. The interpreter and the runtime stay here: misses and deoptimizations
//! come here and go back.
//!
//! The language is in `language/`; begin with its `mod.rs`.
#![allow(unsafe_code, clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

#[path = "../host/mod.rs"]
mod host;
mod language;
mod story;
mod tell;

use std::process::ExitCode;

use host::Host;

fn main() -> ExitCode {
    match tell::tell(&Host::Here) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("a result is not the interpreter's");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
