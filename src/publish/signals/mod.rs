//! Making every other thread serialize by a signal, where `membarrier` is refused.
//!
//! **Approach.** A real-time signal is queued to each thread, with a ticket: the numbers of its
//! batch and of its slot. The handler serializes its thread and puts the batch's number into the
//! slot. Threads are listed again until a listing shows none that is new, as a thread may be
//! created meanwhile.
//!
//! **Invariants.** The slots are static, so a handler that runs late writes where nobody is harmed,
//! and its old number is not taken for a new one, nor does it replace one. Nothing is allocated:
//! the world may be stopped, and a stopped thread in the allocator. A thread is over when its slot
//! is filled, or when it is seen, after its signal was queued, where it cannot execute without
//! handling the signal first (stopped, or asleep without being interruptible, and not blocking it),
//! or dead. A thread that blocks the signal makes the barrier fail after a second: it is never
//! taken for serialized.
//!
//! **Cost.** A system call, a signal frame and an interrupted system call per thread: this is the
//! fallback.

#![allow(unsafe_code)]

mod threads;

use std::ops::Range;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::serialize;
use crate::error::Errno;
use threads::{Thread, Whereabouts};

/// How many threads there may be; with more the barrier is refused. Memory is taken for those that
/// there are.
const SLOTS: usize = 1 << 15;
/// What each slot's thread acknowledged last: the number of its batch.
static ACKNOWLEDGED: [AtomicU64; SLOTS] = [const { AtomicU64::new(0) }; SLOTS];
/// The threads of a barrier, by their slots. Whoever has the turn uses it.
static ASKED: [AtomicI32; SLOTS] = [const { AtomicI32::new(0) }; SLOTS];
/// The process that has a barrier running, or 0.
static OWNER: AtomicI32 = AtomicI32::new(0);
/// The signal whose handler is installed, or 0.
static SIGNAL: AtomicI32 = AtomicI32::new(0);
/// How many batches of threads were ever asked. Each has its own number, so that no late answer is
/// taken for another's.
static BATCHES: AtomicU64 = AtomicU64::new(0);
/// How long a barrier may take.
const PATIENCE: Duration = Duration::from_secs(1);

/// The right to run a barrier: one runs at a time.
struct Turn;

impl Turn {
    /// Waits for it. Not a mutex: in a fork's child the thread that held that would not exist.
    fn wait(deadline: Instant) -> Result<Self, Errno> {
        let this = threads::process();
        loop {
            match OWNER.compare_exchange(0, this, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Ok(Self),
                Err(owner) if owner == this => {}
                // The parent's, at the moment of the fork.
                // protection: fork-during-a-barrier-by-signals
                Err(owner) => {
                    let _ = OWNER.compare_exchange(owner, 0, Ordering::Relaxed, Ordering::Relaxed);
                }
            }
            if Instant::now() >= deadline {
                return Err(Errno(libc::ETIMEDOUT));
            }
            std::thread::yield_now();
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // protection: signals-turn-is-released
        OWNER.store(0, Ordering::Release);
    }
}

/// A process whose handler is installed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Signals {
    signal: libc::c_int,
}

impl Signals {
    /// Installs the handler, once per process, and tries the barrier.
    pub(super) fn install() -> Result<Self, Errno> {
        let turn = Turn::wait(Instant::now() + PATIENCE)?;
        if SIGNAL.load(Ordering::Relaxed) == 0 {
            SIGNAL.store(install_handler()?, Ordering::Relaxed);
        }
        drop(turn);
        let signals = Self {
            signal: SIGNAL.load(Ordering::Relaxed),
        };
        signals.issue()?;
        Ok(signals)
    }

    /// Makes every other thread serialize.
    pub(super) fn issue(self) -> Result<(), Errno> {
        let deadline = Instant::now() + PATIENCE;
        let _turn = Turn::wait(deadline)?;
        let mut over = 0;
        loop {
            let number = BATCHES.fetch_add(1, Ordering::Relaxed) + 1;
            let asked = self.ask(over, number)?;
            // protection: signals-look-for-new-threads
            if asked == over {
                return Ok(());
            }
            self.wait(over..asked, number, deadline)?;
            over = asked;
        }
    }

    /// Signals every thread that is not among the first so many, and returns how many there are
    /// then.
    fn ask(self, over: usize, number: u64) -> Result<usize, Errno> {
        let mut asked = over;
        threads::others(|thread| {
            let mut known = ASKED.iter().take(asked);
            if known.any(|known| known.load(Ordering::Relaxed) == thread.0) {
                return Ok(());
            }
            let (known, slot) = ASKED
                .get(asked)
                .zip(ACKNOWLEDGED.get(asked))
                .ok_or(Errno(libc::E2BIG))?;
            known.store(thread.0, Ordering::Relaxed);
            match threads::queue(thread, self.signal, (number << 16) | asked as u64) {
                Ok(()) => {}
                // It has ended.
                Err(Errno(libc::ESRCH)) => acknowledge(slot, number),
                Err(errno) => return Err(errno),
            }
            asked += 1;
            Ok(())
        })?;
        Ok(asked)
    }

    /// Waits until the threads of these slots are over.
    fn wait(self, slots: Range<usize>, number: u64, deadline: Instant) -> Result<(), Errno> {
        let all = ASKED.iter().zip(&ACKNOWLEDGED);
        let slots = all.take(slots.end).skip(slots.start);
        let mut look = Instant::now() + Duration::from_millis(2);
        for (thread, slot) in slots {
            // protection: signals-reach-every-thread
            while slot.load(Ordering::Acquire) != number {
                let now = Instant::now();
                if now >= look {
                    let thread = Thread(thread.load(Ordering::Relaxed));
                    if threads::whereabouts(thread, self.signal) == Whereabouts::Held {
                        break;
                    }
                    look = now + Duration::from_millis(10);
                }
                if now >= deadline {
                    return Err(Errno(libc::ETIMEDOUT));
                }
                std::thread::yield_now();
            }
        }
        Ok(())
    }
}

/// Notes that a slot's thread is over, as far as that batch is concerned or one before.
fn acknowledge(slot: &AtomicU64, number: u64) {
    slot.fetch_max(number, Ordering::Release);
}

/// The highest real-time signal. qemu-user accepts handlers for two that it never delivers.
pub(super) fn highest() -> libc::c_int {
    libc::SIGRTMAX() - if cfg!(emulated) { 2 } else { 0 }
}

/// Takes the highest real-time signal that nobody handles.
fn install_handler() -> Result<libc::c_int, Errno> {
    let free = (libc::SIGRTMIN()..=highest())
        .rev()
        .find(|signal| threads::is_unhandled(*signal));
    let signal = free.ok_or(Errno(libc::EBUSY))?;
    threads::handle(signal, on_signal)?;
    Ok(signal)
}

/// Serializes this thread and acknowledges. Async-signal-safe: atomics only, and `errno` is left
/// alone.
extern "C" fn on_signal(_signal: libc::c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    serialize();
    // SAFETY: the kernel passes a valid pointer to a handler with SA_SIGINFO.
    let ticket = unsafe { threads::ticket(info) };
    // Somebody else may have sent another.
    if let Some(slot) = ACKNOWLEDGED.get((ticket & 0xffff) as usize) {
        #[cfg(test)]
        tests::note();
        acknowledge(slot, ticket >> 16);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::testing::process::in_child;
    use std::sync::atomic::AtomicBool;

    /// A thread, and how often it handled the signal.
    static NOTED: (AtomicI32, AtomicU64) = (AtomicI32::new(0), AtomicU64::new(0));

    fn this_thread() -> libc::pid_t {
        // SAFETY: takes nothing and cannot fail.
        unsafe { libc::gettid() }
    }

    /// Called by the handler, before it acknowledges.
    pub(super) fn note() {
        if NOTED.0.load(Ordering::Relaxed) == this_thread() {
            NOTED.1.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn threads_that_run_sleep_start_and_exit_are_all_over() {
        // In a process of its own: other tests hold threads that answer no signal.
        assert!(in_child(|| {
            let signals = Signals::install().unwrap();
            let stop = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        std::thread::sleep(Duration::from_millis(5));
                    }
                });
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        std::thread::spawn(|| ()).join().unwrap();
                    }
                });
                for _ in 0..100 {
                    signals.issue().unwrap();
                }
                stop.store(true, Ordering::Relaxed);
            });
            true
        }));
    }

    #[test]
    fn a_thread_that_never_calls_the_system_has_serialized_when_the_call_returns() {
        // In a process of its own: other tests hold threads that answer no signal.
        assert!(in_child(|| {
            let signals = Signals::install().unwrap();
            let stop = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    NOTED.0.store(this_thread(), Ordering::Relaxed);
                    while !stop.load(Ordering::Relaxed) {
                        core::hint::spin_loop();
                    }
                });
                while NOTED.0.load(Ordering::Relaxed) == 0 {
                    std::thread::yield_now();
                }
                for _ in 0..100 {
                    let before = NOTED.1.load(Ordering::Relaxed);
                    signals.issue().unwrap();
                    assert!(NOTED.1.load(Ordering::Relaxed) > before);
                }
                stop.store(true, Ordering::Relaxed);
            });
            true
        }));
    }

    #[test]
    fn a_thread_that_blocks_the_signal_is_never_taken_for_serialized() {
        assert!(in_child(|| {
            let signals = Signals::install().unwrap();
            let ready = std::sync::Arc::new(AtomicBool::new(false));
            let told = std::sync::Arc::clone(&ready);
            std::thread::spawn(move || {
                threads::tests::block_every_signal();
                told.store(true, Ordering::Relaxed);
                loop {
                    core::hint::spin_loop();
                }
            });
            while !ready.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            signals.issue() == Err(Errno(libc::ETIMEDOUT))
        }));
    }

    #[test]
    fn a_barrier_leaves_no_descriptor_open() {
        assert!(in_child(|| {
            let signals = Signals::install().unwrap();
            let stopped = std::thread::spawn(|| {
                loop {
                    std::thread::sleep(Duration::from_secs(1));
                }
            });
            threads::tests::limit_descriptors(64);
            for _ in 0..64 {
                signals.issue().unwrap();
                // What looks for a thread that does not answer opens a file of its own.
                threads::others(|thread| {
                    threads::whereabouts(thread, signals.signal);
                    Ok(())
                })
                .unwrap();
            }
            !stopped.is_finished() && std::fs::File::open("/proc/self/status").is_ok()
        }));
    }

    #[test]
    fn a_child_forked_during_a_barrier_has_its_own() {
        let turn = Turn::wait(Instant::now() + Duration::from_secs(10)).unwrap();
        assert!(in_child(
            || Signals::install().is_ok_and(|signals| signals.issue().is_ok())
        ));
        drop(turn);
    }
}
