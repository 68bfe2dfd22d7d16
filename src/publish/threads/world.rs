//! A world that stops attached threads by signal.

use std::time::{Duration, Instant};

use super::ask::{self, Action, Closed, Outcome, Round};
use super::look::Finding;
use super::{SignalAttached, registry, signal};
use crate::addr::{CodeAddr, CodeRange};
use crate::error::Errno;
use crate::publish::turn::Turn;
use crate::publish::{Error, Result};
use crate::publish::{GracePeriod, Moment, Resumption, Stopped, Vacated, World};

/// What is done when a thread is inside a range that is about to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WhenInside {
    /// The threads go on, and are stopped again a little later, until none is inside or the time is
    /// over.
    Wait(Duration),
    /// The change fails.
    Fail,
}

/// Stops the attached threads by signal, wherever they are, and looks for them in what is about to
/// change.
///
/// A stopped thread may be in the middle of anything, also of the allocator: work that runs while
/// they are stopped must not take a lock or allocate.
#[derive(Clone, Debug)]
pub struct SignalWorld {
    signal: libc::c_int,
    when_inside: WhenInside,
    patience: Duration,
}

impl SignalWorld {
    /// Installs the handler, by default for the highest real-time signal that nobody handles; waits
    /// a second for answers, and a second for threads that are inside.
    ///
    /// # Safety
    ///
    /// As long as code of an engine with this world is registered: every thread that executes such
    /// code is [attached](Self::attach) while it does and while it has frames of such code; it
    /// executes that code on its own stack, not on a coroutine's; and nobody else changes the
    /// signal's disposition.
    ///
    /// # Errors
    ///
    /// [`Error::SignalTaken`] when every real-time signal has a handler.
    pub unsafe fn new() -> Result<Self> {
        // SAFETY: the caller promises the same.
        unsafe { Self::with_signal(None) }
    }

    /// As [`new`](Self::new), with the real-time signal to be used.
    ///
    /// # Safety
    ///
    /// As for [`new`](Self::new).
    ///
    /// # Errors
    ///
    /// [`Error::SignalTaken`] when somebody else handles that signal, or it is not a real-time
    /// signal.
    pub unsafe fn with_signal(signal: Option<i32>) -> Result<Self> {
        Ok(Self {
            signal: signal::install(signal)?,
            when_inside: WhenInside::Wait(Duration::from_secs(1)),
            patience: Duration::from_secs(1),
        })
    }

    /// What is done when a thread is inside.
    #[must_use]
    pub fn when_inside(mut self, choice: WhenInside) -> Self {
        self.when_inside = choice;
        self
    }

    /// How long a thread may take to answer.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// The signal.
    #[must_use]
    pub fn signal(&self) -> i32 {
        self.signal
    }

    /// Attaches this thread to every world of this kind: from now on it is asked where it is. While
    /// a world is stopped, the call waits.
    ///
    /// # Errors
    ///
    /// [`Error::ThreadUnknown`] when the system does not tell the thread's stack.
    pub fn attach(&self) -> Result<SignalAttached> {
        super::attach()
    }

    /// Makes every attached thread serialize.
    ///
    /// # Errors
    ///
    /// [`Error::ThreadSilent`] for a thread that does not answer.
    pub fn serialize_all(&self) -> Result<()> {
        self.until_outside(|| {
            let _turn = self.turn()?;
            let mut round = Round::new(Action::Report, &[], self.signal);
            self.judge(round.run(Instant::now() + self.patience), &[])
        })
    }

    /// Waits until no attached thread is in the ranges or returns there, this one included; the
    /// proof covers the ranges.
    ///
    /// Nothing may branch into the ranges any more, as is so for the stubs that the engine has
    /// retired. A program counter at a range's first byte counts as inside, a return address there
    /// does not. What lies on this thread's stack by chance counts too: the answer for it is an
    /// error that waiting does not change.
    ///
    /// # Errors
    ///
    /// [`Error::ThreadInside`] when the time is over, [`Error::ThreadOnOtherStack`],
    /// [`Error::ThreadSilent`].
    pub fn grace_period(&self, ranges: &[CodeRange]) -> Result<GracePeriod> {
        let vacated: Box<[Vacated]> = ranges.iter().copied().map(Vacated::anywhere).collect();
        // protection: grace-period-begins-before-it-asks
        let began = Moment::begin();
        // protection: grace-period-looks-at-its-own-stack-too
        self.check_self(&vacated)?;
        self.until_outside(|| {
            let _turn = self.turn()?;
            let mut round = Round::new(Action::Report, &vacated, self.signal);
            self.judge(round.run(Instant::now() + self.patience), &vacated)
        })?;
        // protection: grace-period-begins-before-it-asks (2)
        Ok(GracePeriod::found(ranges, began))
    }

    fn turn(&self) -> Result<Turn> {
        let deadline = Instant::now() + self.patience;
        ask::ASKERS.wait(Some(deadline)).ok_or(Error::WorldNotStopped {
            why: "another thread is stopping them and does not come to an end",
        })
    }

    fn check_self(&self, vacated: &[Vacated]) -> Result<()> {
        let found = ask::look_at_self(vacated);
        self.judge(
            match found {
                Finding::Outside => Outcome::AllOutside,
                found => Outcome::Inside(registry::this_thread(), found),
            },
            vacated,
        )
    }

    /// Tries until it succeeds, the time is over, or it fails for another reason than a thread
    /// inside.
    fn until_outside<T>(&self, mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
        let start = Instant::now();
        let mut pause = Duration::from_micros(20);
        loop {
            let (failed, longest) = match (attempt(), self.when_inside) {
                (
                    Err(error @ (Error::ThreadInside { .. } | Error::ThreadOnOtherStack { .. })),
                    WhenInside::Wait(longest),
                ) => (error, longest),
                (Err(error @ Error::WorldNotStopped { .. }), _) => (error, self.patience),
                (other, _) => return other,
            };
            if start.elapsed() >= longest {
                return Err(failed);
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(2));
        }
    }

    fn judge(&self, outcome: Outcome, vacated: &[Vacated]) -> Result<()> {
        let (thread, at, returns) = match outcome {
            Outcome::AllOutside => return Ok(()),
            Outcome::Silent(thread) => {
                return Err(Error::ThreadSilent {
                    thread,
                    signal: self.signal,
                    waited_ms: u64::try_from(self.patience.as_millis()).unwrap_or(u64::MAX),
                });
            }
            Outcome::TooMany => {
                return Err(Error::WorldNotStopped {
                    why: "more threads attached meanwhile than were there before",
                });
            }
            Outcome::Refused(thread, errno) => {
                return Err(Error::ThreadNotAsked {
                    thread,
                    signal: self.signal,
                    errno: Errno(errno),
                });
            }
            Outcome::Inside(thread, Finding::OtherStack(sp)) => {
                return Err(Error::ThreadOnOtherStack {
                    thread,
                    sp: CodeAddr::new(sp),
                });
            }
            Outcome::Inside(thread, Finding::Executes(at)) => (thread, at, false),
            Outcome::Inside(thread, Finding::Returns(at)) => (thread, at, true),
            Outcome::Inside(_, Finding::Outside) => return Ok(()),
        };
        let at = CodeAddr::new(at);
        Err(Error::ThreadInside {
            thread,
            at,
            range: vacated
                .iter()
                .map(Vacated::range)
                .find(|range| range.contains(at) || range.start() == at)
                .expect("a thread is found in, or at, what is to be vacated"),
            returns,
        })
    }
}

// SAFETY: `work` is called once, or not at all before an error. While it runs, every attached thread but this is
// in the handler with all signals blocked, none that attaches gets further, and none is inside the ranges.
// Two callers take turns. Every thread serializes at the end of the handler.
unsafe impl World for SignalWorld {
    fn while_stopped(&self, vacated: &[Vacated], work: &mut dyn FnMut(&Stopped)) -> Result<()> {
        // protection: grace-period-looks-at-its-own-stack
        self.check_self(vacated)?;
        self.until_outside(|| {
            let _turn = self.turn()?;
            let _closed = Closed::close();
            let mut round = Round::new(Action::Park, vacated, self.signal);
            let outcome = round.run(Instant::now() + self.patience);
            // protection: inside-is-refused
            if matches!(outcome, Outcome::AllOutside) {
                // SAFETY: what the implementation's comment says.
                work(&unsafe { Stopped::promise() });
            }
            drop(round);
            self.judge(outcome, vacated)
        })
    }

    fn resumption(&self) -> Resumption {
        Resumption::Serializes
    }

    fn stops_anywhere(&self) -> bool {
        true
    }
}
