//! A thread of the executor, as who calls it sees it.

#![allow(unsafe_code, reason = "frames are on a stack that is shared")]

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use patchpoint::addr::{CodeAddr, CodeRange};
use patchpoint::engine::SavedFrame;
use patchpoint::error::Errno;
use patchpoint::memory::PlacedSegments;

use crate::channel::Channel;
use crate::connection::Connection;
use crate::engines::Engines;
use crate::error::{Error, Result};
use crate::protocol::{ARGS, Access, Message};
use crate::stack::SharedStack;
use crate::system::page_size;
use crate::system::socket::Socket;

const CALLING: &str = "a function was called";
const STARTING: &str = "a thread was started";

/// A thread of the executor. A call of it is a call of the thread that makes it: see
/// [the crate](crate). It ends when this is dropped.
#[derive(Debug)]
pub struct Thread {
    socket: Arc<Socket>,
    channel: Channel,
    shared: Arc<Connection>,
    engines: Arc<Engines>,
    stack: CodeRange,
    patience: Option<Duration>,
    /// Owns the stack; freed when the thread has ended.
    memory: Option<Arc<SharedStack>>,
    number: i32,
}

impl Thread {
    /// Starts one with a stack of so many bytes, of memory that both processes map.
    pub(crate) fn start(
        shared: &Arc<Connection>,
        engines: &Arc<Engines>,
        stack: u64,
        memory: impl FnOnce(u64) -> Result<PlacedSegments>,
    ) -> Result<Self> {
        let page = page_size();
        let len = stack.max(64 << 10).next_multiple_of(page);
        let (shared, engines) = (Arc::clone(shared), Arc::clone(engines));
        let refused = |why| {
            move |errno| Error::ExecutorRefused {
                during: STARTING,
                why,
                errno,
            }
        };
        // A page below the stack that nobody can touch.
        let memory = SharedStack::new(memory(len.saturating_add(page))?, page);
        let memory = memory
            .ok_or(Errno(libc::ENOMEM))
            .map_err(refused("there is no stack for it"))?;
        if let Some(guard) = memory.guard() {
            shared.protect(guard, Access::None)?;
        }
        let stack = memory.range();
        let (ours, theirs) = Socket::pair().map_err(refused("there is no connection for it"))?;
        shared.order(&Message::Thread { stack }, Some(theirs.into_fd()), STARTING)?;
        let socket = Arc::new(ours);
        shared.watch(&socket);
        Ok(Self {
            channel: Channel::new(Arc::clone(&socket)),
            socket,
            number: shared.last_thread.fetch_add(1, Ordering::Relaxed).wrapping_add(1),
            shared,
            engines,
            stack,
            patience: None,
            memory: Some(Arc::new(memory)),
        })
    }

    /// Bounds the time from one message of a call to the next: until the function returns, or
    /// leaves by an exit stub. An executor that takes longer is abandoned. Without, a function may
    /// run as long as the executor lives.
    pub fn set_deadline(&mut self, deadline: Option<Duration>) {
        self.patience = deadline;
    }

    /// Its number among the executor's, from 1 on, by which errors name it.
    #[must_use]
    pub fn number(&self) -> i32 {
        self.number
    }

    /// Its stack, which is mapped in both processes.
    #[must_use]
    pub fn stack(&self) -> CodeRange {
        self.stack
    }

    /// Calls a function of the code there with integer arguments, up to six, and returns its
    /// result. The handlers of its misses and deoptimizations run on this thread.
    ///
    /// That the function is one of as many integers is the caller's concern: in the executor
    /// anything may happen otherwise, and here nothing.
    ///
    /// # Errors
    /// [`Error::ExecutorRefused`] for an address outside of the code; [`Error::ExecutorArgs`] for too many arguments.
    /// [`Error::ExecutorGone`], [`Error::ExecutorSilent`] and [`Error::ExecutorAnswer`]: the executor has ended, or was
    /// abandoned.
    pub fn call(&mut self, function: CodeAddr, args: &[u64]) -> Result<u64> {
        let mut all = [0; ARGS];
        let Some(given) = all.get_mut(..args.len()) else {
            let given = args.len();
            return Err(Error::ExecutorArgs { given, most: ARGS });
        };
        given.copy_from_slice(args);
        self.shared.check_known(CALLING)?;
        let calls = Arc::clone(&self.shared.calls);
        let call = calls.enter(self.number);
        let mut message = Message::Call {
            at: function,
            args: all,
        };
        loop {
            match self.exchange(&message)? {
                Message::Returned { value } => return Ok(value),
                Message::Failed { why, errno } => {
                    let why = why.text();
                    return Err(Error::ExecutorRefused {
                        during: CALLING,
                        why,
                        errno,
                    });
                }
                Message::Exit { context, raw, save } => {
                    if let Some(stack) = &self.memory {
                        call.wait(stack, raw.min(save));
                    }
                    let word = self.exit(context, raw, save)?;
                    call.go_on();
                    message = Message::Go { word };
                }
                _ => return Err(self.shared.unexpected(CALLING)),
            }
        }
    }

    fn exchange(&mut self, message: &Message) -> Result<Message> {
        let said = self.channel.say(message, None, self.patience);
        let heard = said.and_then(|()| self.channel.hear_answer(self.patience));
        heard.map_err(|lost| {
            // Who waits for ever is never late.
            let patience = self.patience.unwrap_or(Duration::ZERO);
            self.shared.lost(lost, patience, CALLING)
        })
    }

    /// Lets the handler of an exit stub decide. A thread that left by none, or is not where it
    /// says, is not to be helped.
    fn exit(&self, context: u64, raw: u64, save: u64) -> Result<u64> {
        let stack = self.stack;
        // SAFETY: the stack is this value's, mapped and writable here as there. The thread there waits, and nobody here refers to
        // it: a stop reads its words one by one, as volatile ones.
        let frame = unsafe { SavedFrame::new([context, raw, save], stack) };
        let nobody = || Error::ExecutorAnswer {
            during: CALLING,
            why: "an exit by an exit stub that no engine has",
        };
        let handled = self.engines.handle_exit(&frame).map_err(Error::of_exit);
        let word = handled.and_then(|word| word.ok_or_else(nobody));
        if word.is_err() {
            self.shared.abandon();
        }
        word
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        if self.shared.check_known("a thread ended").is_ok() {
            self.socket.end();
        }
        // Waits there until the thread has ended.
        let ended = self
            .shared
            .order(&Message::End { stack: self.stack }, None, "a thread ended");
        match ended {
            Ok(()) | Err(Error::ExecutorGone { .. }) => {}
            // Its stack is still in use.
            Err(_) => std::mem::forget(self.memory.take()),
        }
    }
}
