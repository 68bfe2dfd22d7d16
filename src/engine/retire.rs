//! Stubs that nothing leads to any more, until no thread is in them.
//!
//! The life of a stub: it is filled and published; a head comes to lead to it; the head leads elsewhere and it
//! is retired; every core is made to serialize, so that none goes on with the old head, and it is stamped with
//! the epoch that begins then; every attached thread reports that epoch or a later one; it is freed.
//! A rolled-back exchange ends the same way: threads may have gone through it.

use std::time::Instant;

use super::observe::{Observers, Owner};
use super::state::{Ramp, Stub};
use crate::memory::StubSlot;
use crate::publish::{Drained, Moment, Passed, Rest};

/// What is retired, by its pointer: a commit moves no more, and leaves freeing it to whoever frees the stub.
pub(super) struct Retiree {
    code: Code,
    since: Moment,
    /// The same as a time, where there are observers.
    time: Option<Instant>,
}

enum Code {
    Stub(Box<Stub>),
    /// What a ramp's code refers to lives as long as it does.
    Ramp(Box<Ramp>),
}

impl Retiree {
    /// A stub to which nothing has led since then.
    pub(super) fn stub(stub: Box<Stub>, (since, time): (Moment, Option<Instant>)) -> Self {
        let code = Code::Stub(stub);
        Self { code, since, time }
    }

    /// A ramp to which nothing has led since then.
    pub(super) fn ramp(ramp: Ramp, (since, time): (Moment, Option<Instant>)) -> Self {
        let code = Code::Ramp(Box::new(ramp));
        Self { code, since, time }
    }

    pub(super) fn slot(&self) -> &StubSlot {
        match &self.code {
            Code::Stub(stub) => &stub.slot,
            Code::Ramp(ramp) => &ramp.slot,
        }
    }

    /// Whose it was.
    pub(super) fn owner(&self) -> Owner {
        match &self.code {
            Code::Stub(stub) => stub.owner,
            Code::Ramp(ramp) => ramp.owner,
        }
    }

    /// Tells that it is about to be given back.
    pub(super) fn tell(&self, observers: &Observers) {
        let waited = self.time.map(|time| time.elapsed());
        observers.reclaimed(self.owner(), self.slot(), waited);
    }

    /// Its code memory, which knows since when nothing leads there.
    pub(super) fn into_slot(self) -> StubSlot {
        let slot = match self.code {
            Code::Stub(stub) => stub.slot,
            Code::Ramp(ramp) => ramp.slot,
        };
        slot.retired_at(self.since)
    }

    /// Whether the proof is about it.
    pub(super) fn is_drained(&self, drained: &Drained) -> bool {
        drained.covers(self.slot().range(), Some(self.since))
    }
}

/// What is retired and cannot be freed yet.
pub(super) struct Limbo<T> {
    /// Retired since the cores were last made to serialize.
    fresh: Vec<(Rest, T)>,
    /// With the epochs that must have passed.
    stamped: Vec<(u64, Rest, T)>,
}

impl<T> Default for Limbo<T> {
    fn default() -> Self {
        Self {
            fresh: Vec::new(),
            stamped: Vec::new(),
        }
    }
}

impl<T> Limbo<T> {
    /// Nothing leads to the item any more; every thread must come to rest before it is freed.
    pub(super) fn retire(&mut self, rest: Rest, item: T) {
        self.fresh.push((rest, item));
    }

    /// Makes room for so many.
    pub(super) fn make_room(&mut self, items: usize) {
        self.fresh.reserve(items);
    }

    /// Whether there are items that need an epoch.
    pub(super) fn has_fresh(&self) -> bool {
        !self.fresh.is_empty()
    }

    /// Gives the fresh items an epoch that began after every core had serialized.
    pub(super) fn stamp(&mut self, epoch: u64) {
        let fresh = self.fresh.drain(..);
        self.stamped.extend(fresh.map(|(rest, item)| (epoch, rest, item)));
    }

    /// Takes out what every thread has left.
    pub(super) fn take_passed(&mut self, passed: Passed) -> Vec<T> {
        let (free, stay) = self
            .stamped
            .drain(..)
            .partition(|(epoch, rest, _)| passed.has(*epoch, *rest));
        self.stamped = stay;
        let free: Vec<(u64, Rest, T)> = free;
        free.into_iter().map(|(_, _, item)| item).collect()
    }

    /// Everything that is retired.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        let fresh = self.fresh.iter().map(|(_, item)| item);
        fresh.chain(self.stamped.iter().map(|(_, _, item)| item))
    }

    /// Takes out what is said to be left, whatever the epochs say.
    pub(super) fn take_where(&mut self, is_left: impl Fn(&T) -> bool) -> Vec<T> {
        let (free, stay) = self.fresh.drain(..).partition(|(_, item)| is_left(item));
        self.fresh = stay;
        let fresh: Vec<(Rest, T)> = free;
        let (free, stay) = self.stamped.drain(..).partition(|(_, _, item)| is_left(item));
        self.stamped = stay;
        let stamped: Vec<(u64, Rest, T)> = free;
        let fresh = fresh.into_iter().map(|(_, item)| item);
        fresh
            .chain(stamped.into_iter().map(|(_, _, item)| item))
            .collect()
    }
}

#[cfg(all(test, loom))]
mod loom_tests;

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use crate::publish::Epochs;

    #[cfg(not(loom))]
    #[test]
    fn an_item_is_freed_once_every_thread_has_rested() {
        let epochs = Epochs::default();
        let thread = epochs.attach();
        let mut limbo = Limbo::default();
        limbo.retire(Rest::Checkpoint, "plain");
        limbo.retire(Rest::Quiescent, "calls");
        assert!(limbo.has_fresh() && limbo.take_passed(epochs.passed()).is_empty());
        limbo.stamp(epochs.advance());
        assert!(!limbo.has_fresh() && limbo.take_passed(epochs.passed()).is_empty());
        thread.report(Rest::Checkpoint);
        assert_eq!(limbo.take_passed(epochs.passed()), ["plain"]);
        assert!(limbo.take_passed(epochs.passed()).is_empty());
        thread.report(Rest::Quiescent);
        assert_eq!(limbo.take_passed(epochs.passed()), ["calls"]);
    }

    #[cfg(not(loom))]
    #[test]
    fn a_report_from_before_the_retirement_frees_nothing() {
        let epochs = Epochs::default();
        let thread = epochs.attach();
        let mut limbo = Limbo::default();
        limbo.stamp(epochs.advance());
        thread.report(Rest::Quiescent);
        limbo.retire(Rest::Checkpoint, ());
        limbo.stamp(epochs.advance());
        assert!(limbo.take_passed(epochs.passed()).is_empty());
        assert_eq!(limbo.take_where(|_| true).len(), 1);
    }
}
