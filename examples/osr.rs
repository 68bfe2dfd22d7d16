//! On-stack replacement in both directions: a loop that has run for long goes on in better code, in
//! the middle, and where that code was too hopeful, back in the code that it came from.
//!
//! LLVM compiled `examples/objects/osr/baseline.ll` without optimization and `optimized.ll` with
//! it, for every architecture. The head of the loop in `weigh` is a patchpoint. This program is the
//! runtime: it patches the head with a counter; when the counter is full, the frame of `weigh` is
//! replaced by a call of `weigh_osr`, which enters the same loop with the same variables and
//! returns to whom `weigh` would have. `weigh_osr` takes for granted that no item is large; at one
//! that is, its frame is replaced by one of `weigh`, at the head of its loop.
//!
//!     cargo run --release --example osr
//!
//! The objects are made by `examples/objects/osr/make.sh`.
#![allow(unsafe_code, clippy::unwrap_used)]

#[path = "osr/runtime.rs"]
mod runtime;

use std::error::Error;
use std::process::ExitCode;
use std::time::Instant;

use runtime::{Runtime, weigh};

const ITEMS: usize = 1_000_000;

/// Items below 1000, of which every so many is larger.
fn items(large: Option<usize>) -> Vec<u64> {
    let item = |index: usize| match large {
        Some(every) if index % every == every - 1 => 5000 + index as u64,
        _ => index as u64 % 1000,
    };
    (0..ITEMS).map(item).collect()
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut failed = false;
    println!(
        "{:>26}  {:>12}  {:>6}  {:>6}  {:>14}",
        "", "result", "up", "down", "time"
    );
    for (name, limit, large) in [
        ("baseline only", u64::MAX, None),
        ("up after 1000 rounds", 1000, None),
        ("up and down, few large", 1000, Some(100_000)),
        ("up and down, many large", 10, Some(1000)),
    ] {
        let runtime = Runtime::new(limit)?;
        let items = items(large);
        let start = Instant::now();
        let found = runtime.weigh(&items);
        let took = start.elapsed();
        let (up, down) = runtime.moves();
        println!("{name:>26}  {found:>12}  {up:>6}  {down:>6}  {took:>14?}");
        if found != weigh(&items) {
            println!("{:>26}  {:>12}  is right", "", weigh(&items));
            failed = true;
        }
    }
    Ok(if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}
