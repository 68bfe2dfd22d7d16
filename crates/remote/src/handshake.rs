//! How the two sides of a connection prove to each other that they know the token.
//!
//! **Problem.** Whoever gets an executor's connection has code executed there, and whoever gets a
//! controller's is given code. A path does not say who listens at it, nor a connection who has made
//! it; and a token that is sent is known to whoever was sent it.
//!
//! **Approach.** The system says first which user the other side is: another one is turned away
//! before anything is read or said. Then the token is never sent; each side shows that it could
//! compute something with it:
//!
//! ```text
//!     executor    Nonce      e                                           32 new bytes
//!     controller  Challenge  c, HMAC(token, "controller" c e)            32 new bytes, and the proof
//!     executor    Proof      HMAC(token, "executor" c e)                 only after it has checked the other
//! ```
//!
//! with HMAC-SHA-256 and labels of one length. Both nonces are in both proofs, so that none is good
//! for another connection (no replay); the label makes a proof of one side none of the other (no
//! reflection). The executor says nothing that depends on the token before the controller has
//! proved itself, and obeys nothing.
//!
//! **Strangers.** What comes before the proof may have no descriptors (they are not even opened)
//! and must be short. On the controller's side nothing here waits: a handshake goes on when a
//! message is there, so that as many as [`Listener`](super::Listener) allows are under way at once.
//!
//! **Not promised.** After the handshake the connection is the proof: it is neither encrypted nor
//! signed. Only the same user could get between the two, and may do worse (ptrace).

use std::sync::Arc;
use std::time::Instant;

use hmac::{Hmac, Mac};
use sha2::Sha256;

use patchpoint::error::Errno;

use crate::protocol::Message;
use crate::system::listen::secret;
use crate::system::socket::{Socket, Trouble, wait_for_any};
use crate::token::Token;

/// Longer than every message of a handshake.
const LONGEST: usize = 128;

/// Who proves something.
#[derive(Clone, Copy, Debug)]
pub(super) enum Side {
    Controller,
    Executor,
}

impl Side {
    /// What makes its proofs others than the other side's: all of one length.
    fn label(self) -> &'static [u8; 29] {
        match self {
            Self::Controller => b"patchpoint remote: controller",
            Self::Executor => b"patchpoint remote: executor  ",
        }
    }
}

/// What makes a connection another than every one before it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Nonces {
    pub(super) controller: [u8; 32],
    pub(super) executor: [u8; 32],
}

impl Nonces {
    fn mac(&self, side: Side, token: &Token) -> Hmac<Sha256> {
        let mac = Hmac::<Sha256>::new_from_slice(token.bytes()).expect("a key of any length");
        // protection: remote-proofs-have-a-side
        mac.chain_update(side.label())
            // protection: remote-proofs-are-of-one-connection
            .chain_update(self.controller)
            .chain_update(self.executor)
    }

    /// The proof that a side knows the token.
    pub(super) fn prove(&self, side: Side, token: &Token) -> [u8; 32] {
        self.mac(side, token).finalize().into_bytes().into()
    }

    /// Whether that is the proof; the time that it takes does not tell how much of it is right.
    pub(super) fn check(&self, side: Side, token: &Token, proof: &[u8; 32]) -> bool {
        self.mac(side, token).verify_slice(proof).is_ok()
    }
}

/// What has come of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The other side has to say something.
    Waits,
    /// The other side has proved itself.
    Proved,
    /// The other side has not, and will not.
    Failed,
}

/// The controller's side of one.
#[derive(Debug)]
pub(super) struct Handshake {
    pub(super) socket: Arc<Socket>,
    /// Since when it is waited for.
    pub(super) since: Instant,
    /// Known once the other side has said its own.
    nonces: Option<Nonces>,
}

impl Handshake {
    /// With who has connected; `None` if that is another user.
    pub(super) fn with(socket: Socket) -> Option<Self> {
        // protection: remote-other-users-are-no-executors
        (socket.is_of_this_user() == Ok(true)).then(|| Self {
            socket: Arc::new(socket),
            since: Instant::now(),
            nonces: None,
        })
    }

    /// Whether nothing has come yet.
    pub(super) fn is_mute(&self) -> bool {
        self.nonces.is_none()
    }

    /// Goes on as far as it can without waiting.
    pub(super) fn go_on(&mut self, token: &Token) -> Outcome {
        loop {
            let message = match hear(&self.socket) {
                Ok(Some(message)) => message,
                Ok(None) => return Outcome::Waits,
                Err(_) => return Outcome::Failed,
            };
            match (self.nonces, message) {
                (None, Message::Nonce { nonce }) => match self.challenge(nonce, token) {
                    Ok(nonces) => self.nonces = Some(nonces),
                    Err(_) => return Outcome::Failed,
                },
                // protection: remote-token-is-asked-for
                (Some(nonces), Message::Proof { proof }) if nonces.check(Side::Executor, token, &proof) => {
                    return Outcome::Proved;
                }
                _ => return Outcome::Failed,
            }
        }
    }

    fn challenge(&self, executor: [u8; 32], token: &Token) -> Result<Nonces, Trouble> {
        let nonces = Nonces {
            // protection: remote-nonces-are-new
            controller: secret()?,
            executor,
        };
        let message = Message::Challenge {
            nonce: nonces.controller,
            proof: nonces.prove(Side::Controller, token),
        };
        // There is room for it, as nothing was said before.
        say(&self.socket, &message, Some(Instant::now()))?;
        Ok(nonces)
    }
}

/// Why an executor does not serve who it has connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unproven {
    /// The connection has ended.
    Gone,
    /// It is not who knows the token.
    Stranger(&'static str),
    /// The system refused.
    Refused(Errno),
}

impl From<Errno> for Unproven {
    fn from(errno: Errno) -> Self {
        Self::Refused(errno)
    }
}

impl From<Trouble> for Unproven {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Gone | Trouble::Late => Self::Gone,
            Trouble::TooLong => Self::Stranger("it says what no controller does"),
            Trouble::Refused(errno) => Self::Refused(errno),
        }
    }
}

/// The executor's side: returns when the controller has proved itself, and has been sent the proof
/// that this side knows the token. Waits until it says something.
pub(super) fn introduce(socket: &Socket, token: &Token) -> Result<(), Unproven> {
    // protection: remote-other-users-are-no-controllers
    if !socket.is_of_this_user()? {
        return Err(Unproven::Stranger("it is another user"));
    }
    let executor = secret()?;
    say(socket, &Message::Nonce { nonce: executor }, None)?;
    let message = loop {
        match hear(socket)? {
            Some(message) => break message,
            None => wait_for_any(std::iter::once(socket), None)?,
        }
    };
    let Message::Challenge { nonce, proof } = message else {
        return Err(Unproven::Stranger("it says what no controller does"));
    };
    let nonces = Nonces {
        controller: nonce,
        executor,
    };
    // protection: remote-controllers-prove-themselves
    if !nonces.check(Side::Controller, token, &proof) {
        return Err(Unproven::Stranger("it does not know the token"));
    }
    let proof = nonces.prove(Side::Executor, token);
    Ok(say(socket, &Message::Proof { proof }, None)?)
}

fn say(socket: &Socket, message: &Message, until: Option<Instant>) -> Result<(), Trouble> {
    let mut bytes = Vec::with_capacity(LONGEST);
    message.encode(0, &mut bytes);
    socket.send(&bytes, None, until)
}

/// A message that is there; what is none is too long for one.
fn hear(socket: &Socket) -> Result<Option<Message>, Trouble> {
    let mut into = [0; LONGEST];
    let Some(len) = socket.receive_bare(&mut into)? else {
        return Ok(None);
    };
    let bytes = into.get(..len).ok_or(Trouble::TooLong)?;
    match Message::decode(bytes) {
        Ok((0, message)) => Ok(Some(message)),
        _ => Err(Trouble::TooLong),
    }
}
