//! One end of a connection, in messages.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use crate::protocol::{DecodeError, MOST, Message};
use crate::system::socket::{Socket, Trouble, within};

/// Why there is no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReceiveError {
    /// The connection.
    Trouble(Trouble),
    /// What came is none.
    Wrong(DecodeError),
}

impl From<Trouble> for ReceiveError {
    fn from(trouble: Trouble) -> Self {
        Self::Trouble(trouble)
    }
}

/// A connection with its buffers, and the number of what was said last.
#[derive(Debug)]
pub(super) struct Channel {
    socket: Arc<Socket>,
    /// The number of what was said last, by this side first.
    sequence: u64,
    /// The number of what was heard last.
    heard: u64,
    out: Vec<u8>,
    into: Box<[u8]>,
}

impl Channel {
    pub(super) fn new(socket: Arc<Socket>) -> Self {
        Self {
            socket,
            sequence: 0,
            heard: 0,
            out: Vec::with_capacity(MOST),
            into: vec![0; MOST].into_boxed_slice(),
        }
    }

    /// Says something, under the next number.
    pub(super) fn say(
        &mut self,
        message: &Message,
        file: Option<&OwnedFd>,
        patience: Option<Duration>,
    ) -> Result<(), ReceiveError> {
        self.sequence = self.sequence.wrapping_add(1);
        self.answer(self.sequence, message, file, patience)
    }

    /// Says something under the number of what it answers.
    fn answer(
        &mut self,
        sequence: u64,
        message: &Message,
        file: Option<&OwnedFd>,
        patience: Option<Duration>,
    ) -> Result<(), ReceiveError> {
        message.encode(sequence, &mut self.out);
        let until = patience.and_then(within);
        Ok(self.socket.send(&self.out, file.map(AsFd::as_fd), until)?)
    }

    /// What the other side says next.
    pub(super) fn hear(
        &mut self,
        patience: Option<Duration>,
    ) -> Result<(Message, Option<OwnedFd>), ReceiveError> {
        let until = patience.and_then(within);
        let (len, file) = self.socket.receive(&mut self.into, until)?;
        let bytes = self.into.get(..len);
        let bytes = bytes.expect("no more is received than there is room for");
        let (sequence, message) = Message::decode(bytes).map_err(ReceiveError::Wrong)?;
        self.heard = sequence;
        Ok((message, file))
    }

    /// Says something under the number of what was heard last.
    pub(super) fn reply(&mut self, message: &Message) -> Result<(), ReceiveError> {
        self.answer(self.heard, message, None, None)
    }

    /// What the other side answers to what was said last.
    pub(super) fn hear_answer(&mut self, patience: Option<Duration>) -> Result<Message, ReceiveError> {
        match self.hear(patience)? {
            // protection: remote-answers-have-their-number
            (message, None) if self.heard == self.sequence => Ok(message),
            (_, Some(_)) => Err(ReceiveError::Wrong("an answer with a descriptor")),
            _ => Err(ReceiveError::Wrong("an answer to another request")),
        }
    }
}
