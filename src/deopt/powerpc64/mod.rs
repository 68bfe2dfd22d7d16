//! Ramps on 64-bit PowerPC, of both conventions and both orders of bytes.

#[cfg(target_arch = "powerpc64")]
pub(super) mod capture;
mod layout;
mod ramp;
#[cfg(target_arch = "powerpc64")]
pub(super) mod state;

#[cfg(all(test, target_arch = "powerpc64"))]
mod tests;

use alloc::vec::Vec;

use super::Resume;
use crate::addr::CodeAddr;
use crate::arch::Arch;
use crate::error::Result;
use patchpoint_asm::powerpc64::PowerPc64;

#[cfg(target_arch = "powerpc64")]
use capture::dispatcher;

/// Elsewhere no context is made, so no ramp asks for it.
#[cfg(not(target_arch = "powerpc64"))]
fn dispatcher() -> u64 {
    0
}

/// The fields of [`StackAt`](crate::engine::StackAt) of the ramp that passes `context` to the routine at `capture`.
pub(super) fn stack(arch: Arch, context: u64, capture: u64) -> [(u32, u32, Option<u32>); 5] {
    ramp::stack(backend(arch), called(context, capture))
}

fn backend(arch: Arch) -> &'static PowerPc64 {
    PowerPc64::of(arch).expect("the caller has found that it is PowerPC64")
}

/// A length that no ramp with this resumption exceeds.
pub(super) fn max_len(arch: Arch, resume: &Resume<'_>) -> u64 {
    ramp::max_len(backend(arch), resume)
}

/// The ramp at `at` that passes `context` to the routine at `capture`.
pub(super) fn assemble(
    arch: Arch,
    at: CodeAddr,
    context: u64,
    capture: u64,
    resume: Resume<'_>,
) -> Result<Vec<u8>> {
    ramp::assemble(backend(arch), at, called(context, capture), resume)
}

fn called(context: u64, capture: u64) -> ramp::Called {
    ramp::Called {
        context,
        capture,
        dispatch: dispatcher(),
    }
}
