//! Making every other thread of the process serialize, by `membarrier`.
//!
//! `MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE` (membarrier(2), Linux 4.16): when it returns, every
//! running thread of the process has executed a core-serializing instruction, and every other will
//! before it runs user code. A sandbox may refuse it, so it is registered and tried when the
//! publisher is made.

#![allow(unsafe_code)]

use crate::error::Errno;

/// A process that is registered for the barrier.
#[derive(Clone, Copy, Debug)]
pub(super) struct SyncCore(());

impl SyncCore {
    /// Registers the process, and tries the barrier once.
    pub(super) fn register() -> Result<Self, Errno> {
        // protection: membarrier-is-probed
        imp::membarrier(imp::REGISTER)?;
        imp::membarrier(imp::SYNC_CORE)?;
        Ok(Self(()))
    }

    /// Makes every other thread serialize.
    pub(super) fn issue(self) -> Result<(), Errno> {
        match imp::membarrier(imp::SYNC_CORE) {
            // Not registered: a fork's child need not inherit that.
            // protection: fork-child-registers-its-barrier
            Err(Errno(libc::EPERM)) => Self::register().map(drop),
            other => other,
        }
    }
}

#[cfg(target_os = "linux")]
mod imp {
    use crate::error::Errno;

    /// From linux/membarrier.h.
    pub(super) const SYNC_CORE: libc::c_int = 1 << 5;
    pub(super) const REGISTER: libc::c_int = 1 << 6;

    pub(super) fn membarrier(command: libc::c_int) -> Result<(), Errno> {
        // SAFETY: the call takes no pointer.
        if unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) } == 0 {
            return Ok(());
        }
        Err(Errno(
            std::io::Error::last_os_error()
                .raw_os_error()
                .unwrap_or(libc::EINVAL),
        ))
    }
}

#[cfg(not(target_os = "linux"))]
mod imp {
    use crate::error::Errno;

    pub(super) const SYNC_CORE: libc::c_int = 0;
    pub(super) const REGISTER: libc::c_int = 0;

    pub(super) fn membarrier(_command: libc::c_int) -> Result<(), Errno> {
        Err(Errno(libc::ENOSYS))
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;
    use crate::memory::testing::process::in_child;

    /// Of a process in which other tests have registered before, the child may have inherited that:
    /// alone this test shows it.
    #[test]
    fn who_has_not_registered_does_so_when_it_is_needed() {
        assert!(in_child(|| {
            let works = SyncCore(()).issue().is_ok();
            works == imp::membarrier(imp::REGISTER).is_ok()
        }));
    }
}
