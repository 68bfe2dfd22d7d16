//! Epochs: knowing that every thread has left code that nothing branches to any more.
//!
//! Problem: a stub is retired when its site's patchable jump gets another target, but threads may
//! still be in it, or have return addresses there. Approach (quiescent-state-based reclamation):
//! the engine counts epochs; a thread reports, at places of its choice, the epoch that it sees
//! there. Once every attached thread has reported an epoch that began after the stub was retired,
//! and after every core had serialized, none is in it.
//!
//! A thread reports two things, see [`QuiescentState`]. A report is one load and one store, cheap
//! enough for the back edge of a loop.
//!
//! Invariants: an epoch is only advanced when the patchable jumps exchanged before are published to
//! every core, so that a thread that sees the new epoch executes the new patchable jumps; a thread
//! that is attached or comes back online stores its epoch, then fences, then executes; the engine
//! advances, then fences, then looks. One of the two therefore sees the other.

#![allow(unsafe_code)]

use std::fmt;
use std::marker::PhantomData;
use std::sync::PoisonError;
use std::vec::Vec;

use super::serialize;
use crate::memory::fork::gate::Writing;
use sync::{Arc, AtomicU64, Mutex, Ordering, fence};

/// Where the synchronization comes from: the model checker's under test with it.
mod sync {
    #[cfg(all(test, loom))]
    pub(super) use loom::sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering, fence},
    };
    #[cfg(not(all(test, loom)))]
    pub(super) use std::sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering, fence},
    };
}

/// What a thread that is not executing compiled code may still have to do with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum QuiescentState {
    /// Its program counter is outside the engine's code, but frames of compiled code may be on its
    /// stack: return addresses point there. Stubs without calls need no more.
    Checkpoint,
    /// No frame of compiled code is on its stack. What stubs with calls need.
    Quiescent,
}

/// The promise that reports are true and complete, without which nothing can be freed by them.
pub struct Attached {
    private: (),
}

impl Attached {
    /// Promises it.
    ///
    /// # Safety
    ///
    /// As long as the value exists, for the engine that it is used with: every thread that executes
    /// code of live modules has a [`ThreadHandle`] of the engine, or executes none before the next
    /// use of the value returns; reports are made by the thread's own control flow, not by a signal
    /// handler that has interrupted compiled code; whoever reports [`QuiescentState::Quiescent`],
    /// goes offline with it or drops the handle, has no frame of compiled code on the thread's
    /// stack, nor in a suspended coroutine that it may resume. A thread that is offline executes
    /// none of the engine's code; if it went offline with [`QuiescentState::Checkpoint`] it does
    /// not return into any either.
    #[must_use]
    pub const unsafe fn promise() -> Self {
        Self { private: () }
    }
}

impl fmt::Debug for Attached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let () = self.private;
        f.write_str("Attached")
    }
}

/// A thread that is offline has seen every epoch.
const OFFLINE: u64 = u64::MAX;

/// The epochs of an engine, and its threads.
#[derive(Clone, Default)]
pub(crate) struct Epochs(Arc<Shared>);

struct Shared {
    now: AtomicU64,
    threads: Mutex<Vec<Arc<SeenEpochs>>>,
}

impl Default for Shared {
    fn default() -> Self {
        Self {
            now: AtomicU64::new(1),
            threads: Mutex::new(Vec::new()),
        }
    }
}

/// The last epoch that a thread has reported, of each kind. Aligned so that threads do not share a
/// cache line.
#[repr(align(128))]
struct SeenEpochs {
    checkpoint: AtomicU64,
    quiescent: AtomicU64,
}

/// The epochs that every thread has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Passed {
    checkpoint: u64,
    quiescent: u64,
}

impl Passed {
    /// Whether every thread has reported this at or after the epoch.
    pub(crate) fn has(self, epoch: u64, state: QuiescentState) -> bool {
        match state {
            QuiescentState::Checkpoint => self.checkpoint >= epoch,
            QuiescentState::Quiescent => self.quiescent >= epoch,
        }
    }
}

impl Epochs {
    /// Begins an epoch and returns it. What was exchanged before has been published to every core.
    pub(crate) fn advance(&self) -> u64 {
        let epoch = self.0.now.fetch_add(1, Ordering::AcqRel) + 1;
        fence(Ordering::SeqCst);
        epoch
    }

    /// What every attached thread has passed.
    pub(crate) fn passed(&self) -> Passed {
        let least = |passed: Passed, seen: &Arc<SeenEpochs>| Passed {
            // protection: epoch-waits-for-every-thread
            checkpoint: passed.checkpoint.min(seen.checkpoint.load(Ordering::Acquire)),
            quiescent: passed.quiescent.min(seen.quiescent.load(Ordering::Acquire)),
        };
        let all = Passed {
            checkpoint: OFFLINE,
            quiescent: OFFLINE,
        };
        self.with_threads(|threads| threads.iter().fold(all, least))
    }

    /// Adds a thread, which has not executed any code of the engine's since it last was one.
    pub(crate) fn attach(&self) -> Participant {
        let seen = self.with_threads(|threads| {
            let now = self.0.now.load(Ordering::Acquire);
            let seen = Arc::new(SeenEpochs {
                checkpoint: AtomicU64::new(now),
                quiescent: AtomicU64::new(now),
            });
            threads.push(Arc::clone(&seen));
            seen
        });
        fence(Ordering::SeqCst);
        Participant {
            epochs: self.clone(),
            seen,
        }
    }

    /// Calls `work` with the threads. No fork comes in between: its child could not attach a
    /// thread, nor let one go.
    fn with_threads<T>(&self, work: impl FnOnce(&mut Vec<Arc<SeenEpochs>>) -> T) -> T {
        let _writing = Writing::enter();
        let mut threads = self.0.threads.lock().unwrap_or_else(PoisonError::into_inner);
        work(&mut threads)
    }
}

impl fmt::Debug for Epochs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Epochs")
            .field("now", &self.0.now.load(Ordering::Relaxed))
            .field("threads", &self.with_threads(|threads| threads.len()))
            .finish()
    }
}

/// The state of one thread.
pub(crate) struct Participant {
    epochs: Epochs,
    seen: Arc<SeenEpochs>,
}

impl Participant {
    fn now(&self) -> u64 {
        self.epochs.0.now.load(Ordering::Acquire)
    }

    #[inline]
    pub(crate) fn report(&self, state: QuiescentState) {
        let now = self.now();
        self.seen.checkpoint.store(now, Ordering::Release);
        // protection: epoch-tells-quiescent-states-apart
        if state == QuiescentState::Quiescent {
            self.seen.quiescent.store(now, Ordering::Release);
        }
    }

    pub(crate) fn offline(&self, state: QuiescentState) {
        self.seen.checkpoint.store(OFFLINE, Ordering::Release);
        if state == QuiescentState::Quiescent {
            self.seen.quiescent.store(OFFLINE, Ordering::Release);
        }
    }

    pub(crate) fn online(&self, state: QuiescentState) {
        self.report(state);
        fence(Ordering::SeqCst);
    }
}

impl Drop for Participant {
    fn drop(&mut self) {
        self.epochs
            // protection: detached-participants-are-forgotten
            .with_threads(|threads| threads.retain(|seen| !Arc::ptr_eq(seen, &self.seen)));
    }
}

/// This thread's part in finding out when stubs can be freed.
///
/// A thread that executes live code should report often: stubs that it might be in cannot be freed
/// before it has. What a report promises is said at [`Attached::promise`]. Dropping the handle
/// detaches the thread.
pub struct ThreadHandle {
    participant: Participant,
    not_send: PhantomData<*mut ()>,
}

impl ThreadHandle {
    pub(crate) fn new(epochs: &Epochs) -> Self {
        let participant = epochs.attach();
        // protection: serialize-when-attached
        serialize();
        Self {
            participant,
            not_send: PhantomData,
        }
    }

    /// The epochs that it takes part in.
    pub(crate) fn epochs(&self) -> &Epochs {
        &self.participant.epochs
    }

    /// Reports [`QuiescentState::Checkpoint`]: the program counter is not in compiled code, which
    /// is true of whatever compiled code calls. One load and one store.
    #[inline]
    pub fn checkpoint(&self) {
        self.participant.report(QuiescentState::Checkpoint);
    }

    /// Reports [`QuiescentState::Quiescent`]: no frame of compiled code is on this thread's stack.
    #[inline]
    pub fn quiescent(&self) {
        self.participant.report(QuiescentState::Quiescent);
    }

    /// Before blocking: as long as the guard lives the thread executes no compiled code and reports
    /// nothing, and nobody waits for it. With [`QuiescentState::Checkpoint`] frames of compiled
    /// code may be on its stack.
    #[must_use = "the thread is online again when the guard is dropped"]
    pub fn offline(&mut self, state: QuiescentState) -> Offline<'_> {
        self.participant.offline(state);
        Offline { handle: self, state }
    }
}

impl fmt::Debug for ThreadHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ThreadHandle")
    }
}

/// A thread that is offline until this is dropped.
#[derive(Debug)]
pub struct Offline<'h> {
    handle: &'h mut ThreadHandle,
    state: QuiescentState,
}

impl Drop for Offline<'_> {
    fn drop(&mut self) {
        // protection: offline-ends
        self.handle.participant.online(self.state);
        // What this core has fetched may be older than what the others have published meanwhile.
        // protection: serialize-when-online-again
        serialize();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn nobody_attached_means_everything_has_passed() {
        let epochs = Epochs::default();
        assert!(epochs.passed().has(epochs.advance(), QuiescentState::Quiescent));
    }

    #[test]
    fn an_epoch_passes_when_every_thread_has_reported_it() {
        let epochs = Epochs::default();
        let (one, two) = (epochs.attach(), epochs.attach());
        let epoch = epochs.advance();
        assert!(!epochs.passed().has(epoch, QuiescentState::Checkpoint));
        one.report(QuiescentState::Checkpoint);
        assert!(!epochs.passed().has(epoch, QuiescentState::Checkpoint));
        two.report(QuiescentState::Quiescent);
        assert!(epochs.passed().has(epoch, QuiescentState::Checkpoint));
        assert!(!epochs.passed().has(epoch, QuiescentState::Quiescent));
        drop(one);
        assert!(epochs.passed().has(epoch, QuiescentState::Quiescent));
    }

    /// What was published before, or meanwhile, was not published to this thread.
    #[test]
    fn who_comes_or_comes_back_serializes() {
        let epochs = Epochs::default();
        let count = crate::publish::serialize::count;
        let before = count();
        let mut handle = ThreadHandle::new(&epochs);
        let attached = count();
        drop(handle.offline(QuiescentState::Quiescent));
        assert!(before < attached && attached < count());
    }

    #[test]
    fn nobody_waits_for_who_is_offline() {
        let epochs = Epochs::default();
        let mut handle = ThreadHandle::new(&epochs);
        let epoch = epochs.advance();
        let offline = handle.offline(QuiescentState::Checkpoint);
        assert!(epochs.passed().has(epoch, QuiescentState::Checkpoint));
        assert!(!epochs.passed().has(epoch, QuiescentState::Quiescent));
        let later = epochs.advance();
        drop(offline);
        assert!(epochs.passed().has(later, QuiescentState::Checkpoint));
        assert!(!epochs.passed().has(epochs.advance(), QuiescentState::Checkpoint));
        let _offline = handle.offline(QuiescentState::Quiescent);
        assert!(epochs.passed().has(u64::MAX, QuiescentState::Quiescent));
    }
}
