//! The executor's side: a runtime's function, or a program of its own, that does as the controller
//! says.

#![allow(unsafe_code, reason = "serves who may tell this process to execute anything")]

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;

use patchpoint::addr::{CodeAddr, CodeRange};
use patchpoint::deopt::{Capture, ForwardExit, forward_exits};
use patchpoint::error::Errno;
use patchpoint::publish::trap::Traps;
use patchpoint::publish::{Level, Publisher, serialize};

use crate::channel::{Channel, ReceiveError};
use crate::error::{Error, Result};
use crate::handshake::{Unproven, introduce};
use crate::protocol::{ARGS, Access, Failure, Host, MACHINE, Message, View};
use crate::system::errno;
use crate::system::listen::connect;
use crate::system::mapping::Mapped;
use crate::system::socket::{Socket, Trouble};
use crate::system::stack_thread::StackThread;
use crate::token::Token;

/// A controller has no more mappings and threads.
const MOST: usize = 1 << 16;

/// What executes code for a controller.
#[derive(Debug, Default)]
pub struct Service {
    symbols: HashMap<String, CodeAddr>,
}

/// What is mapped; shared with the threads.
type Mappings = Arc<Mutex<Vec<Mapped>>>;

impl Service {
    /// Without symbols.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives something of this process a name, by which the controller finds its address: a
    /// function for compiled code to call, say. Such a function runs on a stack that both processes
    /// map: it must not fork, as the child would run on the very same.
    #[must_use]
    pub fn symbol(mut self, name: impl Into<String>, addr: CodeAddr) -> Self {
        self.symbols.insert(name.into(), addr);
        self
    }

    /// Serves the controller at the other end of the standard input, as which
    /// [`Executor::spawn`](crate::Executor::spawn) gives the connection, until it is done.
    ///
    /// # Safety
    /// As for [`run`](Self::run).
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub unsafe fn run_stdin(self) -> Result<()> {
        let end = std::io::stdin().as_fd().try_clone_to_owned();
        let end = end.map_err(|error| refused(errno(&error)))?;
        // SAFETY: the caller promises the same.
        unsafe { self.run(end) }
    }

    /// Serves the controller that listens at a [path](crate::Listener::path), until it is done.
    /// Waits until it does, and obeys it only when it has proved that it is of this user and knows
    /// the token, which is not sent to it.
    ///
    /// # Safety
    /// As for [`run`](Self::run); a controller of this user that knows the token is trusted.
    ///
    /// # Errors
    /// As [`run`](Self::run); [`Error::ExecutorRefused`] if nobody listens there; [`Error::ControllerUnproven`] if that is
    /// somebody else. [`Error::ControllerGone`] also if this process is too slow to prove that it knows the token.
    pub unsafe fn connect(self, path: impl AsRef<Path>, token: &Token) -> Result<()> {
        let socket = connect(path.as_ref()).map_err(refused)?;
        introduce(&socket, token).map_err(|unproven| match unproven {
            Unproven::Gone => Error::ControllerGone,
            Unproven::Stranger(why) => Error::ControllerUnproven { why },
            Unproven::Refused(errno) => refused(errno),
        })?;
        self.serve(Channel::new(Arc::new(socket)))
    }

    /// Serves the controller at the other end of a connection until it is done. Its code runs on
    /// threads of its own.
    ///
    /// # Safety
    /// The controller is trusted as this program itself is: it maps memory here, writes code there, and has threads call whatever
    /// address it names.
    ///
    /// # Errors
    /// [`Error::ControllerGone`]: it has ended, or was killed. Its memory stays mapped and its threads as they are: those that
    /// are in its code run on, and one that asks for a decision waits for ever. The process should end.
    /// [`Error::ControllerRequest`]: it does not keep to the protocol; likewise. [`Error::ExecutorRefused`] for what
    /// is no connection.
    pub unsafe fn run(self, connection: OwnedFd) -> Result<()> {
        let socket = Arc::new(Socket::over(connection).map_err(refused)?);
        self.serve(Channel::new(socket))
    }

    fn serve(self, mut channel: Channel) -> Result<()> {
        let mut serving = Serving {
            symbols: Arc::new(self.symbols),
            publisher: Publisher::new(),
            mappings: Mappings::default(),
            threads: Vec::new(),
        };
        let outcome = serving.serve(&mut channel);
        if outcome.is_err() {
            // Threads may be anywhere in it.
            std::mem::forget(std::mem::take(&mut *serving.mappings.lock()));
        }
        outcome
    }
}

fn refused(errno: Errno) -> Error {
    Error::ExecutorRefused {
        during: "it was started",
        why: "it was given no connection to its controller",
        errno,
    }
}

/// What is known of a controller.
struct Serving {
    symbols: Arc<HashMap<String, CodeAddr>>,
    publisher: Publisher,
    mappings: Mappings,
    threads: Vec<(CodeRange, StackThread)>,
}

/// An answer, or why there is none.
type Answer = core::result::Result<Message, (Failure, Errno)>;

const INVALID: Errno = Errno(libc::EINVAL);

impl Serving {
    fn serve(&mut self, channel: &mut Channel) -> Result<()> {
        loop {
            let (message, file) = channel.hear(None).map_err(controller_lost)?;
            let is_last = message == Message::Bye;
            let answer = match self.answer(message, file)? {
                Ok(answer) => answer,
                Err((why, errno)) => Message::Failed { why, errno },
            };
            channel.reply(&answer).map_err(controller_lost)?;
            if is_last {
                return Ok(());
            }
        }
    }

    fn answer(&mut self, message: Message, file: Option<OwnedFd>) -> Result<Answer> {
        Ok(match (message, file) {
            // protection: remote-descriptors-are-closed
            (Message::Map { at, view }, Some(file)) => self.map(at, view, &file),
            (Message::Thread { stack }, Some(file)) => self.start(stack, file),
            (_, Some(_)) | (Message::Map { .. } | Message::Thread { .. }, None) => {
                let why = "a descriptor too many, or none";
                return Err(Error::ControllerRequest { why });
            }
            (Message::Hello, None) => Ok(Message::Host { host: host() }),
            (Message::Protect { pages, access }, None) => self.protect(pages, access),
            (Message::Unmap { range }, None) => self.unmap(range),
            (Message::Maintain { ranges }, None) => self.maintain(&ranges),
            (Message::Publish { level, ranges }, None) => self.publish(&ranges, level),
            (Message::Trap { at, exit_stub }, None) => self.trap(at, exit_stub),
            (Message::End { stack }, None) => self.end(stack),
            (Message::Symbol { name }, None) => {
                let addr = self.symbols.get(&name).copied();
                Ok(Message::Found { addr })
            }
            (Message::Bye, None) => self.end_all(),
            _ => {
                let why = "an answer, or what threads are asked";
                return Err(Error::ControllerRequest { why });
            }
        })
    }

    fn map(&mut self, at: CodeRange, view: View, file: &OwnedFd) -> Answer {
        let mut mappings = self.mappings.lock();
        if mappings.len() >= MOST {
            return Err((Failure::Mapping, Errno(libc::ENOMEM)));
        }
        match Mapped::new(at, view, file) {
            Ok(Some(mapped)) => {
                mappings.push(mapped);
                Ok(Message::Done)
            }
            Ok(None) => Ok(Message::Taken),
            Err(errno) => Err((Failure::Mapping, errno)),
        }
    }

    fn protect(&self, pages: CodeRange, access: Access) -> Answer {
        let mappings = self.mappings.lock();
        let mapped = mappings.iter().find(|mapped| mapped.range.overlaps(pages));
        let mapped = mapped.ok_or((Failure::Range, INVALID))?;
        let protected = mapped.protect(pages, access);
        protected
            .map(|()| Message::Done)
            .map_err(|errno| (Failure::Protection, errno))
    }

    /// Unmaps what lies in a range, unless a thread has its stack there.
    fn unmap(&mut self, range: CodeRange) -> Answer {
        if self.threads.iter().any(|(stack, _)| stack.overlaps(range)) {
            return Err((Failure::Busy, Errno(libc::EBUSY)));
        }
        let inside = |mapped: &Mapped| range.contains_bytes(mapped.range.start(), mapped.range.len());
        self.mappings.lock().retain(|mapped| !inside(mapped));
        Ok(Message::Done)
    }

    /// Whether all ranges are within code that is mapped: others cannot be maintained.
    fn check_code(&self, ranges: &[CodeRange]) -> core::result::Result<(), (Failure, Errno)> {
        let mappings = self.mappings.lock();
        let is_code = |range: &CodeRange| {
            let mut code = mappings.iter().filter(|mapped| mapped.view == View::Execute);
            range.is_empty() || code.any(|mapped| mapped.range.contains_bytes(range.start(), range.len()))
        };
        match ranges.iter().all(is_code) {
            true => Ok(()),
            false => Err((Failure::Range, INVALID)),
        }
    }

    fn maintain(&self, ranges: &[CodeRange]) -> Answer {
        // That this core serializes as well does no harm.
        self.publish(ranges, Level::Eventual)
    }

    fn publish(&self, ranges: &[CodeRange], level: Level) -> Answer {
        self.check_code(ranges)?;
        // SAFETY: code that is mapped here, read-execute, which this thread alone unmaps.
        match unsafe { self.publisher.publish_code(ranges, level) } {
            Ok(()) => Ok(Message::Done),
            Err(patchpoint::publish::Error::NoBarrier { errno, .. }) => Err((Failure::Barrier, errno)),
            Err(_) => Err((Failure::Barrier, INVALID)),
        }
    }

    /// A thread that executes the trap at an address goes on at its exit stub.
    fn trap(&self, at: CodeAddr, exit_stub: Option<CodeAddr>) -> Answer {
        let byte = |at| CodeRange::new(at, 1).ok_or((Failure::Range, INVALID));
        let traps = Traps::install().map_err(|_| (Failure::Trap, INVALID))?;
        self.check_code(&[byte(at)?])?;
        match exit_stub {
            Some(exit_stub) => {
                self.check_code(&[byte(exit_stub)?])?;
                // SAFETY: the controller says that a thread can go from there to there, and is trusted.
                unsafe { traps.set(at, exit_stub) };
            }
            None => traps.clear(at),
        }
        Ok(Message::Done)
    }

    fn start(&mut self, stack: CodeRange, file: OwnedFd) -> Answer {
        let socket = Socket::over(file).map_err(|errno| (Failure::Thread, errno))?;
        let mappings = self.mappings.lock();
        let mut data = mappings.iter().filter(|mapped| mapped.view == View::Write);
        let inside = data.any(|mapped| mapped.range.contains_bytes(stack.start(), stack.len()));
        drop(mappings);
        let used = self.threads.iter().any(|(other, _)| other.overlaps(stack));
        if !inside || used || self.threads.len() >= MOST {
            return Err((Failure::Range, INVALID));
        }
        let (mappings, symbols) = (Arc::clone(&self.mappings), Arc::clone(&self.symbols));
        let work = Box::new(move || execute(socket, &mappings, &symbols));
        match StackThread::start(stack, work) {
            Ok(thread) => {
                self.threads.push((stack, thread));
                Ok(Message::Done)
            }
            Err(error) => Err((Failure::Thread, errno(&error))),
        }
    }

    /// Waits for the end of the thread with that stack, whose connection has been ended.
    fn end(&mut self, stack: CodeRange) -> Answer {
        let at = self.threads.iter().position(|(of, _)| *of == stack);
        let (_, thread) = self.threads.swap_remove(at.ok_or((Failure::Range, INVALID))?);
        match thread.join() {
            Ok(()) => Ok(Message::Done),
            Err(thread) => {
                self.threads.push((stack, thread));
                Err((Failure::Busy, Errno(libc::EBUSY)))
            }
        }
    }

    fn end_all(&mut self) -> Answer {
        while let Some((stack, _)) = self.threads.last() {
            self.end(*stack)?;
        }
        Ok(Message::Done)
    }
}

fn host() -> Host {
    let capture = Capture::here();
    Host {
        machine: MACHINE,
        capture: capture.routine.get(),
        saved: capture.vectors,
        shadow_stack: capture.shadow_stack,
    }
}

fn controller_lost(lost: ReceiveError) -> Error {
    match lost {
        ReceiveError::Trouble(Trouble::TooLong) => Error::ControllerRequest {
            why: "a message that is too long",
        },
        ReceiveError::Trouble(_) => Error::ControllerGone,
        ReceiveError::Wrong(why) => Error::ControllerRequest { why },
    }
}

/// What a thread does: it calls what it is told to, until its connection ends.
fn execute(socket: Socket, mappings: &Mappings, symbols: &HashMap<String, CodeAddr>) {
    let call = Call(Mutex::new(Channel::new(Arc::new(socket))));
    forward_exits(&call, || serve_calls(&call, mappings, symbols));
}

fn serve_calls(call: &Call, mappings: &Mappings, symbols: &HashMap<String, CodeAddr>) {
    loop {
        let heard = call.0.lock().hear(None);
        let Ok((Message::Call { at, args }, None)) = heard else {
            return;
        };
        // protection: remote-calls-go-to-code
        let answer = match may_call(at, mappings, symbols) {
            true => {
                // What this core has fetched may be older than what the controller has written.
                serialize();
                let value = invoke(at, args);
                Message::Returned { value }
            }
            false => Message::Failed {
                why: Failure::Function,
                errno: Errno(libc::EFAULT),
            },
        };
        if call.0.lock().reply(&answer).is_err() {
            return;
        }
    }
}

/// Calls a function of the code that the controller wrote here, with integer arguments.
fn invoke(at: CodeAddr, args: [u64; ARGS]) -> u64 {
    // SAFETY: the address is in code of the controller's, as was checked. That this is a function of up to six integers is the
    // controller's promise, which could have written any code here.
    let function: extern "C" fn(u64, u64, u64, u64, u64, u64) -> u64 =
        unsafe { core::mem::transmute(at.get() as usize) };
    let [a, b, c, d, e, f] = args;
    function(a, b, c, d, e, f)
}

fn may_call(at: CodeAddr, mappings: &Mappings, symbols: &HashMap<String, CodeAddr>) -> bool {
    let mappings = mappings.lock();
    // Where a function is called by its descriptor, that is data.
    let wanted = |mapped: &&Mapped| mapped.view == View::Execute || cfg!(target_arch = "powerpc64");
    let mut mapped = mappings.iter().filter(wanted);
    mapped.any(|mapped| mapped.range.contains(at)) || symbols.values().any(|symbol| *symbol == at)
}

/// A thread's connection.
struct Call(Mutex<Channel>);

// SAFETY: the controller's engine decides, by the handler of the exit stub, and is trusted.
unsafe impl ForwardExit for Call {
    fn forward(&self, [context, raw, save]: [u64; 3]) -> u64 {
        let mut channel = self.0.lock();
        let said = channel.reply(&Message::Exit { context, raw, save });
        if let (Ok(()), Ok((Message::Go { word }, None))) = (said, channel.hear(None)) {
            serialize();
            return word;
        }
        // Nobody decides any more, and compiled code cannot go on without. Whoever runs the service
        // is told.
        loop {
            std::thread::park();
        }
    }
}
