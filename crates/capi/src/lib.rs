//! The C interface of patchpoint: the functions of `include/patchpoint.h`, which is made of this crate
//! and is the documentation of who uses it from C or C++.
//!
//! Problem: what Rust's types promise (a handle that is there, a frame that ends with its handler, a
//! closure that may be called from any thread, a panic that unwinds) a C program can break at each
//! call. Approach: handles are looked at before they are used (`handle`); what comes in is checked
//! and what grows says its size (`types`); panics become errors and callbacks that do not return end
//! the process (`guard`). What cannot be checked is said in the text of each function, as what the
//! caller promises.
//!
//! The crate stands on `patchpoint` only. Rust programs use that.
#![cfg(target_os = "linux")]
#![allow(
    unsafe_code,
    non_camel_case_types,
    reason = "a border to C, whose names are those of C"
)]

// What everything here needs.
mod guard;
mod handle;

// In the order in which a program meets them, which is that of the header.
mod version;

mod types;

mod error;

mod text;

mod engine;

mod world;

mod observe;

mod load;

mod adopt;

mod register;

mod module;

mod site;

mod operand;

mod sequence;

mod change;

mod transaction;

mod thread;

mod frame;

mod answer;

mod cache;

mod site_cache;

mod entry;

mod arena;

pub use adopt::*;
pub use answer::*;
pub use arena::*;
pub use cache::*;
pub use change::*;
pub use engine::*;
pub use entry::*;
pub use error::*;
pub use frame::*;
pub use guard::pp_finalizer;
pub use load::*;
pub use module::*;
pub use observe::*;
pub use operand::*;
pub use register::*;
pub use sequence::*;
pub use site::*;
pub use site_cache::*;
pub use text::*;
pub use thread::*;
pub use transaction::*;
pub use types::{pp_bytes, pp_str};
pub use version::*;
pub use world::*;
