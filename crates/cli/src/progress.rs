//! One line on the standard error stream while something takes long, where that is a terminal.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// Nothing is shown before, and not more often.
const WAIT: Duration = Duration::from_millis(200);

pub(crate) struct Progress {
    what: &'static str,
    done: u64,
    /// `None`: nobody looks.
    next: Option<Instant>,
    shown: bool,
}

impl Progress {
    pub(crate) fn new(what: &'static str) -> Self {
        let next = io::stderr().is_terminal().then(|| Instant::now() + WAIT);
        Self {
            what,
            done: 0,
            next,
            shown: false,
        }
    }

    /// One more is done.
    pub(crate) fn step(&mut self) {
        self.done += 1;
        // The clock is not looked at each time.
        let Some(next) = self.next.filter(|_| self.done % 256 == 0) else {
            return;
        };
        let now = Instant::now();
        if now >= next {
            self.next = Some(now + WAIT);
            self.shown = true;
            // Where it cannot be shown it is not missed.
            let _ = write!(io::stderr(), "\r{} {} ...\x1b[K", self.done, self.what);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}
