//! Which architecture's registers are captured here: that of the host.

#[cfg(target_arch = "aarch64")]
pub(super) use super::aarch64::{capture, state};
#[cfg(target_arch = "powerpc64")]
pub(super) use super::powerpc64::{capture, state};
#[cfg(target_arch = "riscv64")]
pub(super) use super::riscv64::{capture, state};
#[cfg(target_arch = "s390x")]
pub(super) use super::systemz::{capture, state};
#[cfg(target_arch = "x86_64")]
pub(super) use super::x86_64::{capture, state};

#[cfg(not(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "powerpc64",
    target_arch = "s390x",
    target_arch = "riscv64"
)))]
#[path = "none/mod.rs"]
mod none;
#[cfg(not(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "powerpc64",
    target_arch = "s390x",
    target_arch = "riscv64"
)))]
pub(super) use none::{capture, state};

/// How far the frame address of unwind information is above the stack pointer after the return. On SystemZ it is
/// above the register save area of whoever is called (ELF ABI, s390x Supplement, section 1.2.2).
pub(super) const FRAME_ABOVE_STACK: u64 = if cfg!(target_arch = "s390x") { 160 } else { 0 };

/// Reverses bytes from the order of memory to the order of [`Value`](super::Value), or back.
pub(super) fn in_order(bytes: &mut [u8]) {
    if cfg!(target_endian = "big") {
        bytes.reverse();
    }
}

/// How far the lowest `size` bytes of `whole` bytes are from their start in memory.
pub(super) fn before_low(whole: u16, size: u16) -> u64 {
    match cfg!(target_endian = "big") {
        true => u64::from(whole.saturating_sub(size)),
        false => 0,
    }
}
