//! What is measured, for the benchmarks and for the program that prints the ratios.
//!
//! A figure of nanoseconds says as much about the machine as about the library, so the ones that
//! matter are ratios: the library's way against the least that could do the same, taken alternately
//! in one run on the same memory, so that whatever the machine does besides hits both.

mod busy;
pub mod caches;
mod commits;
pub mod compare;
pub mod draw;
#[cfg(feature = "latency")]
pub mod latency;
mod limits;
pub mod made;
pub mod many;
pub mod measure;
pub mod megamorphic;
pub mod memory;
pub mod misses;
pub mod pages;
mod program;
pub mod ratios;
#[cfg(target_os = "linux")]
pub mod remote;
pub mod report;
pub mod scale;
pub mod speeds;
pub mod subject;
pub mod throughput;
pub mod times;
