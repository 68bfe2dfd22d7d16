//! The connection to an executor: what it is asked, and what an engine asks of it.

#![allow(unsafe_code, reason = "Mirror and Publication are unsafe traits")]

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::process::Child;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Weak};
use std::thread::sleep;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use patchpoint::addr::{CodeAddr, CodeRange};
use patchpoint::memory::{MemoryFile, Mirror};
use patchpoint::publish::{Level, Publication};

use crate::calls::Calls;
use crate::channel::{Channel, ReceiveError};
use crate::error::{Error, Result};
use crate::protocol::{Access, MOST_RANGES, Message, View};
use crate::system::socket::{Socket, Trouble};

/// How long an executor may take to end before it is killed, and after.
const TO_END: Duration = Duration::from_secs(1);

/// Whether instruction caches see what is written without anything being done, through whatever
/// mapping. An emulator's do not.
const COHERENT: bool = cfg!(all(
    any(target_arch = "x86_64", target_arch = "s390x"),
    not(emulated)
));

/// The connection, and the process at its other end.
#[derive(Debug)]
pub(crate) struct Connection {
    socket: Arc<Socket>,
    control: Mutex<Channel>,
    /// The process whose executor it is: a fork's child must not speak for it.
    process: u32,
    /// Abandoned, or found to be gone.
    gone: AtomicBool,
    /// Where its traps go.
    traps: Mutex<HashMap<CodeAddr, CodeAddr>>,
    /// Known to execute nothing any more.
    ended: AtomicBool,
    /// The connections of its threads.
    threads: Mutex<Vec<Weak<Socket>>>,
    child: Mutex<Option<Child>>,
    deadline: Duration,
    /// Which of its threads are in a call.
    pub(crate) calls: Arc<Calls>,
    pub(crate) patience: Duration,
    /// The number of the thread that was started last.
    pub(crate) last_thread: AtomicI32,
}

impl Connection {
    /// With nothing said yet. An answer may take as long as the deadline, and a stop of the calls
    /// as long as the patience.
    pub(crate) fn new(
        socket: Arc<Socket>,
        child: Option<Child>,
        deadline: Duration,
        patience: Duration,
    ) -> Self {
        Self {
            control: Mutex::new(Channel::new(Arc::clone(&socket))),
            socket,
            process: std::process::id(),
            gone: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            threads: Mutex::default(),
            traps: Mutex::default(),
            child: Mutex::new(child),
            deadline,
            calls: Arc::default(),
            patience,
            last_thread: AtomicI32::new(0),
        }
    }

    /// The number of its process, if it was started here.
    pub(crate) fn id(&self) -> Option<u32> {
        self.child.lock().as_ref().map(Child::id)
    }

    /// Asks, and waits for the answer. An executor that does not answer, or not so, is abandoned.
    pub(crate) fn request(
        &self,
        message: &Message,
        file: Option<OwnedFd>,
        during: &'static str,
    ) -> Result<Message> {
        let mut control = self.control.lock();
        self.check_known(during)?;
        let patience = Some(self.deadline);
        let answer = control
            .say(message, file.as_ref(), patience)
            .and_then(|()| control.hear_answer(patience));
        drop(control);
        match answer {
            Ok(Message::Failed { why, errno }) => Err(Error::ExecutorRefused {
                during,
                why: why.text(),
                errno,
            }),
            Ok(answer) => Ok(answer),
            Err(lost) => Err(self.lost(lost, self.deadline, during)),
        }
    }

    /// Asks for something that is answered by its having been done.
    pub(crate) fn order(&self, message: &Message, file: Option<OwnedFd>, during: &'static str) -> Result<()> {
        match self.request(message, file, during)? {
            Message::Done => Ok(()),
            _ => Err(self.unexpected(during)),
        }
    }

    /// Gives the executor up: every request fails from now on, whoever waits for it does so no
    /// longer, and no code of it goes on if it was started here.
    pub(crate) fn abandon(&self) {
        self.gone.store(true, Ordering::Release);
        self.socket.end();
        let threads = std::mem::take(&mut *self.threads.lock());
        threads
            .iter()
            .filter_map(Weak::upgrade)
            .for_each(|socket| socket.end());
        if let Some(child) = self.child.lock().as_mut() {
            // protection: remote-a-silent-executor-ends
            if end(child, Duration::ZERO) {
                self.ended.store(true, Ordering::Release);
            }
        }
    }

    /// Has a thread's connection ended when the executor is abandoned.
    pub(crate) fn watch(&self, socket: &Arc<Socket>) {
        let mut threads = self.threads.lock();
        threads.retain(|other| other.strong_count() > 0);
        threads.push(Arc::downgrade(socket));
        drop(threads);
        if self.gone.load(Ordering::Acquire) {
            socket.end();
        }
    }

    /// Gives the executor up; says why.
    pub(crate) fn lost(&self, lost: ReceiveError, patience: Duration, during: &'static str) -> Error {
        self.abandon();
        match lost {
            ReceiveError::Trouble(Trouble::Gone | Trouble::Refused(_)) => Error::ExecutorGone { during },
            ReceiveError::Trouble(Trouble::Late) => Error::ExecutorSilent {
                during,
                waited_ms: u64::try_from(patience.as_millis()).unwrap_or(u64::MAX),
            },
            ReceiveError::Trouble(Trouble::TooLong) => Error::ExecutorAnswer {
                during,
                why: "a message that is too long",
            },
            ReceiveError::Wrong(why) => Error::ExecutorAnswer { during, why },
        }
    }

    /// Gives the executor up for an answer to something else.
    pub(crate) fn unexpected(&self, during: &'static str) -> Error {
        self.abandon();
        Error::ExecutorAnswer {
            during,
            why: "an answer of another kind",
        }
    }

    /// Fails if it is known that the executor is gone, and in a fork's child.
    pub(crate) fn check_known(&self, during: &'static str) -> Result<()> {
        if !self.is_here() {
            let during = "a fork's child asked, whose parent has it";
            return Err(Error::ExecutorGone { during });
        }
        match self.gone.load(Ordering::Acquire) {
            false => Ok(()),
            true => Err(Error::ExecutorGone { during }),
        }
    }

    /// Fails if the executor is gone, and finds out.
    pub(crate) fn check_now(&self, during: &'static str) -> Result<()> {
        self.check_known(during)?;
        if self.socket.is_ended() {
            return Err(self.lost(ReceiveError::Trouble(Trouble::Gone), self.deadline, during));
        }
        Ok(())
    }

    fn is_here(&self) -> bool {
        // protection: remote-a-child-leaves-the-executor-alone
        self.process == std::process::id()
    }

    fn order_for(
        &self,
        ranges: &[CodeRange],
        of: impl Fn(Vec<CodeRange>) -> Message,
        during: &'static str,
    ) -> Result<()> {
        ranges
            .chunks(MOST_RANGES)
            .try_for_each(|ranges| self.order(&of(ranges.to_vec()), None, during))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if !self.is_here() {
            return;
        }
        if !self.gone.load(Ordering::Acquire) {
            let _ = self.order(&Message::Bye, None, "it was to end");
            self.socket.end();
        }
        if let Some(child) = self.child.get_mut() {
            end(child, TO_END);
        }
    }
}

/// Ends a process: gives it so much time to do so itself, then kills it. Whether it has been seen
/// to be over.
fn end(child: &mut Child, time: Duration) -> bool {
    if wait(child, time) {
        return true;
    }
    let _ = child.kill();
    wait(child, TO_END)
}

/// Waits for the end of a process for so long; whether it has come.
fn wait(child: &mut Child, time: Duration) -> bool {
    let until = Instant::now() + time;
    loop {
        if matches!(child.try_wait(), Ok(Some(_))) {
            return true;
        }
        if Instant::now() >= until {
            return false;
        }
        sleep(Duration::from_micros(200));
    }
}

impl Connection {
    fn map(&self, at: CodeRange, view: View, file: MemoryFile) -> Result<bool> {
        let during = "memory was mapped";
        match self.request(&Message::Map { at, view }, Some(file.into()), during)? {
            Message::Done => Ok(true),
            Message::Taken => Ok(false),
            _ => Err(self.unexpected(during)),
        }
    }

    /// Sets what may be done with pages of data there.
    pub(crate) fn protect(&self, pages: CodeRange, access: Access) -> Result<()> {
        self.order(&Message::Protect { pages, access }, None, "data was protected")
    }
}

// SAFETY: the executor maps what it is sent at just that range, if nothing is there, with the rights of the view, and says so;
// one that lies harms itself, as only it executes the code. It keeps mapped what a thread still uses as its stack, and an
// answer that does not come abandons it.
unsafe impl Mirror for Connection {
    fn map_code(&self, at: CodeRange, file: MemoryFile) -> patchpoint::memory::Result<bool> {
        Ok(self.map(at, View::Execute, file)?)
    }

    fn map_data(&self, at: CodeRange, file: MemoryFile) -> patchpoint::memory::Result<bool> {
        Ok(self.map(at, View::Write, file)?)
    }

    fn set_writable(&self, pages: CodeRange, writable: bool) -> patchpoint::memory::Result<()> {
        let access = match writable {
            true => Access::Write,
            false => Access::Read,
        };
        Ok(self.protect(pages, access)?)
    }

    fn unmap(&self, range: CodeRange) {
        // What a thread still uses stays mapped there.
        let _ = self.order(&Message::Unmap { range }, None, "memory was freed");
    }
}

// SAFETY: the executor maintains its caches and has its threads serialize before it answers, and every thread there serializes
// whenever it goes on after a message. Without an answer a publication fails. Nothing here panics.
unsafe impl Publication for Connection {
    fn check(&self, _: Level) -> patchpoint::publish::Result<()> {
        Ok(self.check_known("code was about to be written")?)
    }

    fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    fn trap(&self, at: CodeAddr) -> Option<CodeAddr> {
        self.traps.lock().get(&at).copied()
    }

    fn set_trap(&self, at: CodeAddr, stub: Option<CodeAddr>) -> patchpoint::publish::Result<()> {
        self.order(&Message::Trap { at, exit_stub: stub }, None, "a trap was noted")?;
        let mut traps = self.traps.lock();
        match stub {
            Some(stub) => traps.insert(at, stub),
            None => traps.remove(&at),
        };
        Ok(())
    }

    fn maintain(&self, ranges: &[CodeRange]) -> patchpoint::publish::Result<()> {
        if COHERENT {
            return Ok(());
        }
        let message = |ranges| Message::Maintain { ranges };
        Ok(self.order_for(ranges, message, "code was published")?)
    }

    fn publish(&self, ranges: &[CodeRange], level: Level) -> patchpoint::publish::Result<()> {
        let during = "code was published";
        if COHERENT && level == Level::Eventual {
            // Old or new is all that is asked for, and new is what cores see soon by themselves.
            // Who goes on after a message serializes first.
            return Ok(self.check_now(during)?);
        }
        let (first, last) = ranges.split_at(ranges.len().saturating_sub(MOST_RANGES));
        self.order_for(first, |ranges| Message::Maintain { ranges }, during)?;
        let ranges = last.to_vec();
        Ok(self.order(&Message::Publish { level, ranges }, None, during)?)
    }
}
