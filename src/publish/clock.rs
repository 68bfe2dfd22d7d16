//! The time of a publication.

#![allow(unsafe_code)]

use std::time::SystemTime;

/// The time as of the system's last tick. Taking it is a memory access, where the exact time takes
/// as long as a good part of a commit, as that asks the hardware.
#[derive(Clone, Copy)]
pub(crate) struct CoarseTime(imp::Time);

impl CoarseTime {
    /// The beginning of 1970.
    pub(crate) const EPOCH: Self = Self(imp::EPOCH);

    #[cfg(test)]
    pub(crate) fn now() -> Self {
        let mut now = Self::EPOCH;
        now.take();
        now
    }

    /// Takes the time in its place: a copy of what has just been written would wait for it.
    #[inline]
    pub(crate) fn take(&mut self) {
        imp::take(&mut self.0);
    }

    pub(crate) fn time(self) -> SystemTime {
        imp::time(self.0)
    }
}

#[cfg(target_os = "linux")]
mod imp {
    use std::time::{Duration, SystemTime};

    /// Since 1970; nothing where there is no such clock.
    #[derive(Clone, Copy)]
    pub(super) struct Time(libc::timespec);

    pub(super) const EPOCH: Time = Time(libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    });

    #[inline]
    pub(super) fn take(time: &mut Time) {
        // SAFETY: the call writes a time to its argument, which is one, or nothing.
        unsafe { libc::clock_gettime(libc::CLOCK_REALTIME_COARSE, &raw mut time.0) };
    }

    pub(super) fn time(Time(time): Time) -> SystemTime {
        let seconds = Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or(0));
        let since = seconds.saturating_add(Duration::from_nanos(u64::try_from(time.tv_nsec).unwrap_or(0)));
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

    pub(super) const EPOCH: Time = Time(SystemTime::UNIX_EPOCH);

    pub(super) fn take(time: &mut Time) {
        time.0 = SystemTime::now();
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
