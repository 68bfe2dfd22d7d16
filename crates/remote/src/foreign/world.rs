//! The world of a foreign process, and what else an engine of it needs.

#![allow(unsafe_code)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use patchpoint::addr::{CodeAddr, CodeRange};
use patchpoint::memory::{self, MemoryFile, Mirror};
use patchpoint::publish::{self, Level, Publication, Stopped, Vacated, World};

use super::threads::AllStopped;
use super::{Shared, look, system};
use crate::error::{Error, Result};

/// How long threads go on that were found inside before they are stopped again, at first and at
/// most.
const FIRST_PAUSE: Duration = Duration::from_micros(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(5);

/// The threads of the process.
#[derive(Debug)]
pub(super) struct ForeignWorld(pub(super) Arc<Shared>);

impl ForeignWorld {
    /// Stops all threads where none is in what is to be vacated.
    fn stop_outside(&self, vacated: &[Vacated]) -> Result<AllStopped> {
        let until = Instant::now() + self.0.patience;
        let mut pause = FIRST_PAUSE;
        loop {
            // Each stop has all of the time: one that begins late must not be taken for one that
            // does not come about.
            let stopped = AllStopped::stop(&self.0, Instant::now() + self.0.patience)?;
            let found = stopped.ids().try_for_each(|thread| self.check(thread, vacated));
            match found {
                Ok(()) => return Ok(stopped),
                Err(
                    inside @ Error::Engine(
                        patchpoint::Error::Publish(publish::Error::ThreadInside { .. })
                        | patchpoint::Error::Publish(publish::Error::ThreadOnOtherStack { .. }),
                    ),
                ) => {
                    drop(stopped);
                    if Instant::now() + pause >= until {
                        return Err(inside);
                    }
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn check(&self, thread: i32, vacated: &[Vacated]) -> Result<()> {
        let registers = system::registers(thread);
        let registers =
            registers.map_err(|errno| self.0.refused("the registers of a thread were read", errno))?;
        // protection: foreign-threads-are-looked-for
        look::check(&self.0, thread, &registers, vacated)
    }
}

// SAFETY: the work is called once on this thread, or not at all with an error. While it runs all threads of the process
// are stopped, and were found outside of what is vacated: by what was promised when it was opened, of no other stack. Two
// stops of this process's follow each other; of those of two processes the kernel refuses one.
unsafe impl World for ForeignWorld {
    fn while_stopped(&self, vacated: &[Vacated], work: &mut dyn FnMut(&Stopped)) -> publish::Result<()> {
        let _turn = self.0.turn.lock();
        let _stopped = self.stop_outside(vacated)?;
        // SAFETY: as above; they are let go when the guard is dropped.
        work(&unsafe { Stopped::promise() });
        Ok(())
    }

    fn stops_anywhere(&self) -> bool {
        true
    }
}

// SAFETY: nothing is ever mapped in the process.
unsafe impl Mirror for Shared {
    fn map_code(&self, _: CodeRange, _: MemoryFile) -> memory::Result<bool> {
        // protection: foreign-nothing-is-mapped
        Err(nothing_is_mapped())
    }

    fn map_data(&self, _: CodeRange, _: MemoryFile) -> memory::Result<bool> {
        // protection: foreign-nothing-is-mapped (2)
        Err(nothing_is_mapped())
    }

    fn set_writable(&self, _: CodeRange, _: bool) -> memory::Result<()> {
        Ok(())
    }

    fn unmap(&self, _: CodeRange) {}
}

fn nothing_is_mapped() -> memory::Error {
    memory::Error::NotMirrored {
        what: "memory for loaded code, a stub or an exit stub",
        mend: "use quiescent modules of adopted code, and sequences without exits that fit in their sites",
    }
}

// SAFETY: the kernel does it where it writes, and the threads are stopped: see the module's head. There are no traps.
unsafe impl Publication for Shared {
    fn check(&self, _: Level) -> publish::Result<()> {
        Ok(self.check_alive()?)
    }

    fn has_ended(&self) -> bool {
        system::has_ended(&self.handle)
    }

    fn trap(&self, _: CodeAddr) -> Option<CodeAddr> {
        None
    }

    fn set_trap(&self, _: CodeAddr, _: Option<CodeAddr>) -> publish::Result<()> {
        Err(publish::Error::Memory(memory::Error::NotMirrored {
            what: "a trap",
            mend: "register the module as quiescent",
        }))
    }

    fn maintain(&self, _: &[CodeRange]) -> publish::Result<()> {
        Ok(())
    }

    fn publish(&self, _: &[CodeRange], _: Level) -> publish::Result<()> {
        Ok(())
    }
}
