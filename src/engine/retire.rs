//! Stubs that nothing branches to any more, until no thread is in them.
//!
//! The life of a stub: it is filled and published; a patchable jump comes to go to it; the
//! patchable jump gets another target and it is retired; every core is made to serialize, so that
//! none goes on with the old patchable jump, and it is stamped with the epoch that begins then;
//! every attached thread reports that epoch or a later one; it is freed. A rolled-back exchange
//! ends the same way: threads may have gone through it.
//!
//! Reports are those of threads that execute live modules: [`Attached`](crate::publish::Attached)
//! says nothing of others. A stub of a quiescent module is freed by a grace period only.
//!
//! Sites are not all that refers to stubs: an exit refers to the stub in which a thread resumes
//! from it. A stub is freed only when every exit is that refers to it, whatever else has passed: a
//! thread that is in the exit's handler may have reported what the stub alone would need.

use std::time::Instant;

use super::exit_stub::ExitStub;
use super::installed::Stub;
use super::live::LiveRoom;
use super::observe::{CodeOwner, Observers};
use crate::addr::CodeRange;
use crate::memory::StubSlot;
use crate::publish::{GracePeriod, Moment, Passed, QuiescentState};
use crate::site::SiteKey;

/// What is retired.
pub(super) struct RetiredCode {
    code: RetiredStub,
    since: Moment,
    /// The same as a time, where there are observers.
    time: Option<Instant>,
}

enum RetiredStub {
    Stub(Box<Stub>),
    /// What an exit stub's code refers to lives as long as it does.
    ExitStub(SiteKey, Box<ExitStub>),
}

/// What retired code waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// That every attached thread reports this, in an epoch that begins after every core has
    /// serialized.
    Reported(QuiescentState),
    /// The same, with the epoch.
    Passed(u64, QuiescentState),
    /// That a grace period is proven: threads may be in it that report nothing.
    GracePeriod,
}

/// What can be retired.
pub(super) trait Retirable {
    /// Whether other out-of-line code refers to it.
    fn is_referenced(&self) -> bool {
        false
    }

    /// It is reclaimed: what it has referred to is referred to by one less.
    fn drop_references(&mut self) {}
}

impl Retirable for RetiredCode {
    fn is_referenced(&self) -> bool {
        match &self.code {
            RetiredStub::Stub(stub) => stub.is_referenced(),
            RetiredStub::ExitStub(..) => false,
        }
    }

    fn drop_references(&mut self) {
        match &mut self.code {
            RetiredStub::Stub(_) => {}
            RetiredStub::ExitStub(_, exit_stub) => exit_stub.resumes_in = None,
        }
    }
}

impl RetiredCode {
    /// A stub to which nothing has branched since then.
    #[inline(always)] // A call of its own copies what it returns.
    pub(super) fn stub(stub: Box<Stub>, (since, time): (Moment, Option<Instant>)) -> Self {
        let code = RetiredStub::Stub(stub);
        Self { code, since, time }
    }

    /// An exit stub of the site with that key, to which nothing has branched since then.
    pub(super) fn exit_stub(
        site: SiteKey,
        exit_stub: ExitStub,
        (since, time): (Moment, Option<Instant>),
    ) -> Self {
        let code = RetiredStub::ExitStub(site, Box::new(exit_stub));
        Self { code, since, time }
    }

    /// All its bytes.
    pub(super) fn range(&self) -> CodeRange {
        match &self.code {
            RetiredStub::Stub(stub) => stub.slot.range(),
            RetiredStub::ExitStub(_, exit_stub) => exit_stub.range(),
        }
    }

    /// Whose it was.
    pub(super) fn owner(&self) -> CodeOwner {
        match &self.code {
            RetiredStub::Stub(stub) => stub.owner,
            RetiredStub::ExitStub(site, exit_stub) => exit_stub.owner(*site),
        }
    }

    /// Tells that it is about to be reclaimed.
    pub(super) fn tell(&self, observers: &Observers) {
        let waited = self.time.map(|time| time.elapsed());
        observers.reclaimed(self.owner(), self.range(), waited);
    }

    /// Its code memory, which knows since when nothing branches there. What is left of a stub is room.
    pub(super) fn into_slot(self, room: &mut LiveRoom) -> StubSlot {
        let slot = match self.code {
            RetiredStub::Stub(stub) => room.slot_of(stub),
            RetiredStub::ExitStub(_, exit_stub) => exit_stub.into_slot(),
        };
        slot.retired_at(self.since)
    }

    /// Whether the proof is about it.
    pub(super) fn is_covered_by(&self, grace_period: &GracePeriod) -> bool {
        grace_period.covers(self.range(), Some(self.since))
    }
}

/// What is retired and cannot be freed yet.
pub(super) struct RetireList<T>(Vec<WaitingItem<T>>);

struct WaitingItem<T> {
    until: Until,
    item: T,
}

impl<T> Default for RetireList<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Retirable> RetireList<T> {
    /// No site branches to the item any more; it is freed when what it waits for has come, and
    /// nothing else refers to it.
    #[inline]
    pub(super) fn retire(&mut self, until: Until, item: T) {
        self.0.push(WaitingItem { until, item });
    }

    /// Makes room for so many.
    pub(super) fn make_room(&mut self, items: usize) {
        self.0.reserve(items);
    }

    /// Whether there are items that need an epoch.
    pub(super) fn has_fresh(&self) -> bool {
        self.0.iter().any(|one| matches!(one.until, Until::Reported(_)))
    }

    /// Gives the fresh items an epoch that began after every core had serialized.
    pub(super) fn stamp(&mut self, epoch: u64) {
        for one in &mut self.0 {
            if let Until::Reported(rest) = one.until {
                one.until = Until::Passed(epoch, rest);
            }
        }
    }

    /// Takes out what every thread has left.
    pub(super) fn take_passed(&mut self, passed: Passed) -> Vec<T> {
        // protection: stub-stays-while-it-is-executed
        self.take(|one| matches!(one.until, Until::Passed(epoch, rest) if passed.has(epoch, rest)))
    }

    /// Everything that is retired.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|one| &one.item)
    }

    /// Takes out what is said to be left, whatever the epochs say.
    pub(super) fn take_where(&mut self, is_left: impl Fn(&T) -> bool) -> Vec<T> {
        self.take(|one| is_left(&one.item))
    }

    /// Takes out what is left and nothing refers to, until there is no more: what is taken has
    /// referred to other items.
    fn take(&mut self, is_left: impl Fn(&WaitingItem<T>) -> bool) -> Vec<T> {
        let mut taken = Vec::new();
        loop {
            let may_go = |one: &WaitingItem<T>| !one.item.is_referenced() && is_left(one);
            let (free, stay): (Vec<_>, Vec<_>) = self.0.drain(..).partition(may_go);
            self.0.extend(stay);
            if free.is_empty() {
                return taken;
            }
            taken.extend(free.into_iter().map(|mut one| {
                // protection: exits-go-with-what-they-refer-to
                one.item.drop_references();
                one.item
            }));
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests;

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use crate::publish::Epochs;

    impl Retirable for &str {}
    impl Retirable for () {}

    #[test]
    fn an_item_is_freed_once_every_thread_has_rested() {
        let epochs = Epochs::default();
        let thread = epochs.attach();
        let mut retire_list = RetireList::default();
        retire_list.retire(Until::Reported(QuiescentState::Checkpoint), "plain");
        retire_list.retire(Until::Reported(QuiescentState::Quiescent), "calls");
        assert!(retire_list.has_fresh() && retire_list.take_passed(epochs.passed()).is_empty());
        retire_list.stamp(epochs.advance());
        assert!(!retire_list.has_fresh() && retire_list.take_passed(epochs.passed()).is_empty());
        thread.report(QuiescentState::Checkpoint);
        assert_eq!(retire_list.take_passed(epochs.passed()), ["plain"]);
        assert!(retire_list.take_passed(epochs.passed()).is_empty());
        thread.report(QuiescentState::Quiescent);
        assert_eq!(retire_list.take_passed(epochs.passed()), ["calls"]);
    }

    #[test]
    fn a_report_from_before_the_retirement_frees_nothing() {
        let epochs = Epochs::default();
        let thread = epochs.attach();
        let mut retire_list = RetireList::default();
        retire_list.stamp(epochs.advance());
        thread.report(QuiescentState::Quiescent);
        retire_list.retire(Until::Reported(QuiescentState::Checkpoint), ());
        retire_list.stamp(epochs.advance());
        assert!(retire_list.take_passed(epochs.passed()).is_empty());
        assert_eq!(retire_list.take_where(|_| true).len(), 1);
    }

    #[test]
    fn what_only_a_grace_period_frees_is_freed_by_no_report() {
        let (epochs, mut retire_list) = (Epochs::default(), RetireList::default());
        retire_list.retire(Until::GracePeriod, ());
        assert!(!retire_list.has_fresh());
        retire_list.stamp(epochs.advance());
        assert!(retire_list.take_passed(epochs.passed()).is_empty());
        assert_eq!(retire_list.take_where(|_| true).len(), 1);
    }
}
