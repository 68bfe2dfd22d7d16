//! The time of a publication.

#![allow(unsafe_code)]

use std::time::SystemTime;

/// The time as of the system's last tick. It is a memory access where the exact time takes as long as a good part of
/// a commit, as that asks the hardware.
pub(crate) fn coarse_time() -> SystemTime {
    imp::coarse().unwrap_or_else(SystemTime::now)
}

#[cfg(target_os = "linux")]
mod imp {
    use std::mem::MaybeUninit;
    use std::time::{Duration, SystemTime};

    pub(super) fn coarse() -> Option<SystemTime> {
        let mut time = MaybeUninit::<libc::timespec>::uninit();
        // SAFETY: the call writes a time to its argument, or nothing.
        if unsafe { libc::clock_gettime(libc::CLOCK_REALTIME_COARSE, time.as_mut_ptr()) } != 0 {
            return None;
        }
        // SAFETY: it has been written.
        let time = unsafe { time.assume_init() };
        let since = Duration::new(
            u64::try_from(time.tv_sec).ok()?,
            u32::try_from(time.tv_nsec).ok()?,
        );
        SystemTime::UNIX_EPOCH.checked_add(since)
    }
}

#[cfg(not(target_os = "linux"))]
mod imp {
    use std::time::SystemTime;

    pub(super) fn coarse() -> Option<SystemTime> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn it_is_the_time_of_the_last_tick() {
        let before = SystemTime::now();
        std::thread::sleep(Duration::from_millis(50));
        let (coarse, after) = (coarse_time(), SystemTime::now());
        assert!(
            before < coarse && coarse <= after,
            "{before:?} {coarse:?} {after:?}"
        );
    }
}
