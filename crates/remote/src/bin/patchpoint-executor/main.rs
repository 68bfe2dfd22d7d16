//! A process that executes the code of a controller, on its standard input: see
//! `patchpoint_remote`.
#![cfg_attr(
    not(test),
    warn(
        clippy::disallowed_methods,
        reason = "a default in place of what cannot be missing hides a broken invariant"
    )
)]

use std::process::ExitCode;

fn main() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("patchpoint-executor: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "executes what its parent tells it to")]
fn serve() -> patchpoint_remote::Result<()> {
    // SAFETY: executing what the controller on its standard input says is all that this program is for.
    unsafe { patchpoint_remote::Service::new().run_stdin() }
}

#[cfg(not(target_os = "linux"))]
fn serve() -> Result<(), &'static str> {
    Err("only on Linux a process can execute what another one writes")
}
