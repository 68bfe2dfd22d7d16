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

/// How far the frame address of unwind information is above the stack pointer after the return. On
/// SystemZ it is above the register save area of whoever is called (ELF ABI, s390x Supplement,
/// section 1.2.2).
pub(super) const FRAME_ABOVE_STACK: u64 = if cfg!(target_arch = "s390x") { 160 } else { 0 };

/// How many bytes from a caller's stack pointer on its callees may write. On PowerPC the back chain
/// and the words for CR and LR, on SystemZ the register save area.
pub(super) const CALLEE_AREA: usize = if cfg!(target_arch = "s390x") {
    160
} else if cfg!(target_arch = "powerpc64") {
    24
} else {
    0
};

/// How many bytes of a frame its stack map does not count: the return address of x86-64.
pub(super) const RETURN_ADDRESS_SIZE: u32 = if cfg!(target_arch = "x86_64") { 8 } else { 0 };

/// Where the conventions put a frame's return address, from its caller's stack pointer, if they
/// say.
pub(super) const fn own_return_slot() -> Option<i32> {
    if cfg!(target_arch = "x86_64") {
        Some(-8)
    } else if cfg!(target_arch = "powerpc64") {
        Some(16)
    } else {
        None
    }
}

/// Where a frame goes on that keeps its caller's TOC pointer from a function that may have another,
/// the size of such a frame, and the offset of the pointer in it. There are TOC pointers on
/// PowerPC64 only.
pub(super) fn toc_keeper() -> Option<(u64, u32, u32)> {
    #[cfg(target_arch = "powerpc64")]
    return Some((capture::toc_keeper(), capture::TOC_FRAME, capture::TOC_SLOT));
    #[cfg(not(target_arch = "powerpc64"))]
    None
}

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
