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
mod listening;
mod views;

/// No test: the executor that the tests start, which is this program.
#[test]
fn executor_process() {
    common::be_executor(|service| {
        let service = service.symbol("attack", attack::addr());
        service.symbol("shorten", attack::addr_of_shorten())
    });
}
