//! The example `tiny_language` does what its output says, with the results of its interpreter.
#![allow(unsafe_code, clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

#[path = "../examples/host/mod.rs"]
mod host;
#[path = "../examples/tiny_language/language/mod.rs"]
mod language;
#[allow(dead_code, reason = "the times are for the example")]
#[path = "../examples/tiny_language/story.rs"]
mod story;

#[path = "../examples/tiny_language/told.rs"]
mod told;

use host::Host;

#[test]
fn one_thread_tiers_up_deoptimizes_in_the_loop_and_tiers_up_again() {
    told::by_one_thread(&Host::Here);
}

#[test]
#[cfg_attr(emulated, ignore = "an emulator shows nothing of live patching")]
fn threads_share_code_and_have_the_same_results() {
    told::by_threads(&Host::Here);
}
