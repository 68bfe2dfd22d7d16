//! Where the time of a change goes, for those who ask: the feature `latency`.
//!
//! Problem: a change that is slower than it should be does not say why, and clocks on its way would
//! cost every other one. Approach: the parts of a change tell a clock of the thread when they begin
//! and end. Without the feature there is no such clock and no call of one. With it, a thread that
//! is not being [`measured`] asks one thread-local flag at each of them.
//!
//! Invariants: at any moment the time goes to one stage, the innermost; the stages together are all
//! of the time. Nothing here allocates: stages begin and end while threads are stopped.
//!
#![cfg_attr(feature = "latency", doc = "```")]
#![cfg_attr(not(feature = "latency"), doc = "```ignore")]
//! use patchpoint::latency::{Stage, measured};
//!
//! // engine.patch(78, &hit) would be here.
//! let (sum, latency) = measured(|| 1 + 1);
//! assert_eq!(sum, 2);
//! assert_eq!(latency.spent(Stage::Serialize), std::time::Duration::ZERO);
//! ```

/// A part of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Stage {
    /// Everything that is no other stage: finding sites and their state, bookkeeping, the journal.
    Plan,
    /// From a sequence to bytes, or filling them in.
    Assemble,
    /// The independent checker.
    Verify,
    /// Room for stubs and exit stubs, and putting them there.
    Allocate,
    /// Making pages writable, and executable again.
    Permission,
    /// Comparing what the sites hold, writing, reading back.
    Write,
    /// Maintenance of the instruction caches.
    Flush,
    /// Serializing this core, and the others where they are waited for.
    Serialize,
}

impl Stage {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Plan,
        Self::Assemble,
        Self::Verify,
        Self::Allocate,
        Self::Permission,
        Self::Write,
        Self::Flush,
        Self::Serialize,
    ];

    /// The name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Assemble => "assemble",
            Self::Verify => "verify",
            Self::Allocate => "allocate",
            Self::Permission => "permission",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Serialize => "serialize",
        }
    }
}

#[cfg(feature = "latency")]
mod clock {
    use std::cell::Cell;
    use std::time::{Duration, Instant};

    use super::Stage;
    use crate::invariant::OrAbort;

    const STAGES: usize = Stage::ALL.len();
    const ONE_OF_ALL: &str = "a stage is one of all";

    /// Where the time went.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Latency {
        spent: [Duration; STAGES],
        turns: [u32; STAGES],
    }

    impl Latency {
        /// The time that was spent in a stage.
        #[must_use]
        #[expect(clippy::missing_panics_doc, reason = "an invariant says why it does not")]
        pub fn spent(&self, stage: Stage) -> Duration {
            *self.spent.get(stage as usize).expect(ONE_OF_ALL)
        }

        /// How often the clock was read for a stage: so often its own time is in what was spent.
        #[must_use]
        #[expect(clippy::missing_panics_doc, reason = "an invariant says why it does not")]
        pub fn turns(&self, stage: Stage) -> u32 {
            *self.turns.get(stage as usize).expect(ONE_OF_ALL)
        }

        /// The time of all stages.
        #[must_use]
        pub fn total(&self) -> Duration {
            self.spent.iter().sum()
        }

        fn add(&mut self, stage: Stage, time: Duration) {
            let at = stage as usize;
            // Where the clock is read, the world may be stopped.
            *self.spent.get_mut(at).or_abort(ONE_OF_ALL) += time;
            *self.turns.get_mut(at).or_abort(ONE_OF_ALL) += 1;
        }
    }

    /// A clock that is running.
    #[derive(Clone, Copy)]
    struct Clock {
        stage: Stage,
        since: Instant,
        latency: Latency,
    }

    impl Clock {
        fn start() -> Self {
            Self {
                stage: Stage::Plan,
                since: Instant::now(),
                latency: Latency::default(),
            }
        }

        /// Gives the time until now to the stage, and goes on with another.
        fn turn(&mut self, to: Stage) {
            let now = Instant::now();
            self.latency.add(self.stage, now.duration_since(self.since));
            (self.stage, self.since) = (to, now);
        }
    }

    thread_local! {
        static CLOCK: Cell<Option<Clock>> = const { Cell::new(None) };
        /// Whether there is one: the clock is not moved about for asking.
        static RUNS: Cell<bool> = const { Cell::new(false) };
    }

    /// Puts a clock there, or none.
    fn exchange(clock: Option<Clock>) -> Option<Clock> {
        RUNS.set(clock.is_some());
        CLOCK.replace(clock)
    }

    /// Does something, and says where its time went, as far as changes of any engine on this thread
    /// are part of it. What is no change counts as [`Stage::Plan`]. Inside of another measurement,
    /// both have the time.
    pub fn measured<R>(work: impl FnOnce() -> R) -> (R, Latency) {
        /// Puts the outer clock back, also where the work panics.
        struct Outer(Option<Clock>);
        impl Drop for Outer {
            fn drop(&mut self) {
                exchange(self.0.take());
            }
        }
        let mut outer = Outer(exchange(Some(Clock::start())));
        let done = work();
        let latency = exchange(None).map_or(Latency::default(), |mut clock| {
            clock.turn(Stage::Plan);
            clock.latency
        });
        if let Some(outer) = &mut outer.0 {
            for stage in Stage::ALL {
                outer.latency.add(stage, latency.spent(stage));
            }
            outer.since = Instant::now();
        }
        (done, latency)
    }

    #[cfg(test)]
    pub(super) fn runs() -> bool {
        RUNS.get() || CLOCK.get().is_some()
    }

    /// That a stage has begun. It ends when this is dropped.
    pub(crate) struct Entered(Option<Stage>);

    impl Entered {
        /// Ends the stage.
        #[inline]
        pub(crate) fn end(self) {}
    }

    /// Begins a stage, if this thread is being measured.
    #[inline]
    pub(crate) fn enter(stage: Stage) -> Entered {
        match RUNS.get() {
            true => Entered(turn(stage)),
            false => Entered(None),
        }
    }

    /// Turns the clock; returns the stage before.
    #[cold]
    fn turn(to: Stage) -> Option<Stage> {
        let mut clock = CLOCK.get()?;
        let before = clock.stage;
        clock.turn(to);
        CLOCK.set(Some(clock));
        Some(before)
    }

    impl Drop for Entered {
        #[inline]
        fn drop(&mut self) {
            if let Some(before) = self.0 {
                turn(before);
            }
        }
    }
}

#[cfg(feature = "latency")]
pub(crate) use clock::enter;
#[cfg(feature = "latency")]
pub use clock::{Latency, measured};

/// Nothing, where nobody can ask.
#[cfg(not(feature = "latency"))]
pub(crate) struct Entered;

#[cfg(not(feature = "latency"))]
impl Entered {
    #[inline(always)]
    pub(crate) const fn end(self) {}
}

#[cfg(not(feature = "latency"))]
#[inline(always)]
pub(crate) const fn enter(_: Stage) -> Entered {
    Entered
}

#[cfg(all(test, feature = "latency"))]
mod tests {
    use std::thread::sleep;
    use std::time::Duration;

    use super::*;

    const LONG: Duration = Duration::from_millis(20);
    const SHORT: Duration = Duration::from_millis(10);

    #[test]
    fn the_innermost_stage_has_the_time() {
        let ((), latency) = measured(|| {
            let _write = enter(Stage::Write);
            {
                let _serialize = enter(Stage::Serialize);
                sleep(LONG);
            }
        });
        assert!(latency.spent(Stage::Serialize) >= LONG);
        assert!(latency.spent(Stage::Write) < SHORT && latency.spent(Stage::Plan) < SHORT);
        assert_eq!(latency.turns(Stage::Write), 2);
        let sum: Duration = Stage::ALL.iter().map(|stage| latency.spent(*stage)).sum();
        assert_eq!(sum, latency.total());
    }

    #[test]
    fn a_measurement_inside_of_another_is_part_of_it() {
        let (inner, outer) = measured(|| {
            let _write = enter(Stage::Write);
            let ((), inner) = measured(|| {
                let _flush = enter(Stage::Flush);
                sleep(LONG);
            });
            inner
        });
        assert!(inner.spent(Stage::Flush) >= LONG);
        assert_eq!(outer.spent(Stage::Flush), inner.spent(Stage::Flush));
        assert!(outer.spent(Stage::Write) < SHORT);
    }

    #[test]
    fn nothing_is_measured_before_or_after() {
        drop(enter(Stage::Write));
        let ((), latency) = measured(|| ());
        drop(enter(Stage::Write));
        assert_eq!(latency.turns(Stage::Write), 0);
        let panics = || measured(|| std::panic::panic_any(()));
        assert!(std::panic::catch_unwind(panics).is_err());
        assert!(!super::clock::runs());
    }
}
