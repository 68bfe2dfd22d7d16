//! The controller's side: the executor as what it is asked.

#![allow(unsafe_code, reason = "an engine is promised who executes its code")]

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use patchpoint::Engine;
use patchpoint::addr::CodeAddr;
use patchpoint::deopt::Capture;
use patchpoint::engine::{EngineBuilder, Mirroring};
use patchpoint::error::Errno;
use patchpoint::memory::{Arena, Mirror, PlacedSegments, Reach, SegmentKind, SegmentNeed};
use patchpoint::publish::Publication;

use crate::calls::CallWorld;
use crate::connection::Connection;
use crate::engines::Engines;
use crate::error::{Error, Result};
use crate::protocol::{Host, LONGEST_NAME, MACHINE, Message};
use crate::system::socket::Socket;
use crate::thread::Thread;

/// As the arena of an engine has by default.
const CHUNK: u64 = 2 << 20;

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

    /// How long the executor may take for an answer, where ten seconds do not suit. It does not
    /// bound [calls](Thread::call).
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// How long a change of a quiescent module may wait for calls to end or to leave by an exit
    /// stub, where a second does not suit. It bounds the wait of [engines](Executor::engine)
    /// without a world of their own.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Starts a program that runs a [`Service`](crate::Service) on its standard input.
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

/// The process that executes the code, as its controller sees it. Clones name the same; it ends
/// with the last of them, and of its [threads](Thread), arenas and engines.
#[derive(Clone, Debug)]
pub struct Executor {
    shared: Arc<Connection>,
    arena: Arena,
    host: Host,
    engines: Arc<Engines>,
}

impl Executor {
    /// Starts a program that runs a [`Service`](crate::Service) on its standard input, with the
    /// usual [options](Options).
    ///
    /// # Errors
    /// As [`Options::spawn`].
    pub fn spawn(command: Command) -> Result<Self> {
        Options::new().spawn(command)
    }

    pub(crate) fn greet(socket: Arc<Socket>, child: Option<Child>, options: Options) -> Result<Self> {
        let shared = Connection::new(socket, child, options.deadline, options.patience);
        let shared = Arc::new(shared);
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
        if host.saved != Capture::here().vectors {
            return Err(refused("it saves other vector registers than this process"));
        }
        if host.shadow_stack {
            return Err(refused("its threads have shadow stacks"));
        }
        let mirror = Arc::clone(&shared) as Arc<dyn Mirror>;
        Ok(Self {
            arena: Arena::mirrored(mirror, CHUNK),
            shared,
            host,
            engines: Arc::default(),
        })
    }

    /// Starts to describe an engine whose code is executed there. Its arena is [this
    /// one](Self::arena). If it is given no [world](EngineBuilder::world), its world stops the
    /// executor's threads between messages, as the [crate](crate) says.
    pub fn engine(&self) -> EngineBuilder {
        let publication = Arc::clone(&self.shared) as Arc<dyn Publication>;
        let world = CallWorld {
            calls: Arc::clone(&self.shared.calls),
            patience: self.shared.patience,
        };
        let engines = Arc::clone(&self.engines);
        let mirroring = Mirroring::new(self.arena.clone(), publication, world)
            .capture(CodeAddr::new(self.host.capture))
            .on_built(move |engine| engines.add(engine));
        // SAFETY: all of it is of this executor, which alone executes the code: this process has it only to read. The routine is
        // what the executor says it is, and called there.
        unsafe { Engine::builder().mirrored(mirroring) }
    }

    /// The memory that both processes map: code for the executor to execute, and data for both to
    /// read and write.
    #[must_use]
    pub fn arena(&self) -> &Arena {
        &self.arena
    }

    /// The number of its process, if it was started here.
    #[must_use]
    pub fn id(&self) -> Option<u32> {
        self.shared.id()
    }

    /// The address that the executor's runtime gave a [name](crate::Service::symbol).
    ///
    /// # Errors
    /// The executor is gone, or was abandoned.
    pub fn symbol(&self, name: &str) -> Result<Option<CodeAddr>> {
        let during = "a symbol was looked up";
        if name.len() > LONGEST_NAME {
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
    /// [`Error::ExecutorRefused`]; there is no memory; the executor is gone, or was abandoned.
    pub fn thread(&self, stack: u64) -> Result<Thread> {
        let memory = |len| self.share(len);
        Thread::start(&self.shared, &self.engines, stack, memory)
    }

    /// Shared memory that is writable in both processes, until it is dropped.
    ///
    /// # Errors
    /// As [`Arena::place`].
    pub fn share(&self, len: u64) -> Result<PlacedSegments> {
        let need = SegmentNeed {
            kind: SegmentKind::Data,
            len,
            align: 16,
        };
        Ok(self.arena.place(&[need], Reach::Anywhere)?.finalize()?)
    }

    /// Fails if the executor is gone: one system call.
    ///
    /// # Errors
    /// [`Error::ExecutorGone`].
    pub fn check(&self) -> Result<()> {
        self.shared.check_now("it was asked for")
    }
}
