//! The example `tiny_language` with another process, which executes the compiled code and cannot
//! write it. The interpreter and the runtime stay here: misses and deoptimizations come here and go
//! back.
//!
//!     cargo run --release -p patchpoint-remote --example remote_tiny_language
#![allow(unsafe_code, clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

#[cfg(target_os = "linux")]
#[path = "../../../examples/host/mod.rs"]
mod host;
#[cfg(target_os = "linux")]
#[path = "../../../examples/tiny_language/language/mod.rs"]
mod language;
#[cfg(target_os = "linux")]
#[path = "../../../examples/tiny_language/story.rs"]
mod story;
#[cfg(target_os = "linux")]
#[path = "../../../examples/tiny_language/tell.rs"]
mod tell;
#[cfg(target_os = "linux")]
mod there;

use std::process::ExitCode;

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    let done = match std::env::args().nth(1).as_deref() {
        Some(there::AS_EXECUTOR) => there::serve(&[]).map(|()| true),
        _ => there::spawn()
            .and_then(|executor| tell::tell(&there::host(executor)).map_err(|error| error.to_string())),
    };
    match done {
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

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    eprintln!("only on Linux a process can execute what another one writes");
    ExitCode::from(2)
}
