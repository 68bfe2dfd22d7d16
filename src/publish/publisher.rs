//! Publishing ranges of code that have been written.

#![allow(unsafe_code, reason = "caches are maintained by address")]

use std::fmt;
use std::sync::Arc;

use crate::addr::CodeRange;
use crate::error::Errno;
use crate::latency::{self, Stage};
use crate::publish::{Error, Result};

use super::others::OtherCores;
use super::publication::Publication;
use super::{Resumption, serialize};
use crate::icache;

/// What is true of the other threads when a publication returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Level {
    /// Each runs the old bytes or the new for a bounded time. Enough for an inline cache, and for
    /// what no other thread can execute yet.
    Eventual,
    /// None runs the old bytes any more. What an invalidation needs.
    Immediate,
}

/// How code is published. [`Display`](fmt::Display) says what was chosen, and why.
#[derive(Clone, Debug)]
pub struct Publisher {
    way: Route,
}

/// Where code is published.
#[derive(Clone, Debug)]
enum Route {
    /// In this process.
    Here(OtherCores),
    /// Where it is executed, by who knows the threads there.
    By(Arc<dyn Publication>),
}

impl Default for Publisher {
    fn default() -> Self {
        Self::new()
    }
}

impl Publisher {
    /// Tries how other threads can be made to serialize: by `membarrier`, else by a signal to each.
    /// Where neither works, [`Level::Immediate`] is refused, and everything else works.
    ///
    /// The signal's handler is installed only where `membarrier` is refused; it takes the highest
    /// real-time signal that has its default disposition. System calls that cannot be restarted are
    /// interrupted by it (signal(7)).
    #[must_use]
    pub fn new() -> Self {
        Self {
            way: Route::Here(OtherCores::find()),
        }
    }

    /// Publishes where the code is executed.
    pub(crate) fn by(publication: Arc<dyn Publication>) -> Self {
        Self {
            way: Route::By(publication),
        }
    }

    /// Checks that a level can be had, before anything is written.
    ///
    /// # Errors
    ///
    /// [`Error::NoBarrier`] for [`Level::Immediate`] where other threads cannot be made to
    /// serialize.
    pub fn check(&self, level: Level) -> Result<()> {
        match (level, &self.way) {
            // protection: no-barrier-is-a-refusal
            (Level::Immediate, Route::Here(OtherCores::Refused { call, errno })) => {
                Err(no_barrier(call, *errno))
            }
            (_, Route::By(publication)) => publication.check(level),
            _ => Ok(()),
        }
    }

    /// The level that suits threads which were stopped.
    #[must_use]
    pub const fn level_for(resumption: Resumption) -> Level {
        match resumption {
            Resumption::Alone | Resumption::Serializes => Level::Eventual,
            Resumption::Unknown => Level::Immediate,
        }
    }

    /// Whether it does anything with the ranges that it is given.
    #[inline]
    pub(crate) fn takes_ranges(&self) -> bool {
        match &self.way {
            Route::Here(_) => icache::IS_MAINTAINED,
            Route::By(_) => true,
        }
    }

    /// Maintains the instruction cache for code that no thread has executed and that none will
    /// before a later publication of what branches to it: the first half of
    /// [`publish`](Self::publish).
    ///
    /// # Errors
    ///
    /// Those of a [`Publication`].
    pub(crate) fn maintain(&self, ranges: &[CodeRange]) -> Result<()> {
        match &self.way {
            Route::Here(_) => ranges.iter().for_each(|range| icache::maintain(*range)),
            Route::By(publication) => publication.maintain(ranges)?,
        }
        Ok(())
    }

    /// Publishes code that the runtime has written, given by executed addresses: maintains the
    /// instruction cache, serializes this core, and at [`Level::Immediate`] every other thread,
    /// once however many ranges there are.
    ///
    /// # Safety
    ///
    /// The ranges are mapped and readable: on some architectures maintaining the cache of an
    /// address is an access to it.
    ///
    /// # Errors
    ///
    /// [`Error::NoBarrier`]: this core executes the new bytes, and of the others it is not known.
    /// Those of a [`Publication`].
    pub unsafe fn publish_code(&self, ranges: &[CodeRange], level: Level) -> Result<()> {
        self.publish(ranges, level)
    }

    /// Serializes this core, and at [`Level::Immediate`] every other thread: publishes what no
    /// cache has to be maintained for.
    ///
    /// # Errors
    ///
    /// As [`publish_code`](Self::publish_code).
    pub fn serialize(&self, level: Level) -> Result<()> {
        self.publish(&[], level)
    }

    /// Publishes ranges of code of the engine's, given as executed addresses: maintains the
    /// instruction cache, serializes this core, and at [`Level::Immediate`] every other thread,
    /// once however many ranges there are.
    ///
    /// # Errors
    ///
    /// [`Error::NoBarrier`]: this core executes the new bytes, and of the others it is not known.
    /// Those of a [`Publication`].
    #[inline]
    pub(crate) fn publish(&self, ranges: &[CodeRange], level: Level) -> Result<()> {
        let others = match &self.way {
            Route::Here(others) => others,
            Route::By(publication) => return publication.publish(ranges, level),
        };
        let stage = latency::enter(Stage::Flush);
        for range in ranges {
            icache::maintain(*range);
        }
        stage.end();
        let _stage = latency::enter(Stage::Serialize);
        // Also at Immediate: the barrier may leave out the thread that asks, when it is the only one.
        // protection: serialize-after-writing
        serialize();
        match level {
            Level::Eventual => Ok(()),
            // protection: immediate-has-a-barrier
            Level::Immediate => serialize_others(others),
        }
    }

    /// Publishes code that an arena has placed, before any thread runs it: the other half of what
    /// [`Placement::finalize`](crate::memory::Placement::finalize) does for this process. Where
    /// other code was at these addresses before, a core may have fetched that: then every thread
    /// serializes.
    ///
    /// # Errors
    ///
    /// As [`publish`](Self::publish).
    pub(crate) fn publish_placed(&self, ranges: &[CodeRange], is_reused: bool) -> Result<()> {
        let level = match is_reused {
            true => Level::Immediate,
            false => Level::Eventual,
        };
        match &self.way {
            Route::Here(_) => self.publish(&[], level),
            Route::By(publication) => publication.publish(ranges, level),
        }
    }

    /// Who publishes the code, and notes its traps, where that is not this process.
    pub(crate) fn publication(&self) -> Option<&dyn Publication> {
        match &self.way {
            Route::Here(_) => None,
            Route::By(publication) => Some(&**publication),
        }
    }

    /// Publishes what was put back. Where nobody is left who would execute it, nobody executes
    /// anything else.
    ///
    /// # Errors
    ///
    /// As [`publish`](Self::publish).
    #[cold]
    pub(crate) fn publish_again(&self, ranges: &[CodeRange], level: Level) -> Result<()> {
        let published = self.publish(ranges, level);
        match &self.way {
            Route::By(publication) if publication.has_ended() => Ok(()),
            _ => published,
        }
    }
}

impl fmt::Display for Publisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.way {
            Route::Here(others) => fmt::Display::fmt(others, f),
            Route::By(_) => f.write_str("the code is executed in a mirror, and published there"),
        }
    }
}

/// Apart, so that the rest is compiled into a commit, which needs this for an invalidation only.
#[inline(never)]
fn serialize_others(others: &OtherCores) -> Result<()> {
    let serialized = others.serialize();
    serialized.map_err(|(call, errno)| no_barrier(call, errno))
}

fn no_barrier(call: &'static str, errno: Errno) -> Error {
    Error::NoBarrier {
        call,
        errno,
        mend: "allow membarrier in the sandbox, let no thread block the signal, or let the world's threads \
               serialize when they resume",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(target_os = "linux")]
    use crate::memory::testing::process::{deny, in_child};
    use std::string::ToString;

    #[test]
    fn both_levels_publish_or_say_why_not() {
        let publisher = Publisher::new();
        publisher.publish(&[], Level::Eventual).unwrap();
        assert_eq!(
            publisher.check(Level::Immediate),
            publisher.publish(&[], Level::Immediate)
        );
    }

    #[test]
    fn who_publishes_serializes() {
        let publisher = Publisher::new();
        for level in [Level::Eventual, Level::Immediate] {
            let before = crate::publish::serialize::count();
            let _ = publisher.publish(&[], level);
            assert!(crate::publish::serialize::count() > before, "{level:?}");
        }
    }

    #[test]
    fn a_refused_barrier_is_found_before_writing() {
        let refused = OtherCores::Refused {
            call: "membarrier",
            errno: Errno(libc::ENOSYS),
        };
        let publisher = Publisher {
            way: Route::Here(refused),
        };
        assert_eq!(publisher.check(Level::Eventual), Ok(()));
        let refused = publisher.check(Level::Immediate);
        assert!(
            matches!(
                refused,
                Err(Error::NoBarrier {
                    errno: Errno(libc::ENOSYS),
                    ..
                })
            ),
            "{refused:?}"
        );
        assert_eq!(publisher.publish(&[], Level::Immediate), refused);
    }

    /// Under a sandbox that knows no `membarrier`.
    #[test]
    #[cfg(target_os = "linux")]
    fn without_membarrier_threads_are_signalled() {
        assert!(in_child(|| {
            deny(&[libc::SYS_membarrier], libc::ENOSYS);
            std::thread::spawn(|| {
                loop {
                    core::hint::spin_loop();
                }
            });
            let publisher = Publisher::new();
            let says = publisher.to_string();
            says.contains("signal handler")
                && says.contains("not implemented")
                && publisher.publish(&[], Level::Immediate).is_ok()
        }));
    }

    /// And where threads cannot be listed either.
    #[test]
    #[cfg(target_os = "linux")]
    fn without_membarrier_and_proc_immediate_is_refused_by_type() {
        assert!(in_child(|| {
            deny(&[libc::SYS_membarrier], libc::EPERM);
            deny(&[libc::SYS_openat], libc::ENOENT);
            let publisher = Publisher::new();
            matches!(publisher.check(Level::Immediate), Err(Error::NoBarrier { .. }))
                && publisher.publish(&[], Level::Eventual).is_ok()
        }));
    }
}
