//! How the other threads of this process are made to serialize.

use std::fmt;

#[cfg(target_os = "linux")]
use super::signals::Signals;
use super::sync_core::SyncCore;
use crate::error::Errno;

const MEMBARRIER: &str = "membarrier(PRIVATE_EXPEDITED_SYNC_CORE)";

/// The way that works.
#[derive(Clone, Debug)]
pub(super) enum OtherCores {
    /// By `membarrier`.
    SyncCore(SyncCore),
    /// By a signal to each, as `membarrier` answered so.
    #[cfg(target_os = "linux")]
    Signals {
        /// The way.
        signals: Signals,
        /// Why `membarrier` is not the way.
        refused: Errno,
    },
    /// Not at all.
    Refused {
        /// The last thing tried.
        call: &'static str,
        /// What it answered.
        errno: Errno,
    },
}

impl OtherCores {
    /// Tries one after the other.
    pub(super) fn find() -> Self {
        match SyncCore::register() {
            Ok(barrier) => Self::SyncCore(barrier),
            Err(refused) => Self::fall_back(refused),
        }
    }

    #[cfg(target_os = "linux")]
    fn fall_back(refused: Errno) -> Self {
        // protection: signals-where-there-is-no-membarrier
        match Signals::install() {
            Ok(signals) => Self::Signals { signals, refused },
            Err(errno) => Self::Refused {
                call: "a signal to every thread",
                errno,
            },
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn fall_back(errno: Errno) -> Self {
        Self::Refused {
            call: MEMBARRIER,
            errno,
        }
    }

    /// Makes them serialize; when it returns, they have, or will before they execute anything.
    pub(super) fn serialize(&self) -> Result<(), (&'static str, Errno)> {
        match self {
            Self::SyncCore(barrier) => barrier.issue().map_err(|errno| (MEMBARRIER, errno)),
            #[cfg(target_os = "linux")]
            Self::Signals { signals, .. } => signals
                .issue()
                .map_err(|errno| ("a signal to every thread", errno)),
            Self::Refused { call, errno } => Err((call, *errno)),
        }
    }
}

impl fmt::Display for OtherCores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SyncCore(_) => write!(f, "other threads serialize by {MEMBARRIER}"),
            #[cfg(target_os = "linux")]
            Self::Signals { refused, .. } => {
                write!(
                    f,
                    "other threads serialize in a signal handler, as {MEMBARRIER} answered {refused}"
                )
            }
            Self::Refused { call, errno } => {
                write!(
                    f,
                    "other threads cannot be made to serialize: {call} answered {errno}"
                )
            }
        }
    }
}
