//! Which architecture's registers are captured here: that of the host.

#[cfg(target_arch = "x86_64")]
mod which {
    use crate::arch::Arch;

    pub(in crate::deopt) use crate::deopt::x86_64::{capture, state};

    pub(in crate::deopt) const ARCH: Option<Arch> = Some(Arch::X86_64);
}

#[cfg(target_arch = "s390x")]
mod which {
    use crate::arch::Arch;

    pub(in crate::deopt) use crate::deopt::systemz::{capture, state};

    pub(in crate::deopt) const ARCH: Option<Arch> = Some(Arch::SystemZ);
}

#[cfg(target_arch = "powerpc64")]
mod which {
    use crate::arch::Arch;

    pub(in crate::deopt) use crate::deopt::powerpc64::{capture, state};

    pub(in crate::deopt) const ARCH: Option<Arch> = Some(if cfg!(target_endian = "big") {
        Arch::PowerPc64
    } else {
        Arch::PowerPc64Le
    });
}

#[cfg(target_arch = "aarch64")]
mod which {
    use crate::arch::Arch;

    pub(in crate::deopt) use crate::deopt::aarch64::{capture, state};

    pub(in crate::deopt) const ARCH: Option<Arch> = Some(Arch::AArch64);
}

#[cfg(target_arch = "riscv64")]
mod which {
    use crate::arch::Arch;

    pub(in crate::deopt) use crate::deopt::riscv64::{capture, state};

    pub(in crate::deopt) const ARCH: Option<Arch> = Some(Arch::RiscV64);
}

#[cfg(not(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "s390x",
    target_arch = "powerpc64",
    target_arch = "riscv64"
)))]
#[path = "none/mod.rs"]
mod which;

pub(super) use which::{ARCH, capture, state};

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
