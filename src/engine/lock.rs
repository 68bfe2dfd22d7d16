//! The engine's lock: one for all changes of its sites.
//!
//! Problem: lowering a sequence that no template makes is ten times as long as the rest of a patch.
//! With the lock all the while, threads that patch different modules wait for each other; to give
//! the lock back for it always costs who patches alone. Approach: it is counted when a thread has
//! to wait for the lock while another lowers with it. The changes after that lower without the lock
//! (see [`super::lower`]), and where no thread has waited for some more, it is done with the lock
//! again.
//!
//! A thread that finds the lock taken backs off for a while before it sleeps. A patch of a seen shape
//! has the lock for a quarter of a microsecond, and to wake a thread takes tens of them; and
//! each time that the lock changes hands, what it protects moves to another core.
//!
//! Of 4096 patches by each of two threads on two cores, one takes 1.2 times what it takes one thread
//! alone, of shapes never seen and of a seen one (`benches speeds threads`). It is 1.8 and 2.0
//! times that where a thread sleeps at once.

use std::hint::spin_loop;
use std::mem::swap;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::MutexGuard;

use super::commit::Prepared;
use super::lower::{Ahead, AllAhead};
use super::observe::Boxed;
use super::prepare::Conditions;
use super::requests::Named;
use super::state::States;
use super::{Engine, Shared, prepare};
use crate::Result;

/// So many changes lower without the lock after a thread has waited: what it costs one that is alone
/// by then, some percent of each, stays small.
const CHANGES: u32 = 1024;
/// For so long a thread backs off before it sleeps: several times what it takes to wake one.
const BACKING_OFF: Duration = Duration::from_micros(200);

/// How often threads have waited for each other in an engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockStats {
    /// How often a thread found the engine's lock taken.
    pub waits: u64,
    /// How often the thread that had it was assembling and checking a sequence meanwhile.
    pub waits_for_lowering: u64,
    /// How many sequences were assembled and checked without the lock.
    pub lowered_outside: u64,
}

/// What is known of threads that wait for the lock.
#[derive(Debug, Default)]
pub(super) struct Contention {
    waits: AtomicU64,
    waits_for_lowering: AtomicU64,
    lowered_outside: AtomicU64,
    /// Whether who has the lock is lowering.
    is_lowering: AtomicBool,
    /// How many of the next changes lower without the lock.
    left: AtomicU32,
}

/// Until it is dropped, who has the lock is lowering.
pub(super) struct LoweringInside<'a>(&'a Contention);

impl Contention {
    /// A thread has to wait.
    fn note_wait(&self) {
        let left = self.left.load(Ordering::Relaxed);
        let is_lowering = self.is_lowering.load(Ordering::Relaxed);
        self.waits.fetch_add(1, Ordering::Relaxed);
        self.waits_for_lowering
            .fetch_add(is_lowering.into(), Ordering::Relaxed);
        if is_lowering || left > 0 {
            self.left.store(CHANGES, Ordering::Relaxed);
        }
    }

    /// Who has the lock lowers.
    pub(super) fn lowering(&self) -> LoweringInside<'_> {
        self.is_lowering.store(true, Ordering::Relaxed);
        LoweringInside(self)
    }

    /// Whether the next change is to lower without the lock.
    #[inline]
    fn is_likely(&self) -> bool {
        let left = self.left.load(Ordering::Relaxed);
        // Two threads may take the same number: it is no more than an estimate.
        if left > 0 {
            self.left.store(left - 1, Ordering::Relaxed);
        }
        left > 0
    }

    fn stats(&self) -> LockStats {
        LockStats {
            waits: self.waits.load(Ordering::Relaxed),
            waits_for_lowering: self.waits_for_lowering.load(Ordering::Relaxed),
            lowered_outside: self.lowered_outside.load(Ordering::Relaxed),
        }
    }

    /// Makes all changes lower without the lock.
    #[cfg(test)]
    pub(super) fn expect_forever(&self) {
        self.left.store(u32::MAX, Ordering::Relaxed);
    }
}

impl Drop for LoweringInside<'_> {
    fn drop(&mut self) {
        self.0.is_lowering.store(false, Ordering::Relaxed);
    }
}

impl Engine {
    /// How often threads that change sites have waited for each other: the number to look at where
    /// patching from several threads is slower than expected.
    #[must_use]
    pub fn lock_stats(&self) -> LockStats {
        self.shared.contention.stats()
    }
}

impl Shared {
    /// The states for who only looks: also in a fork's child, unless a thread of the parent has
    /// the lock.
    ///
    /// # Panics
    /// In an observer that this engine is telling.
    pub(super) fn look(&self) -> Option<MutexGuard<'_, States>> {
        self.states
            .try_lock()
            .or_else(|| self.birth.is_here().then(|| self.lock_later()))
    }

    /// Waits for the engine's lock, each time for twice as long before it looks again.
    #[cold]
    fn lock_later(&self) -> MutexGuard<'_, States> {
        // protection: observers-do-not-wait-for-themselves
        self.observers.refuse_own();
        self.contention.note_wait();
        let (began, mut pauses) = (Instant::now(), 8);
        while began.elapsed() < BACKING_OFF {
            (0..pauses).for_each(|_| spin_loop());
            if let Some(states) = self.states.try_lock() {
                return states;
            }
            pauses *= 2;
        }
        self.states.lock()
    }

    /// Does what observers may be told of, under the lock. If one of them has panicked, that goes
    /// on when the work is done and the lock is free again.
    ///
    /// Refuses in a fork's child, where a thread of the parent may have the lock for ever.
    ///
    /// # Panics
    /// In an observer that this engine is telling.
    #[inline]
    pub(super) fn with_states<R>(&self, work: impl FnOnce(&mut States) -> Boxed<R>) -> Result<R> {
        // protection: fork-engine-is-refused-before-its-lock
        self.check_here()?;
        let mut states = self.states.try_lock().unwrap_or_else(|| self.lock_later());
        let result = work(&mut states);
        if self.observers.any() {
            self.pass_on_a_panic(states);
        }
        result.map_err(|error| *error)
    }

    /// Frees the lock, and goes on with the panic of an observer if there was one.
    #[cold]
    fn pass_on_a_panic(&self, states: MutexGuard<'_, States>) {
        let panic = self.observers.take_panic();
        drop(states);
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }

    /// Prepares changes, and does something with them, under one lock.
    #[inline]
    pub(super) fn with_prepared<'e, 's, R>(
        &self,
        engine: &'e Engine,
        changes: impl Named<'s>,
        conditions: Conditions,
        then: impl FnOnce(&mut States, Prepared<'e>) -> Boxed<R>,
    ) -> Result<R> {
        if self.contention.is_likely() {
            return self.with_lowered(engine, changes, conditions, then);
        }
        self.with_states(|states| {
            let changes = changes.find(&self.table, states)?;
            let prepared = prepare::prepare::<false>(engine, states, changes, conditions)?;
            then(states, prepared)
        })
    }

    /// The same, after what no template makes was lowered without the lock.
    #[cold]
    fn with_lowered<'e, 's, R>(
        &self,
        engine: &'e Engine,
        changes: impl Named<'s>,
        conditions: Conditions,
        then: impl FnOnce(&mut States, Prepared<'e>) -> Boxed<R>,
    ) -> Result<R> {
        let (changes, ahead) = self.with_states(|states| {
            let changes = changes.find(&self.table, states)?;
            let ahead = Ahead::look(self, states, changes.clone(), conditions.grace_period);
            Ok((changes, ahead))
        })?;
        let mut ahead = AllAhead::lower(self, ahead);
        let of = &self.contention.lowered_outside;
        of.fetch_add(ahead.len() as u64, Ordering::Relaxed);
        #[cfg(test)]
        let meanwhile = self.when_ahead.lock().take();
        #[cfg(test)]
        meanwhile.into_iter().for_each(|meanwhile| meanwhile());
        let result = self.with_states(|states| {
            // Nothing was lowered for any site: those that are alike may be in batches.
            // protection: batches-are-made-also-where-threads-wait
            if ahead.len() == 0 {
                let prepared = prepare::prepare::<false>(engine, states, changes, conditions)?;
                return then(states, prepared);
            }
            swap(&mut states.templates.get_mut().ahead, &mut ahead);
            let prepared = prepare::prepare::<true>(engine, states, changes, conditions);
            swap(&mut states.templates.get_mut().ahead, &mut ahead);
            then(states, prepared?)
        });
        ahead.release(self);
        result
    }
}
