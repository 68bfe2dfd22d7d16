//! Code in another process: calls, changes and ways out of it, and what happens when either side
//! ends.
#![cfg(target_os = "linux")]
#![allow(
    unsafe_code,
    missing_docs,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing
)]

mod attack;
mod changes;
mod common;
#[path = "../../../../examples/differential/compare.rs"]
mod compare;
#[path = "../../../../examples/host/mod.rs"]
mod host;
#[path = "../../../../examples/tiny_language/language/mod.rs"]
mod language;
mod listening;
#[path = "../../../../examples/differential/program.rs"]
mod program;
#[path = "../../../../examples/differential/random.rs"]
mod random;
#[allow(dead_code, reason = "the times are for the example")]
#[path = "../../../../examples/tiny_language/story.rs"]
mod story;
mod stressed;
#[path = "../../examples/there/mod.rs"]
mod there;
#[path = "../../../../examples/tiny_language/told.rs"]
mod told;
mod views;
mod worlds;

use patchpoint::addr::CodeAddr;

/// No test: the executor that the tests start, which is this program.
#[test]
fn executor_process() {
    common::be_executor(|service| {
        let symbols = stressed::symbols().into_iter().chain(attack::symbols());
        symbols.fold(service, |service, (name, at)| {
            service.symbol(name, CodeAddr::new(at as u64))
        })
    });
}
