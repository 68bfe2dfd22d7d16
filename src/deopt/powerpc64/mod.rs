//! Exit stubs on 64-bit PowerPC, of both conventions and both orders of bytes.

#[cfg(target_arch = "powerpc64")]
pub(super) mod capture;
mod exit_stub;
mod layout;
#[cfg(target_arch = "powerpc64")]
pub(super) mod state;

#[cfg(all(test, target_arch = "powerpc64"))]
mod tests;

use alloc::vec::Vec;

pub(super) use exit_stub::in_block;

use super::Resume;
use crate::addr::CodeAddr;
use crate::arch::Arch;
use crate::deopt::Result;
use crate::engine::StackAt;
use patchpoint_asm::powerpc64::PowerPc64;

#[cfg(target_arch = "powerpc64")]
use capture::dispatcher;

/// On the others no context is made, so no exit stub asks for it.
#[cfg(not(target_arch = "powerpc64"))]
fn dispatcher() -> u64 {
    0
}

/// The fields of [`StackAt`](crate::engine::StackAt) of the exit stub that passes `context` to the
/// routine at `capture`.
pub(super) fn stack(arch: Arch, context: u64, capture: u64) -> [StackAt; 5] {
    exit_stub::stack(backend(arch), called(context, capture))
}

/// What the exit stubs of a block share, which pass `context` to the routine at `capture`.
pub(super) fn shared(arch: Arch, context: u64, capture: u64) -> Vec<u8> {
    exit_stub::shared(backend(arch), called(context, capture))
}

fn backend(arch: Arch) -> &'static PowerPc64 {
    PowerPc64::of(arch).expect("the caller has found that it is PowerPC64")
}

/// A length that no exit stub with this resumption exceeds.
pub(super) fn max_len(arch: Arch, resume: &Resume<'_>) -> u64 {
    exit_stub::max_len(backend(arch), resume)
}

/// The exit stub at `at` that passes `context` to the routine at `capture`.
pub(super) fn assemble(
    arch: Arch,
    at: CodeAddr,
    context: u64,
    capture: u64,
    resume: Resume<'_>,
) -> Result<Vec<u8>> {
    exit_stub::assemble(backend(arch), at, called(context, capture), resume)
}

fn called(context: u64, capture: u64) -> exit_stub::Called {
    exit_stub::Called {
        context,
        capture,
        dispatch: dispatcher(),
    }
}
