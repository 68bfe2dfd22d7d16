//! Who can be told what an engine does: profilers, debuggers, unwinders and logs.
//!
//! Problem: code that no linker has seen has no name where people look for where the time goes.
//! Approach: each of these is an [`Observer`](crate::engine::Observer) that is given to the
//! engine's [builder](crate::engine::EngineBuilder::observer), and writes what its reader expects.
//! Nothing is written unless asked for.
//!
//! | | reader | reused addresses | code bytes |
//! |---|---|---|---|
//! | [`PerfMap`] | whoever reads perf maps; `perf` itself for adopted code in anonymous memory that is not remapped only | the newest name is the last line | no |
//! | [`JitDump`] | `perf inject --jit` | told apart by time | yes, for `perf annotate` |
//! | `Gdb` (feature `backtrace`; not on big-endian PowerPC64) | GDB, when it stops | told when they are freed | no: names and frames |
//! | `Unwinder` (feature `backtrace`) | backtraces within the process | told when they are freed | no: frames |
//! | `Unwound` (feature `backtrace`) | exceptions and backtraces through graphs linked without an engine | deregistered first | no: frames |
//! | `Tracing` (feature `tracing`) | subscribers of `tracing` | | no |
//!
//! Adopted modules are told as loaded ones are. Where code was [remapped](crate::memory::Remap),
//! `/proc/self/maps` has a memory file in place of what was there, a program's or library's name
//! included: for what else lies on these pages profilers have no name then. A debugger can set
//! hardware breakpoints there only.
//!
//! Names: a function has its own; out-of-line code has that of its site, what it is, and the change
//! that it was made for: `get+0x4.id78.stub2`.
//!
//! Invariants: what cannot be written is left out and [counted](PerfMap::lost), never a reason for
//! a change to fail.

#[cfg(unix)]
mod file;
// GDB takes a name of ELFv1 for that of code, and would write a trap into the function descriptor
// there.
#[cfg(all(
    feature = "backtrace",
    target_os = "linux",
    not(all(target_arch = "powerpc64", target_endian = "big"))
))]
mod gdb;
#[cfg(target_os = "linux")]
mod jitdump;
mod names;
#[cfg(unix)]
mod perf_map;
#[cfg(target_os = "linux")]
mod system;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
#[cfg(feature = "tracing")]
mod tracing;
#[cfg(all(feature = "backtrace", target_os = "linux"))]
mod unwinder;
#[cfg(all(feature = "backtrace", target_os = "linux"))]
mod unwound;

#[cfg(all(
    feature = "backtrace",
    target_os = "linux",
    not(all(target_arch = "powerpc64", target_endian = "big"))
))]
pub use gdb::Gdb;
#[cfg(target_os = "linux")]
pub use jitdump::JitDump;
#[cfg(unix)]
pub use perf_map::PerfMap;
#[cfg(feature = "tracing")]
pub use tracing::Tracing;
#[cfg(all(feature = "backtrace", target_os = "linux"))]
pub use unwinder::Unwinder;
#[cfg(all(feature = "backtrace", target_os = "linux"))]
pub use unwound::{Registered, Unwound};
