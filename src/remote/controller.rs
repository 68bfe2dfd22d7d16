//! The controller's side: the executor as what it is asked.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Weak};
use std::thread::sleep;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::MACHINE;
use super::channel::{Channel, Lost};
use super::protocol::{Host, MOST_RANGES, Message};
use super::thread::Thread;
use crate::addr::{CodeAddr, CodeRange};
use crate::deopt::elsewhere as frames;
use crate::engine::elsewhere::{Elsewhere as ForEngine, Engines};
use crate::engine::{Builder, Engine};
use crate::error::{Errno, Error, Result};
use crate::memory::elsewhere::{Access, Elsewhere as ForArena, OtherProcess as Mapping, View};
use crate::memory::socket::{Socket, Trouble};
use crate::memory::{Arena, Placed, Reach, SegmentKind, SegmentNeed};
use crate::publish::calls::{CallWorld, Calls};
use crate::publish::elsewhere::{Elsewhere as ForPublisher, OtherProcess as Publishing};
use crate::publish::{Level, Publisher};

/// How long an executor may take to end before it is killed, and after.
const TO_END: Duration = Duration::from_secs(1);
/// As the arena of an engine has by default.
const CHUNK: u64 = 2 << 20;

/// Whether instruction caches see what is written without anything being done, through whatever mapping. An emulator's do
/// not.
const COHERENT: bool = cfg!(all(
    any(target_arch = "x86_64", target_arch = "s390x"),
    not(emulated)
));

/// What can be said of an executor before it is started.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    deadline: Duration,
    patience: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            deadline: Duration::from_secs(10),
            patience: Duration::from_secs(1),
        }
    }
}

impl Options {
    /// What suits most.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How long the executor may take for an answer, where ten seconds do not suit. It does not bound
    /// [calls](Thread::call).
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// How long a change of a quiescent module may wait for calls to end or to leave by a ramp, where a second does not
    /// suit. It bounds the wait of [engines](Executor::engine) without a world of their own.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Starts a program that runs a [`Service`](super::Service) on its standard input.
    ///
    /// # Errors
    /// [`Error::ExecutorRefused`] if it cannot be started, or is of another machine; and as every request.
    pub fn spawn(self, mut command: Command) -> Result<Executor> {
        let during = "it was started";
        let refused = |why, errno| Error::ExecutorRefused { during, why, errno };
        let (ours, theirs) =
            Socket::pair().map_err(|errno| refused("there is no connection for it", errno))?;
        command.stdin(Stdio::from(theirs.into_fd()));
        let child = command.spawn().map_err(|error| {
            let errno = Errno(error.raw_os_error().unwrap_or(libc::EIO));
            refused("its program cannot be started", errno)
        })?;
        // The command has the executor's end, and would keep it open.
        drop(command);
        Executor::greet(Arc::new(ours), Some(child), self)
    }
}

/// The process that executes the code, as its controller sees it. Clones name the same; it ends with the last of them,
/// and of its [threads](Thread), arenas and engines.
#[derive(Clone, Debug)]
pub struct Executor {
    pub(super) shared: Arc<Shared>,
    arena: Arena,
    host: Host,
    engines: Arc<Engines>,
}

/// The connection.
#[derive(Debug)]
pub(super) struct Shared {
    socket: Arc<Socket>,
    control: Mutex<Channel>,
    /// The process whose executor it is: a fork's child must not speak for it.
    process: u32,
    /// Given up, or found to be gone.
    gone: AtomicBool,
    /// Where its traps lead.
    traps: Mutex<HashMap<CodeAddr, CodeAddr>>,
    /// Known to execute nothing any more.
    ended: AtomicBool,
    /// The connections of its threads.
    threads: Mutex<Vec<Weak<Socket>>>,
    child: Mutex<Option<Child>>,
    deadline: Duration,
    /// Which of its threads are in a call.
    pub(super) calls: Arc<Calls>,
    patience: Duration,
    /// The number of the thread that was started last.
    pub(super) last_thread: AtomicI32,
}

impl Executor {
    /// Starts a program that runs a [`Service`](super::Service) on its standard input, with the usual
    /// [options](Options).
    ///
    /// # Errors
    /// As [`Options::spawn`].
    pub fn spawn(command: Command) -> Result<Self> {
        Options::new().spawn(command)
    }

    pub(super) fn greet(socket: Arc<Socket>, child: Option<Child>, options: Options) -> Result<Self> {
        let shared = Arc::new(Shared {
            control: Mutex::new(Channel::new(Arc::clone(&socket))),
            socket,
            process: std::process::id(),
            gone: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            threads: Mutex::default(),
            traps: Mutex::default(),
            child: Mutex::new(child),
            deadline: options.deadline,
            calls: Arc::default(),
            patience: options.patience,
            last_thread: AtomicI32::new(0),
        });
        let during = "it was started";
        let host = match shared.request(&Message::Hello, None, during)? {
            Message::Host { host } => host,
            _ => return Err(shared.unexpected(during)),
        };
        let refused = |why| Error::ExecutorRefused {
            during,
            why,
            errno: Errno(libc::EPROTO),
        };
        if host.machine != MACHINE {
            return Err(refused("it is of another architecture"));
        }
        // Frames are looked at here as this machine's routine saves them.
        frames::capture();
        if host.saved != frames::saved_len() {
            return Err(refused("it saves other vector registers than this process"));
        }
        if host.shadow_stack {
            return Err(refused("its threads have shadow stacks"));
        }
        let mapping = ForArena(Arc::clone(&shared) as Arc<dyn Mapping>);
        Ok(Self {
            arena: Arena::executed_by(mapping, CHUNK),
            shared,
            host,
            engines: Arc::default(),
        })
    }

    /// Starts to describe an engine whose code is executed there. Its arena is [this one](Self::arena). If it is given no
    /// [world](Builder::world), its world stops the executor's threads between messages, as the [module](super) says.
    pub fn engine(&self) -> Builder {
        let publishing = Arc::clone(&self.shared) as Arc<dyn Publishing>;
        Engine::builder().executed_by(ForEngine {
            arena: self.arena.clone(),
            publisher: Publisher::elsewhere(ForPublisher(publishing)),
            capture: CodeAddr::new(self.host.capture),
            engines: Arc::clone(&self.engines),
            world: Box::new(CallWorld {
                calls: Arc::clone(&self.shared.calls),
                patience: self.shared.patience,
            }),
        })
    }

    /// The memory that both processes map: code for the executor to execute, and data for both to read and write.
    #[must_use]
    pub fn arena(&self) -> &Arena {
        &self.arena
    }

    /// The number of its process, if it was started here.
    #[must_use]
    pub fn id(&self) -> Option<u32> {
        self.shared.child.lock().as_ref().map(Child::id)
    }

    /// The address that the executor's runtime gave a [name](super::Service::symbol).
    ///
    /// # Errors
    /// The executor is gone, or was given up.
    pub fn symbol(&self, name: &str) -> Result<Option<CodeAddr>> {
        let during = "a symbol was looked up";
        if name.len() > super::service::LONGEST_NAME {
            return Ok(None);
        }
        match self
            .shared
            .request(&Message::Symbol { name: name.into() }, None, during)?
        {
            Message::Found { addr } => Ok(addr),
            _ => Err(self.shared.unexpected(during)),
        }
    }

    /// Starts a thread there, with a stack of so many bytes.
    ///
    /// # Errors
    /// [`Error::ExecutorRefused`]; there is no memory; the executor is gone, or was given up.
    pub fn thread(&self, stack: u64) -> Result<Thread> {
        Thread::start(self, Arc::clone(&self.engines), stack)
    }

    /// Shared memory that is writable in both processes, until it is dropped.
    ///
    /// # Errors
    /// As [`Arena::place`].
    pub fn share(&self, len: u64) -> Result<Placed> {
        let need = SegmentNeed {
            kind: SegmentKind::Data,
            len,
            align: 16,
        };
        self.arena.place(&[need], Reach::Anywhere)?.finalize()
    }

    /// Fails if the executor is gone: one system call.
    ///
    /// # Errors
    /// [`Error::ExecutorGone`].
    pub fn check(&self) -> Result<()> {
        self.shared.check_now("it was asked for")
    }
}

impl Shared {
    /// Asks, and waits for the answer. An executor that does not answer, or not so, is given up.
    pub(super) fn request(
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
    pub(super) fn order(&self, message: &Message, file: Option<OwnedFd>, during: &'static str) -> Result<()> {
        match self.request(message, file, during)? {
            Message::Done => Ok(()),
            _ => Err(self.unexpected(during)),
        }
    }

    /// Gives the executor up: every request fails from now on, whoever waits for it does so no longer, and no code of it
    /// goes on if it was started here.
    pub(super) fn give_up(&self) {
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

    /// Has a thread's connection ended when the executor is given up.
    pub(super) fn watch(&self, socket: &Arc<Socket>) {
        let mut threads = self.threads.lock();
        threads.retain(|other| other.strong_count() > 0);
        threads.push(Arc::downgrade(socket));
        drop(threads);
        if self.gone.load(Ordering::Acquire) {
            socket.end();
        }
    }

    /// Gives the executor up; says why.
    pub(super) fn lost(&self, lost: Lost, patience: Duration, during: &'static str) -> Error {
        self.give_up();
        match lost {
            Lost::Trouble(Trouble::Gone | Trouble::Refused(_)) => Error::ExecutorGone { during },
            Lost::Trouble(Trouble::Late) => Error::ExecutorSilent {
                during,
                waited_ms: u64::try_from(patience.as_millis()).unwrap_or(u64::MAX),
            },
            Lost::Trouble(Trouble::TooLong) => Error::ExecutorAnswer {
                during,
                why: "a message that is too long",
            },
            Lost::Wrong(why) => Error::ExecutorAnswer { during, why },
        }
    }

    /// Gives the executor up for an answer to something else.
    pub(super) fn unexpected(&self, during: &'static str) -> Error {
        self.give_up();
        Error::ExecutorAnswer {
            during,
            why: "an answer of another kind",
        }
    }

    /// Fails if it is known that the executor is gone, and in a fork's child.
    pub(super) fn check_known(&self, during: &'static str) -> Result<()> {
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
    fn check_now(&self, during: &'static str) -> Result<()> {
        self.check_known(during)?;
        if self.socket.is_ended() {
            return Err(self.lost(Lost::Trouble(Trouble::Gone), self.deadline, during));
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

impl Drop for Shared {
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

/// Ends a process: gives it so much time to do so itself, then kills it. Whether it has been seen to be over.
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

impl Mapping for Shared {
    fn map(&self, at: CodeRange, view: View, file: OwnedFd) -> Result<bool> {
        let during = "memory was mapped";
        match self.request(&Message::Map { at, view }, Some(file), during)? {
            Message::Done => Ok(true),
            Message::Taken => Ok(false),
            _ => Err(self.unexpected(during)),
        }
    }

    fn protect(&self, pages: CodeRange, access: Access) -> Result<()> {
        self.order(&Message::Protect { pages, access }, None, "data was protected")
    }

    fn unmap(&self, range: CodeRange) {
        // What a thread still uses stays mapped there.
        let _ = self.order(&Message::Unmap { range }, None, "memory was given up");
    }
}

impl Publishing for Shared {
    fn check(&self, _: Level) -> Result<()> {
        self.check_known("code was about to be written")
    }

    fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    fn trap(&self, at: CodeAddr) -> Option<CodeAddr> {
        self.traps.lock().get(&at).copied()
    }

    fn set_trap(&self, at: CodeAddr, ramp: Option<CodeAddr>) -> Result<()> {
        self.order(&Message::Trap { at, ramp }, None, "a trap was noted")?;
        let mut traps = self.traps.lock();
        match ramp {
            Some(ramp) => traps.insert(at, ramp),
            None => traps.remove(&at),
        };
        Ok(())
    }

    fn maintain(&self, ranges: &[CodeRange]) -> Result<()> {
        if COHERENT {
            return Ok(());
        }
        let message = |ranges| Message::Maintain { ranges };
        self.order_for(ranges, message, "code was published")
    }

    fn publish(&self, ranges: &[CodeRange], level: Level) -> Result<()> {
        let during = "code was published";
        if COHERENT && level == Level::Eventual {
            // Old or new is all that is asked for, and new is what cores see soon by themselves. Who goes on after a
            // message serializes first.
            return self.check_now(during);
        }
        let (first, last) = ranges.split_at(ranges.len().saturating_sub(MOST_RANGES));
        self.order_for(first, |ranges| Message::Maintain { ranges }, during)?;
        let ranges = last.to_vec();
        self.order(&Message::Publish { level, ranges }, None, during)
    }
}
