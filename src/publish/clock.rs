//! The time of a publication.

#![allow(unsafe_code)]

use std::time::SystemTime;

/// The time as of the system's last tick. Taking it is a memory access, where the exact time takes as long as a good
/// part of a commit, as that asks the hardware.
#[derive(Clone, Copy, Default)]
pub(crate) struct CoarseTime(imp::Time);

impl CoarseTime {
    #[inline]
    pub(crate) fn now() -> Self {
        Self(imp::now())
    }

    pub(crate) fn time(self) -> SystemTime {
        imp::time(self.0)
    }
}

#[cfg(target_os = "linux")]
mod imp {
    use std::mem::MaybeUninit;
    use std::time::{Duration, SystemTime};

    /// Seconds and nanoseconds since 1970; none where there is no such clock.
    pub(super) type Time = (i64, i64);

    #[inline]
    pub(super) fn now() -> Time {
        let mut time = MaybeUninit::<libc::timespec>::zeroed();
        // SAFETY: the call writes a time to its argument, or nothing.
        unsafe { libc::clock_gettime(libc::CLOCK_REALTIME_COARSE, time.as_mut_ptr()) };
        // SAFETY: it has been written, or is zeros.
        let time = unsafe { time.assume_init() };
        (time.tv_sec, time.tv_nsec)
    }

    pub(super) fn time((seconds, nanoseconds): Time) -> SystemTime {
        let seconds = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        let since = seconds.saturating_add(Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(0)));
        SystemTime::UNIX_EPOCH
            .checked_add(since)
            .unwrap_or(SystemTime::UNIX_EPOCH)
    }
}

#[cfg(not(target_os = "linux"))]
mod imp {
    use std::time::SystemTime;

    #[derive(Clone, Copy)]
    pub(super) struct Time(SystemTime);

    impl Default for Time {
        fn default() -> Self {
            Self(SystemTime::UNIX_EPOCH)
        }
    }

    pub(super) fn now() -> Time {
        Time(SystemTime::now())
    }

    pub(super) fn time(time: Time) -> SystemTime {
        time.0
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
        let (coarse, after) = (CoarseTime::now().time(), SystemTime::now());
        assert!(
            before < coarse && coarse <= after,
            "{before:?} {coarse:?} {after:?}"
        );
    }
}
