//! The version of the library.

use crate::error::{Misuse, pp_error};
use crate::guard::boundary;
use crate::types::pp_str;

/// The version of the library that runs: major, minor and patch, 8 bits each, the major ones highest.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: yes. Signal handlers: yes.
#[unsafe(no_mangle)]
pub extern "C" fn pp_version() -> u32 {
    VERSION
}

/// The same as text, such as "0.1.0", which is there for ever.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: yes. Signal handlers: yes.
#[unsafe(no_mangle)]
pub extern "C" fn pp_version_text() -> pp_str {
    pp_str::of(env!("CARGO_PKG_VERSION"))
}

/// Refuses where the library that runs cannot be used by a program that was compiled with a header of
/// that version: call it with PP_VERSION.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: yes. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_version_check(header: u32) -> *mut pp_error {
    boundary!(match is_compatible(VERSION, header) {
        true => Ok(()),
        false => Err(Misuse::Order(
            "the program was compiled with a header of a version that this library does not serve: compile it with the \
             library's own header",
        )
        .into()),
    })
}

const VERSION: u32 = number(env!("CARGO_PKG_VERSION_MAJOR")) << 16
    | number(env!("CARGO_PKG_VERSION_MINOR")) << 8
    | number(env!("CARGO_PKG_VERSION_PATCH"));

/// A decimal number, of Cargo's.
#[expect(
    clippy::indexing_slicing,
    reason = "a constant function has no `get`, and it is within"
)]
const fn number(text: &str) -> u32 {
    let (bytes, mut value, mut at) = (text.as_bytes(), 0, 0);
    while at < bytes.len() {
        value = value * 10 + (bytes[at] - b'0') as u32;
        at += 1;
    }
    value
}

/// Minor versions before 1.0 change what is there; afterwards they add to it.
const fn is_compatible(library: u32, header: u32) -> bool {
    let (major, minor) = (library >> 16, library >> 8 & 0xff);
    let (asked_major, asked_minor) = (header >> 16, header >> 8 & 0xff);
    major == asked_major
        && if major == 0 {
            minor == asked_minor
        } else {
            minor >= asked_minor
        }
}
