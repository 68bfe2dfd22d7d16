//! A world of calls into another process.
//!
//! **Problem.** Sites that threads of another process execute are to be changed in place, from
//! here, where these threads cannot be stopped at any instruction.
//!
//! **Approach.** Every thread there executes code as long as a call from here lasts, and its
//! handlers run here. So this side knows of each whether it executes, waits for a handler, or is
//! outside. A stop holds back all calls that begin and all answers of handlers, and waits until
//! nobody executes any more. Of those that wait for a handler, the stack is shared: every word of
//! it in use is looked at, the saved registers among them, for return offsets of what changes.
//! Nothing is sent, and no signal.
//!
//! **Invariants.** Who executes was let in by [`Calls::enter`], which lets nobody in while a stop
//! lasts. One stop lasts at a time. Each thread serializes when it goes on after a message, and
//! goes on after a stop by one only.
//!
//! **Cost.** Two uncontended locks per call. A stop takes as long as the longest call that is under
//! way: code that loops for long without leaving by an exit stub keeps it from coming about, and is
//! an error when the patience is over.

#![allow(unsafe_code)]

use std::collections::HashMap;
use std::sync::Arc;
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use patchpoint::addr::CodeAddr;
use patchpoint::publish::{self, Result};
use patchpoint::publish::{Resumption, Stopped, Vacated, World};

use crate::error::Error;
use crate::stack::SharedStack;

/// Between two looks at threads that wait for their handlers.
const PAUSE: Duration = Duration::from_millis(1);

/// The calls into a process.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    state: Mutex<CallsState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct CallsState {
    /// Somebody stops the calls, or waits until they are stopped.
    held: bool,
    /// By number: the threads there that are in a call.
    threads: HashMap<i32, At>,
}

#[derive(Debug)]
enum At {
    Executes,
    Waits(Frames),
}

/// The frames of a thread that waits for a handler.
#[derive(Debug)]
struct Frames {
    stack: Arc<SharedStack>,
    /// From where on its stack is in use.
    from: u64,
    /// The thread here on which the handler runs.
    handler: ThreadId,
}

/// A call, which is over when this is dropped.
#[derive(Debug)]
pub(crate) struct Call<'c> {
    calls: &'c Calls,
    thread: i32,
}

impl Calls {
    /// A thread is about to execute: waits until it may.
    pub(crate) fn enter(&self, thread: i32) -> Call<'_> {
        let call = Call { calls: self, thread };
        call.go_on();
        call
    }

    /// Lets nobody in any more, as soon as no other stop does.
    fn hold(&self, until: Instant) -> Result<CallsStopped<'_>> {
        let mut state = self.state.lock();
        while state.held {
            if self.changed.wait_until(&mut state, until).timed_out() && state.held {
                let why = "another thread stops the calls into the other process and does not come to an end";
                return Err(publish::Error::WorldNotStopped { why });
            }
        }
        state.held = true;
        Ok(CallsStopped { calls: self })
    }

    /// Waits until something has changed that may let a stop come about, or a little while: it may
    /// have changed already.
    fn wait_for_change(&self, until: Instant) {
        let until = until.min(Instant::now() + PAUSE);
        self.changed.wait_until(&mut self.state.lock(), until);
    }
}

/// Nobody is let in as long as this lives.
struct CallsStopped<'c> {
    calls: &'c Calls,
}

impl CallsStopped<'_> {
    /// Waits until nobody executes, and fails if somebody still does then, or may return to what is
    /// to be vacated.
    fn check(&self, vacated: &[Vacated], began: Instant, until: Instant) -> Result<()> {
        let mut state = self.calls.state.lock();
        // protection: remote-stops-wait-for-calls
        while let Some(thread) = state.executes() {
            if self.calls.changed.wait_until(&mut state, until).timed_out() && state.executes().is_some() {
                let waited_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
                return Err(Error::CallNotOver { thread, waited_ms }.into());
            }
        }
        state.check(vacated)
    }
}

impl Drop for CallsStopped<'_> {
    fn drop(&mut self) {
        self.calls.state.lock().held = false;
        self.calls.changed.notify_all();
    }
}

impl Call<'_> {
    /// The thread is about to execute again.
    pub(crate) fn go_on(&self) {
        let mut state = self.calls.state.lock();
        // protection: remote-stops-hold-calls-back
        while state.held {
            self.calls.changed.wait(&mut state);
        }
        state.threads.insert(self.thread, At::Executes);
    }

    /// The thread waits for a handler, which runs on this one. Its stack is in use from there on.
    pub(crate) fn wait(&self, stack: &Arc<SharedStack>, from: u64) {
        let waits = At::Waits(Frames {
            stack: Arc::clone(stack),
            from,
            handler: std::thread::current().id(),
        });
        self.calls.state.lock().threads.insert(self.thread, waits);
        self.calls.changed.notify_all();
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.calls.state.lock().threads.remove(&self.thread);
        self.calls.changed.notify_all();
    }
}

/// The threads of another process, stopped between messages.
#[derive(Debug)]
pub(crate) struct CallWorld {
    pub(crate) calls: Arc<Calls>,
    /// How long a stop may take to come about.
    pub(crate) patience: Duration,
}

impl CallsState {
    /// A thread that executes.
    fn executes(&self) -> Option<i32> {
        let executes = |(_, at): &(&i32, &At)| matches!(at, At::Executes);
        self.threads.iter().find(executes).map(|(thread, _)| *thread)
    }

    /// Fails if a thread that waits may return to what is to be vacated.
    fn check(&self, vacated: &[Vacated]) -> Result<()> {
        self.threads.iter().try_for_each(|(thread, at)| match at {
            At::Executes => Ok(()),
            // protection: remote-stops-look-at-stacks
            At::Waits(frames) => frames.check(*thread, vacated),
        })
    }

    /// Whether the handler that a thread waits for runs on this one.
    fn waits_for_this(&self, thread: i32) -> bool {
        let at = self.threads.get(&thread);
        matches!(at, Some(At::Waits(frames)) if frames.handler == std::thread::current().id())
    }
}

impl Frames {
    fn check(&self, thread: i32, vacated: &[Vacated]) -> Result<()> {
        let mut held = self.stack.words(self.from).map(CodeAddr::new);
        let found = held.find_map(|at| {
            let part = vacated.iter().find(|part| part.is_return_offset(at))?;
            Some((at, part.range()))
        });
        found.map_or(Ok(()), |(at, range)| {
            Err(publish::Error::ThreadInside {
                thread,
                at,
                range,
                returns: true,
            })
        })
    }
}

// SAFETY: the work is called once on this thread, or not at all with an error. While it runs no thread there executes, and
// none is let in; none that waits was found to return to what is vacated. Two stops take turns. Every thread serializes
// when it goes on.
unsafe impl World for CallWorld {
    fn while_stopped(&self, vacated: &[Vacated], work: &mut dyn FnMut(&Stopped)) -> Result<()> {
        let (calls, began) = (&*self.calls, Instant::now());
        let until = began + self.patience;
        loop {
            let held = calls.hold(until)?;
            match held.check(vacated, began, until) {
                Ok(()) => {
                    // SAFETY: as above, until it is let go.
                    work(&unsafe { Stopped::promise() });
                    return Ok(());
                }
                // Its handler may answer, if that is not who waits here, and then it may get out.
                Err(publish::Error::ThreadInside { thread, .. })
                    if Instant::now() < until && !calls.state.lock().waits_for_this(thread) =>
                {
                    drop(held);
                    calls.wait_for_change(until);
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn resumption(&self) -> Resumption {
        Resumption::Serializes
    }

    fn stops_anywhere(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    fn world(patience: Duration) -> CallWorld {
        let calls = Arc::default();
        CallWorld { calls, patience }
    }

    #[test]
    fn nobody_is_let_in_while_the_work_is_done() {
        let world = world(Duration::from_secs(60));
        let (entered, done) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let stopped = world.while_stopped(&[], &mut |_| {
                scope.spawn(|| {
                    let _call = world.calls.enter(1);
                    assert!(done.load(Ordering::SeqCst), "it was let in");
                    entered.store(true, Ordering::SeqCst);
                });
                std::thread::sleep(Duration::from_millis(100));
                assert!(!entered.load(Ordering::SeqCst));
                done.store(true, Ordering::SeqCst);
            });
            stopped.unwrap();
        });
        assert!(entered.into_inner(), "and afterwards it was");
    }

    #[test]
    fn a_call_that_lasts_is_an_error_and_holds_nobody_back_afterwards() {
        let world = world(Duration::from_millis(20));
        let call = world.calls.enter(3);
        let error = world
            .while_stopped(&[], &mut |_| unreachable!("a call lasts"))
            .unwrap_err();
        let error = Error::from(error);
        assert!(matches!(error, Error::CallNotOver { thread: 3, .. }), "{error:?}");
        drop(world.calls.enter(4));
        drop(call);
        let mut worked = 0;
        world.while_stopped(&[], &mut |_| worked += 1).unwrap();
        assert_eq!(worked, 1);
    }
}
