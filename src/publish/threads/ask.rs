//! Asking attached threads by a signal: where are you, and will you wait?
//!
//! **Life of a question.** The asker writes what it asks into the thread's slot and moves the slot
//! from IDLE to ASKED, then sends the signal. The handler moves it to TAKEN, looks, writes what it
//! found, and moves it to ANSWERED; asked to park, it sleeps until the asker moves the slot back to
//! IDLE. Each question has a number, which is part of the slot's state. An asker that times out
//! moves ASKED or TAKEN to IDLE by compare-exchange: a handler that comes later finds nothing
//! asked, or cannot answer any more and does not park.
//!
//! **Invariants.** The handler takes no lock, allocates nothing, keeps `errno`, and blocks every
//! signal while it runs, so that a parked thread runs no other handler. A signal that someone else
//! sends does nothing. One asker is at work at a time in a process; the right to be it survives a
//! fork by naming its process.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::door::Door;
use super::look::{self, Finding, ThreadPlace};
use super::registry::{self, Slot};
use super::signal;
use crate::interrupted;
use crate::publish::turn::Turns;
use crate::publish::{Vacated, serialize};

const IDLE: u64 = 0;
const ASKED: u64 = 1;
const TAKEN: u64 = 2;
const ANSWERED: u64 = 3;

/// The kinds of [`Finding`] in a slot.
const OUTSIDE: u32 = 0;
const EXECUTES: u32 = 1;
const RETURNS: u32 = 2;
const OTHER_STACK: u32 = 3;

/// How many questions were ever asked.
static QUESTIONS: AtomicU64 = AtomicU64::new(0);
/// Who asks.
pub(super) static ASKERS: Turns = Turns::new();
/// Closed while the process's threads are stopped: who attaches now waits.
#[cfg(not(all(test, loom)))]
static DOOR: Door = Door::new();
#[cfg(all(test, loom))]
loom::lazy_static! {
    static ref DOOR: Door = Door::new();
}

/// What a thread is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// To serialize, say where it is, and go on.
    Report,
    /// To say where it is, stay there until it is released, and serialize.
    Park,
}

/// A question.
pub(super) struct Question {
    pub(super) action: Action,
    pub(super) vacated: Box<[Vacated]>,
}

/// Keeps threads from attaching.
pub(super) struct Closed(());

impl Closed {
    pub(super) fn close() -> Self {
        DOOR.close(registry::this_process());
        Self(())
    }
}

impl Drop for Closed {
    fn drop(&mut self) {
        DOOR.open();
    }
}

/// Waits until threads may attach. After the thread's slot is visible: then either the asker sees
/// the slot, or this sees that the world is stopped.
pub(super) fn wait_until_open() {
    // protection: fork-while-attaching-is-closed
    while DOOR.is_closed_for(registry::this_process()) {
        std::thread::yield_now();
    }
}

/// A thread that was asked.
#[derive(Clone, Copy)]
struct Asked {
    slot: &'static Slot,
    tid: i32,
    number: u64,
    answered: bool,
}

/// What became of a question.
pub(super) enum Outcome {
    /// Every thread answered, and was outside the ranges.
    AllOutside,
    /// A thread was not.
    Inside(i32, Finding),
    /// A thread did not answer in time.
    Silent(i32),
    /// The system did not send the signal.
    Refused(i32, i32),
    /// So many threads attached meanwhile that there is no room for their answers.
    TooMany,
}

/// A question under way. Dropping it releases parked threads.
pub(super) struct Round {
    ask: Option<Box<Question>>,
    asked: Vec<Asked>,
    signal: libc::c_int,
}

impl Round {
    pub(super) fn new(action: Action, vacated: &[Vacated], signal: libc::c_int) -> Self {
        let ask = Box::new(Question {
            action,
            vacated: vacated.into(),
        });
        Self {
            ask: Some(ask),
            asked: Vec::with_capacity(2 * registry::slots().count() + 64),
            signal,
        }
    }

    /// Asks every attached thread but this one, and waits for the answers. Where they are to park,
    /// threads that attach meanwhile are asked too. Allocates nothing: a thread that is parked
    /// already may hold the allocator's lock.
    pub(super) fn run(&mut self, deadline: Instant) -> Outcome {
        let this = registry::this_thread();
        loop {
            let mut asked_one = false;
            for slot in registry::slots() {
                let tid = slot.tid.load(Ordering::Acquire);
                if tid <= registry::FREE || tid == this || self.has_asked(slot, tid) {
                    continue;
                }
                if self.asked.len() == self.asked.capacity() {
                    return Outcome::TooMany;
                }
                if let Err(errno) = self.ask(slot, tid, deadline) {
                    return Outcome::Refused(tid, errno);
                }
                asked_one = true;
            }
            if !asked_one {
                return Outcome::AllOutside;
            }
            match self.wait(deadline) {
                // Only a stop keeps others from attaching, and so has to ask those who came
                // meanwhile. Who attached after a report was asked for had nothing of the engine's
                // on its stack when it was.
                Outcome::AllOutside if self.parks() => {}
                other => return other,
            }
        }
    }

    fn parks(&self) -> bool {
        self.ask.as_ref().is_some_and(|ask| ask.action == Action::Park)
    }

    fn has_asked(&self, slot: &Slot, tid: i32) -> bool {
        self.asked
            .iter()
            .any(|asked| std::ptr::eq(asked.slot, slot) && asked.tid == tid)
    }

    fn ask(&mut self, slot: &'static Slot, tid: i32, deadline: Instant) -> Result<(), i32> {
        let Some(ask) = &self.ask else { return Ok(()) };
        let number = QUESTIONS.fetch_add(1, Ordering::Relaxed) + 1;
        slot.ask
            .store(std::ptr::from_ref::<Question>(ask).cast_mut(), Ordering::Relaxed);
        slot.state.store(number << 2 | ASKED, Ordering::Release);
        let mut asked = Asked {
            slot,
            tid,
            number,
            answered: false,
        };
        loop {
            match signal::send(tid, self.signal) {
                Ok(()) => break,
                // It exited without a word: its slot is free.
                Err(libc::ESRCH) => {
                    asked.cancel();
                    let _ =
                        slot.tid
                            .compare_exchange(tid, registry::FREE, Ordering::AcqRel, Ordering::Relaxed);
                    break;
                }
                // The queue of signals is full.
                Err(libc::EAGAIN) if Instant::now() < deadline => std::thread::yield_now(),
                Err(errno) => {
                    asked.cancel();
                    return Err(errno);
                }
            }
        }
        self.asked.push(asked);
        Ok(())
    }

    fn wait(&mut self, deadline: Instant) -> Outcome {
        let mut look = Instant::now() + Duration::from_millis(1);
        loop {
            let now = Instant::now();
            let look_for_exited = now >= look;
            for asked in self.asked.iter_mut().filter(|asked| !asked.answered) {
                // protection: exited-threads-are-not-waited-for
                if asked.poll() || (look_for_exited && asked.has_gone()) {
                    asked.answered = true;
                }
            }
            if look_for_exited {
                look = now + Duration::from_millis(1);
            }
            match self.asked.iter().find(|asked| !asked.answered) {
                None => break,
                // protection: silent-threads-are-named
                Some(silent) if now >= deadline => return Outcome::Silent(silent.tid),
                Some(_) => std::thread::yield_now(),
            }
        }
        let mut found = self.asked.iter().map(|asked| (asked.tid, asked.found()));
        match found.find(|(_, found)| *found != Finding::Outside) {
            Some((tid, found)) => Outcome::Inside(tid, found),
            None => Outcome::AllOutside,
        }
    }
}

impl Drop for Round {
    fn drop(&mut self) {
        let mut in_use = false;
        for asked in &mut self.asked {
            // protection: stop-releases-threads
            in_use |= !asked.release();
        }
        if in_use {
            // A handler is looking at it at this moment, on a thread that does not get to run.
            std::mem::forget(self.ask.take());
        }
    }
}

impl Asked {
    fn is(&self, phase: u64) -> bool {
        self.slot.state.load(Ordering::Acquire) == self.number << 2 | phase
    }

    /// Whether it has answered.
    fn poll(&self) -> bool {
        self.is(ANSWERED)
    }

    /// Whether the thread has detached or exited without handling the signal: then nothing is asked
    /// any more.
    fn has_gone(&mut self) -> bool {
        let detached = self.slot.tid.load(Ordering::Acquire) != self.tid;
        let gone = detached || signal::send(self.tid, 0) == Err(libc::ESRCH);
        gone && self.cancel()
    }

    /// Takes a question back that no handler has taken up.
    fn cancel(&mut self) -> bool {
        self.answered = self.exchange(ASKED);
        self.answered
    }

    fn exchange(&self, from: u64) -> bool {
        let from = self.number << 2 | from;
        let done = self
            .slot
            .state
            .compare_exchange(from, IDLE, Ordering::AcqRel, Ordering::Acquire);
        done.is_ok()
    }

    fn found(&self) -> Finding {
        if !self.poll() {
            return Finding::Outside;
        }
        let at = self.slot.at.load(Ordering::Relaxed);
        match self.slot.found.load(Ordering::Relaxed) {
            EXECUTES => Finding::Executes(at),
            RETURNS => Finding::Returns(at),
            OTHER_STACK => Finding::OtherStack(at),
            _ => Finding::Outside,
        }
    }

    /// Lets the thread go. False if its handler may still be looking at the question.
    fn release(&self) -> bool {
        if self.exchange(ASKED) {
            return true;
        }
        let taken = self.exchange(TAKEN);
        if self.exchange(ANSWERED) {
            self.slot.gate.fetch_add(1, Ordering::Release);
            signal::wake(&self.slot.gate);
        }
        !taken
    }
}

/// Answers. Async-signal-safe.
pub(super) extern "C" fn on_signal(
    _signal: libc::c_int,
    _info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    let errno = signal::errno();
    if let Some(slot) = registry::mine() {
        // SAFETY: the kernel passes a valid context, which nothing else refers to, to a handler with SA_SIGINFO.
        let context = unsafe { &*context.cast::<interrupted::Context>() };
        answer(slot, context);
    }
    serialize();
    signal::set_errno(errno);
}

fn answer(slot: &Slot, context: &interrupted::Context) {
    let state = slot.state.load(Ordering::Acquire);
    let (number, phase) = (state >> 2, state & 3);
    let take = |from, to| {
        slot.state
            .compare_exchange(
                number << 2 | from,
                number << 2 | to,
                Ordering::AcqRel,
                Ordering::Acquire,
            )
            .is_ok()
    };
    if phase != ASKED || !take(ASKED, TAKEN) {
        return;
    }
    // SAFETY: from ASKED until ANSWERED the asker keeps the question.
    let ask = unsafe { &*slot.ask.load(Ordering::Relaxed) };
    let place = ThreadPlace {
        pc: interrupted::counter(context),
        registers: &interrupted::registers(context),
        sp: interrupted::stack_pointer(context),
        low: slot.low.load(Ordering::Relaxed),
        high: slot.high.load(Ordering::Relaxed),
    };
    // SAFETY: the bounds are those of this thread's stack, which it was attached with.
    let (kind, at) = match unsafe { look::look(&place, &ask.vacated) } {
        Finding::Outside => (OUTSIDE, 0),
        Finding::Executes(at) => (EXECUTES, at),
        Finding::Returns(at) => (RETURNS, at),
        Finding::OtherStack(at) => (OTHER_STACK, at),
    };
    let parks = ask.action == Action::Park;
    slot.found.store(kind, Ordering::Relaxed);
    slot.at.store(at, Ordering::Relaxed);
    serialize();
    // protection: stop-parks-threads
    if take(TAKEN, ANSWERED) && parks {
        park(slot, number << 2 | ANSWERED);
    }
}

/// Sleeps until the slot's state is another.
fn park(slot: &Slot, while_state: u64) {
    loop {
        let gate = slot.gate.load(Ordering::Acquire);
        if slot.state.load(Ordering::Acquire) != while_state {
            return;
        }
        signal::sleep(&slot.gate, gate);
    }
}

/// Looks at this thread's own stack, from here up.
#[inline(never)]
pub(super) fn look_at_self(vacated: &[Vacated]) -> Finding {
    let Some(slot) = registry::mine() else {
        return Finding::Outside;
    };
    let here = 0_u64;
    let place = ThreadPlace {
        pc: 0,
        registers: &[],
        sp: (&raw const here) as u64,
        low: slot.low.load(Ordering::Relaxed),
        high: slot.high.load(Ordering::Relaxed),
    };
    // SAFETY: the bounds are those of this thread's stack, on which `here` is, or else nothing is read.
    unsafe { look::look(&place, vacated) }
}

/// What a parked thread sleeps on, for the system calls.
pub(super) type Gate = AtomicU32;
