//! What happened and what it cost.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Events of one kind, and the time that they took together.
#[derive(Debug, Default)]
pub(crate) struct Events {
    count: AtomicU64,
    nanos: AtomicU64,
}

impl Events {
    /// Does something, and counts it.
    pub(crate) fn of<T>(&self, what: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = what();
        self.count.fetch_add(1, Ordering::Relaxed);
        self.nanos
            .fetch_add(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
        result
    }

    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    pub(crate) fn time(&self) -> Duration {
        Duration::from_nanos(self.nanos.load(Ordering::Relaxed))
    }
}

/// The figures of a runtime.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    interpreted: AtomicU64,
    left: AtomicU64,
    rare_exits: AtomicU64,
    /// Functions that got compiled code: load, register, attach caches.
    pub(crate) tier_ups: Events,
    /// Assumptions that broke: the code that depends on them is invalidated.
    pub(crate) breaks: Events,
    /// Functions whose code was discarded for other reasons.
    pub(crate) retired: Events,
    /// Classes that changed: entries of caches are retracted.
    pub(crate) retractions: Events,
}

impl Figures {
    /// The interpreter has been entered.
    pub(crate) fn interpreted(&self) {
        self.interpreted.fetch_add(1, Ordering::Relaxed);
    }

    /// A compiled frame was left at an invalidated site.
    pub(crate) fn left(&self) {
        self.left.fetch_add(1, Ordering::Relaxed);
    }

    /// A compiled frame was left at what its code was not compiled for.
    pub(crate) fn rare_exits(&self) {
        self.rare_exits.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn counts(&self) -> Counts {
        Counts {
            interpreted: self.interpreted.load(Ordering::Relaxed),
            left: self.left.load(Ordering::Relaxed),
            rare_exits: self.rare_exits.load(Ordering::Relaxed),
            tier_ups: self.tier_ups.count(),
            breaks: self.breaks.count(),
            retired: self.retired.count(),
            retractions: self.retractions.count(),
        }
    }
}

/// The counts at one moment, or between two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) interpreted: u64,
    pub(crate) left: u64,
    pub(crate) rare_exits: u64,
    pub(crate) tier_ups: u64,
    pub(crate) breaks: u64,
    pub(crate) retired: u64,
    pub(crate) retractions: u64,
}

impl Counts {
    /// Combines each count with another's.
    fn with(self, other: Self, combine: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            interpreted: combine(self.interpreted, other.interpreted),
            left: combine(self.left, other.left),
            rare_exits: combine(self.rare_exits, other.rare_exits),
            tier_ups: combine(self.tier_ups, other.tier_ups),
            breaks: combine(self.breaks, other.breaks),
            retired: combine(self.retired, other.retired),
            retractions: combine(self.retractions, other.retractions),
        }
    }

    pub(crate) fn since(self, before: Self) -> Self {
        self.with(before, u64::saturating_sub)
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        self.with(other, u64::saturating_add)
    }
}
