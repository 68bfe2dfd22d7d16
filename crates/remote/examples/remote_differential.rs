//! The example `differential` with another process, which executes the patched code.
//!
//!     cargo run --release -p patchpoint-remote --example remote_differential -- --programs 100000 --threads 2 --seed 1
#![allow(unsafe_code, clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

#[cfg(target_os = "linux")]
#[path = "../../../examples/differential/compare.rs"]
mod compare;
#[cfg(target_os = "linux")]
#[path = "../../../examples/host/mod.rs"]
mod host;
#[cfg(target_os = "linux")]
#[path = "../../../examples/tiny_language/language/mod.rs"]
mod language;
#[cfg(target_os = "linux")]
#[path = "../../../examples/differential/program.rs"]
mod program;
#[cfg(target_os = "linux")]
#[path = "../../../examples/differential/random.rs"]
mod random;
#[cfg(target_os = "linux")]
#[path = "../../../examples/differential/report.rs"]
mod report;
#[cfg(target_os = "linux")]
mod there;

use std::process::ExitCode;

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some(there::AS_EXECUTOR) {
        return ExitCode::from(u8::from(there::serve(&[]).is_err()));
    }
    match there::spawn() {
        Ok(executor) => report::run(std::env::args().skip(1), &there::host(executor)),
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
