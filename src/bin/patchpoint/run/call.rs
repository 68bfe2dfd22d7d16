//! What `run` is there for and safe code cannot do: executing what a file holds.
#![allow(
    unsafe_code,
    reason = "the command executes the code that its user names; nothing can be known of that code"
)]

use patchpoint::addr::CodeAddr;
use patchpoint::publish::SingleThreaded;

/// The most arguments of a call: those that every architecture passes in general registers, less the few that some have.
pub(super) const MOST: usize = 6;

/// The promise that no other thread executes the engine's code.
pub(super) fn world() -> SingleThreaded {
    // SAFETY: this program starts no thread, and calls code of the engine's from one place only. Code that it calls may
    // start threads; that these do not execute code that is being patched is for whoever asks for it to be run.
    unsafe { SingleThreaded::promise() }
}

/// Calls a function with integers, and takes what the C convention returns an integer in.
pub(super) fn call(function: CodeAddr, args: [u64; MOST]) -> u64 {
    type Function = extern "C" fn(u64, u64, u64, u64, u64, u64) -> u64;
    // SAFETY: `function` is what the engine gave out as the entry of a function of a module that is registered while this
    // runs, in memory that can be executed, and a pointer has the size of an address. That the code there takes at most
    // six integers or pointers, as which it may use those that it is passed, and leaves the process sound, is what the
    // user of `patchpoint run FILE --call FUNCTION --args ...` asserts, as the user of a shell does of a program.
    let function: Function = unsafe { std::mem::transmute(function.get() as usize) };
    let [a, b, c, d, e, f] = args;
    function(a, b, c, d, e, f)
}

/// The address of a symbol of this process: of the C library, mostly.
#[cfg(unix)]
pub(super) fn symbol(name: &str) -> Option<CodeAddr> {
    let name = std::ffi::CString::new(name).ok()?;
    // SAFETY: the name is a string that ends with a zero byte, and looking it up has no other effect.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!found.is_null()).then(|| CodeAddr::new(found as u64))
}

/// Elsewhere none is known.
#[cfg(not(unix))]
pub(super) fn symbol(_: &str) -> Option<CodeAddr> {
    None
}
