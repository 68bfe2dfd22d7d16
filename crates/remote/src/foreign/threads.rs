//! All threads of a process, stopped.
//!
//! Threads are listed and stopped until a list has none that is not stopped already: who is stopped
//! starts no others. The thread that stops them is their tracer, and the only one that can let them
//! go; so the value stays with it.

use std::marker::PhantomData;
use std::time::{Duration, Instant};

use patchpoint::error::Errno;

use super::Shared;
use super::system::{self, News};
use crate::error::{Error, Result};
use crate::system::errno;

/// How long a thread that was asked to stop is waited for when it is to be let go again.
const TO_LET_GO: Duration = Duration::from_secs(1);
/// Pause between two questions whether a thread has stopped, after the first few.
const PAUSE: Duration = Duration::from_micros(20);

/// A thread that this one traces.
#[derive(Clone, Copy, Debug)]
struct Traced {
    id: i32,
    state: ThreadState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ThreadState {
    /// It was asked to stop.
    Asked,
    /// It is stopped, with the signal that it was about to receive, or 0.
    Stopped(i32),
    Ended,
}

/// All threads of a process, stopped as long as this lives.
#[derive(Debug)]
pub(super) struct AllStopped {
    threads: Vec<Traced>,
    /// Only the tracer can let them go.
    not_send: PhantomData<*mut ()>,
}

impl AllStopped {
    /// Stops them.
    ///
    /// # Errors
    /// One cannot be traced, or does not stop in time; the process has ended. None is stopped then.
    pub(super) fn stop(process: &Shared, until: Instant) -> Result<Self> {
        let mut all = Self {
            threads: Vec::new(),
            not_send: PhantomData,
        };
        while all.add(process)? {
            all.wait(process, until)?;
        }
        // The number is still that of the process, and what was stopped were its threads.
        process.check_alive()?;
        Ok(all)
    }

    /// Their numbers.
    pub(super) fn ids(&self) -> impl Iterator<Item = i32> {
        let stopped = |thread: &&Traced| matches!(thread.state, ThreadState::Stopped(_));
        self.threads.iter().filter(stopped).map(|thread| thread.id)
    }

    /// Asks those to stop that are not known yet. Whether there were any.
    fn add(&mut self, process: &Shared) -> Result<bool> {
        let mut added = false;
        for id in tasks(process)? {
            if self.threads.iter().any(|thread| thread.id == id) {
                continue;
            }
            match system::seize(id) {
                Ok(()) => {}
                // It has ended, or is about to: the first thread stays listed until the last has.
                Err(_) if is_over(process, id) => continue,
                Err(errno) => return Err(process.refused("a thread of it was to be traced", errno)),
            }
            self.threads.push(Traced {
                id,
                state: ThreadState::Asked,
            });
            // One that has ended meanwhile is found so.
            let _ = system::interrupt(id);
            added = true;
        }
        Ok(added)
    }

    /// Waits until those that were asked have stopped.
    fn wait(&mut self, process: &Shared, until: Instant) -> Result<()> {
        let began = Instant::now();
        for thread in &mut self.threads {
            if !thread.wait(until) {
                return Err(Error::ThreadNotStopped {
                    process: process.id,
                    thread: thread.id,
                    waited_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
                });
            }
        }
        Ok(())
    }
}

impl Drop for AllStopped {
    fn drop(&mut self) {
        let until = Instant::now() + TO_LET_GO;
        for thread in &mut self.threads {
            // One that runs cannot be let go; it is when this thread ends.
            thread.wait(until);
            if let ThreadState::Stopped(signal) = thread.state {
                let _ = system::detach(thread.id, signal);
            }
        }
    }
}

impl Traced {
    /// Waits until it has stopped, or ended. False: it did not in time.
    fn wait(&mut self, until: Instant) -> bool {
        let mut questions = 0_u32;
        while self.state == ThreadState::Asked {
            match system::news(self.id) {
                News::Stopped { signal } => self.state = ThreadState::Stopped(signal),
                News::Ended => self.state = ThreadState::Ended,
                News::None if Instant::now() >= until => return false,
                News::None if questions < 50 => std::thread::yield_now(),
                News::None => std::thread::sleep(PAUSE),
            }
            questions = questions.saturating_add(1);
        }
        true
    }
}

/// The threads of a process, by number.
fn tasks(process: &Shared) -> Result<Vec<i32>> {
    let refused = |error: std::io::Error| match errno(&error) {
        Errno(libc::ENOENT | libc::ESRCH) => Error::ProcessGone { process: process.id },
        errno => process.refused("its threads were listed", errno),
    };
    let listed = std::fs::read_dir(format!("/proc/{}/task", process.id)).map_err(refused)?;
    let mut tasks = Vec::new();
    for entry in listed {
        let entry = entry.map_err(refused)?;
        tasks.extend(
            entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse::<i32>().ok()),
        );
    }
    Ok(tasks)
}

/// Whether a thread executes nothing any more: it is not there, or waits to be waited for.
fn is_over(process: &Shared, thread: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/task/{thread}/stat", process.id));
    // The name, in parentheses, may hold anything; the state follows it: proc_pid_stat(5).
    let state = stat.ok().and_then(|stat| {
        let (_, after) = stat.rsplit_once(')')?;
        after.trim_start().chars().next()
    });
    state.is_none_or(|state| matches!(state, 'Z' | 'X' | 'x'))
}
