//! Which architecture's registers are captured here: that of the host.

#[cfg(target_arch = "x86_64")]
mod which {
    use crate::arch::Arch;

    pub(in crate::deopt) use crate::deopt::x86_64::{capture, state};

    pub(in crate::deopt) const ARCH: Option<Arch> = Some(Arch::X86_64);
}

#[cfg(not(target_arch = "x86_64"))]
#[path = "none/mod.rs"]
mod which;

pub(super) use which::{ARCH, capture, state};
