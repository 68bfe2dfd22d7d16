//! Code in another process: calls, changes and ways out of it, and what happens when either side ends.
#![cfg(target_os = "linux")]
#![allow(
    unsafe_code,
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

mod attack;
mod changes;
mod common;
mod ends;
mod views;

use patchpoint::remote::Service;

/// No test: the executor that the tests start, which is this program.
#[test]
fn executor_process() {
    if std::env::var_os(common::EXECUTOR).is_none() {
        return;
    }
    let ended = Service::new()
        .symbol("attack", attack::addr())
        .symbol("spin", common::addr_of_spin())
        .run_stdin();
    // What says how it ended, to who looks at the status.
    std::process::exit(match ended {
        Ok(()) => 0,
        Err(patchpoint::Error::ControllerGone) => 3,
        Err(_) => 4,
    });
}
