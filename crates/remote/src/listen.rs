//! Executors that somebody else started.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};

use patchpoint::error::Errno;

use crate::controller::{Executor, Options};
use crate::error::{Error, Result};
use crate::handshake::{Handshake, Outcome};
use crate::system::listen as system;
use crate::system::socket::{Trouble, wait_for_any, within};
use crate::token::Token;

/// How long who has connected may take to prove that it knows the token, while it is waited for.
/// Nobody else waits meanwhile.
const TO_PROVE: Duration = Duration::from_secs(10);
/// No more are asked for proofs at once.
pub(super) const MOST: usize = 64;

/// A place on this machine to which executors of this user connect: a Unix socket in a folder that
/// only this user can enter.
///
/// Both are taken away when this is dropped. A process that is killed leaves them behind: nobody
/// listens there then, and nobody else can.
#[derive(Debug)]
pub struct Listener {
    place: system::Listener,
    token: Token,
    options: Options,
    /// Who has connected and not proved itself yet, the first first.
    under_way: Mutex<Vec<Handshake>>,
    pub(super) to_prove: Duration,
}

fn refused(errno: Errno) -> Error {
    Error::ExecutorRefused {
        during: "it was waited for",
        why: "there is no place to connect to",
        errno,
    }
}

impl Options {
    /// Makes a place for an executor that somebody else starts, in the folder of this user's that
    /// `XDG_RUNTIME_DIR` names, or else in the one for [temporary files](std::env::temp_dir).
    ///
    /// # Errors
    /// As [`listen_in`](Self::listen_in).
    pub fn listen(self) -> Result<Listener> {
        let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        let runtime = runtime.filter(|folder| folder.is_absolute() && folder.is_dir());
        match runtime.map(|folder| self.listen_in(folder)) {
            Some(Ok(listener)) => Ok(listener),
            // It may be of another user, after su(1).
            _ => self.listen_in(std::env::temp_dir()),
        }
    }

    /// Makes a place for an executor that somebody else starts, in a new folder within that one.
    ///
    /// # Errors
    /// [`Error::ExecutorRefused`]: the system does; with `ENAMETOOLONG` where the folder's path is longer than some
    /// sixty bytes.
    pub fn listen_in(self, folder: impl AsRef<Path>) -> Result<Listener> {
        Ok(Listener {
            token: Token::of(system::secret().map_err(refused)?),
            place: system::Listener::bind_in(folder.as_ref()).map_err(refused)?,
            options: self,
            under_way: Mutex::default(),
            to_prove: TO_PROVE,
        })
    }
}

impl Listener {
    /// Where the socket is, for [`Service::connect`](super::Service::connect).
    #[must_use]
    pub fn path(&self) -> &Path {
        self.place.path()
    }

    /// What an executor has to know there.
    #[must_use]
    pub fn token(&self) -> &Token {
        &self.token
    }

    /// Waits for an executor so long. Who connects is turned away if it is another user, or does
    /// not prove that it knows the token; it keeps nobody waiting meanwhile. Of several threads
    /// that wait, one is served after the other.
    ///
    /// An executor that was not started here is not killed when it is abandoned: its connections
    /// are cut, upon which it should end.
    ///
    /// # Errors
    /// [`Error::ExecutorSilent`] if none comes; as [`Options::spawn`].
    pub fn accept(&self, patience: Duration) -> Result<Executor> {
        let until = within(patience);
        let silent = || Error::ExecutorSilent {
            during: "it was waited for",
            waited_ms: u64::try_from(patience.as_millis()).unwrap_or(u64::MAX),
        };
        let mut under_way = self.take_turn(until).ok_or_else(silent)?;
        loop {
            if let Some(proved) = self.go_on(&mut under_way) {
                // protection: remote-others-are-not-forgotten
                drop(under_way);
                return Executor::greet(proved.socket, None, self.options);
            }
            if self.take_in(&mut under_way)? {
                continue;
            }
            if until.is_some_and(|until| Instant::now() >= until) {
                return Err(silent());
            }
            let ends = under_way
                .iter()
                .filter_map(|one| one.since.checked_add(self.to_prove));
            let next = ends.chain(until).min();
            let sockets = under_way.iter().map(|one| &*one.socket);
            match wait_for_any(sockets.chain([self.place.socket()]), next) {
                Ok(()) | Err(Trouble::Late) => {}
                Err(Trouble::Refused(errno)) => return Err(refused(errno)),
                Err(Trouble::Gone | Trouble::TooLong) => return Err(refused(Errno(libc::EBADF))),
            }
        }
    }

    /// Those that are under way, whose time begins again: as long as nobody waited for them, they
    /// could not go on.
    fn take_turn(&self, until: Option<Instant>) -> Option<MutexGuard<'_, Vec<Handshake>>> {
        let mut under_way = match until {
            Some(until) => self.under_way.try_lock_until(until)?,
            None => self.under_way.lock(),
        };
        let now = Instant::now();
        under_way.iter_mut().for_each(|one| one.since = now);
        Some(under_way)
    }

    /// Goes on with all of them, up to the first that has proved itself.
    fn go_on(&self, under_way: &mut Vec<Handshake>) -> Option<Handshake> {
        let mut index = 0;
        while let Some(one) = under_way.get_mut(index) {
            match one.go_on(&self.token) {
                Outcome::Proved => return Some(under_way.remove(index)),
                Outcome::Waits if one.since.elapsed() < self.to_prove => index += 1,
                Outcome::Waits | Outcome::Failed => drop(under_way.remove(index)),
            }
        }
        None
    }

    /// Takes in who has connected; whether there was somebody. If there are too many, the first
    /// goes, of those that have said nothing if there are such: an executor says something at once.
    fn take_in(&self, under_way: &mut Vec<Handshake>) -> Result<bool> {
        let mut any = false;
        // No more at once, so that others go on meanwhile.
        for _ in 0..MOST {
            let Some(socket) = self.place.accept().map_err(refused)? else {
                return Ok(any);
            };
            any = true;
            let Some(one) = Handshake::with(socket) else {
                continue;
            };
            if under_way.len() >= MOST {
                let mute = under_way.iter().position(Handshake::is_mute);
                // protection: remote-strangers-make-room
                under_way.remove(mute.unwrap_or(0));
            }
            under_way.push(one);
        }
        Ok(any)
    }
}
