//! Connections between processes that did not start each other: a place with a name, on this machine.
//!
//! The name is in the abstract namespace (unix(7)), so nothing is left in the file system. Every process in the same network
//! namespace can connect there: whoever accepts has to ask for a secret.

use std::mem::{MaybeUninit, offset_of, size_of};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Instant;

use super::linux::last_errno;
use super::socket::{Socket, Trouble};
use crate::error::Errno;

/// A place to which others connect.
#[derive(Debug)]
pub(crate) struct Listener(Socket);

impl Listener {
    /// A place with that name; fails if there is one.
    pub(crate) fn bind(name: &str) -> Result<Self, Errno> {
        let socket = open()?;
        let (address, len) = address(name)?;
        // SAFETY: the address is as long as is said.
        let bound = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) };
        // SAFETY: takes numbers.
        if bound != 0 || unsafe { libc::listen(socket.as_raw_fd(), 8) } != 0 {
            return Err(last_errno());
        }
        Socket::over(socket).map(Self)
    }

    /// The next that connects.
    pub(crate) fn accept(&self, until: Option<Instant>) -> Result<Socket, Trouble> {
        self.0.wait(libc::POLLIN, until)?;
        let none = std::ptr::null_mut();
        // SAFETY: no address is asked for.
        let fd = unsafe { libc::accept4(self.0.as_raw_fd(), none, std::ptr::null_mut(), libc::SOCK_CLOEXEC) };
        if fd < 0 {
            return Err(last_errno().into());
        }
        // SAFETY: opened above and owned by nobody else.
        Ok(Socket::over(unsafe { OwnedFd::from_raw_fd(fd) })?)
    }
}

/// Connects to a place.
pub(crate) fn connect(name: &str) -> Result<OwnedFd, Errno> {
    let socket = open()?;
    let (address, len) = address(name)?;
    // SAFETY: the address is as long as is said.
    match unsafe { libc::connect(socket.as_raw_fd(), (&raw const address).cast(), len) } {
        0 => Ok(socket),
        _ => Err(last_errno()),
    }
}

fn open() -> Result<OwnedFd, Errno> {
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: takes numbers.
    let fd = unsafe { libc::socket(libc::AF_UNIX, kind, 0) };
    if fd < 0 {
        return Err(last_errno());
    }
    // SAFETY: opened above and owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The name as an address, and the address's length: a zero byte, and the name.
fn address(name: &str) -> Result<(libc::sockaddr_un, libc::socklen_t), Errno> {
    // SAFETY: all zeros is a valid address, of nothing.
    let mut address = unsafe { MaybeUninit::<libc::sockaddr_un>::zeroed().assume_init() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    let place = address.sun_path.get_mut(1..=name.len());
    let place = place.ok_or(Errno(libc::ENAMETOOLONG))?;
    for (to, from) in place.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    let len = offset_of!(libc::sockaddr_un, sun_path) + 1 + name.len();
    debug_assert!(len <= size_of::<libc::sockaddr_un>());
    Ok((address, len as libc::socklen_t))
}

/// Bytes that nobody can guess.
pub(crate) fn secret() -> Result<[u8; 32], Errno> {
    let mut bytes = [0; 32];
    // SAFETY: as many bytes as are said are written.
    match unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) } {
        32 => Ok(bytes),
        _ => Err(last_errno()),
    }
}
