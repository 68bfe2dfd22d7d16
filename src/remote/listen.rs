//! Executors that somebody else started.

use std::fmt;
use std::time::{Duration, Instant};

use super::channel::{Channel, Lost};
use super::controller::{Executor, Options};
use super::protocol::Message;
use crate::error::{Errno, Error, Result};
use crate::memory::listen as system;
use crate::memory::socket::{Trouble, within};

/// How long who has connected may take to say the token.
const TO_SAY: Duration = Duration::from_secs(2);

/// What an executor must know to connect. Whoever knows it is an executor: hand it over as a secret, not on a command
/// line.
#[derive(Clone, PartialEq, Eq)]
pub struct Token([u8; 32]);

impl Token {
    /// The same from [text](Self::text); `None` for what is none.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        let mut token = [0; 32];
        if text.len() != 64 || !text.is_ascii() {
            return None;
        }
        for (to, from) in token.iter_mut().zip(text.as_bytes().chunks(2)) {
            *to = u8::from_str_radix(core::str::from_utf8(from).ok()?, 16).ok()?;
        }
        Some(Self(token))
    }

    /// As 64 hexadecimal digits.
    #[must_use]
    pub fn text(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    pub(super) fn message(&self) -> Message {
        Message::Token { token: self.0 }
    }

    /// Whether it is the same, in a time that does not tell how much of it is.
    fn is(&self, other: &[u8; 32]) -> bool {
        let differences = self.0.iter().zip(other).map(|(one, other)| one ^ other);
        core::hint::black_box(differences.fold(0, |all, one| all | one)) == 0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// A place on this machine to which executors connect.
#[derive(Debug)]
pub struct Listener {
    place: system::Listener,
    name: String,
    token: Token,
    options: Options,
}

fn refused(errno: Errno) -> Error {
    Error::ExecutorRefused {
        during: "it was waited for",
        why: "there is no place to connect to",
        errno,
    }
}

impl Options {
    /// Makes a place for an executor that somebody else starts: a Unix socket without a file, which every process of this
    /// machine can connect to, so that it asks for a token.
    ///
    /// # Errors
    /// [`Error::ExecutorRefused`]: the system does.
    pub fn listen(self) -> Result<Listener> {
        let [name, token] = [(); 2].map(|()| system::secret());
        let (name, token) = (Token(name.map_err(refused)?), Token(token.map_err(refused)?));
        let name = format!("patchpoint-{}", name.text());
        Ok(Listener {
            place: system::Listener::bind(&name).map_err(refused)?,
            name,
            token,
            options: self,
        })
    }
}

impl Listener {
    /// The name of the place, for [`Service::connect`](super::Service::connect).
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What an executor has to say there.
    #[must_use]
    pub fn token(&self) -> &Token {
        &self.token
    }

    /// Waits for an executor so long. Who connects and does not know the token is turned away.
    ///
    /// An executor that was not started here is not killed when it is given up: its connections are cut, upon which it
    /// should end.
    ///
    /// # Errors
    /// [`Error::ExecutorSilent`] if none comes; as [`Options::spawn`].
    pub fn accept(&self, patience: Duration) -> Result<Executor> {
        let until = within(patience);
        let silent = || Error::ExecutorSilent {
            during: "it was waited for",
            waited_ms: u64::try_from(patience.as_millis()).unwrap_or(u64::MAX),
        };
        loop {
            let socket = match self.place.accept(until) {
                Ok(socket) => std::sync::Arc::new(socket),
                Err(Trouble::Refused(errno)) => return Err(refused(errno)),
                Err(_) if until.is_some_and(|until| Instant::now() >= until) => return Err(silent()),
                Err(_) => continue,
            };
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let mut channel = Channel::new(std::sync::Arc::clone(&socket));
            let heard: core::result::Result<_, Lost> = channel.hear(left.map(|left| left.min(TO_SAY)));
            match heard {
                Ok((Message::Token { token }, None)) if self.token.is(&token) => {
                    return Executor::greet(socket, None, self.options);
                }
                _ => socket.end(),
            }
        }
    }
}
