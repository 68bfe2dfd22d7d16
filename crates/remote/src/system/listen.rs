//! Connections between processes that did not start each other: a socket in a folder that only this
//! user can enter.
//!
//! Not in the abstract namespace (unix(7)): such a name is seen by every process in the network
//! namespace, every user's, and is free for anybody once its listener is gone, so that who connects
//! later meets whoever took it. In a new folder of mode 0700 no other user finds the socket, and
//! none can put another in its place, not even when the listener was killed and has left it behind.
//! Where the folder above lets others move what is in it (it belongs to somebody else, or everybody
//! may write to it and it is not sticky), a place can be replaced all the same: so both sides ask
//! the system who the other is, and for a proof.

use std::fs::{self, DirBuilder};
use std::io;
use std::mem::{MaybeUninit, offset_of, size_of};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use patchpoint::error::Errno;

use super::last_errno;
use super::socket::Socket;

/// How many may wait to be accepted. Who comes then waits until there is room.
const BACKLOG: libc::c_int = 128;

/// A place to which others connect. It is taken away again when this is dropped; who is killed
/// leaves it behind.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: Socket,
    path: PathBuf,
    /// Takes the folder away.
    _folder: Folder,
}

/// A folder of this process's own, with a socket in it.
#[derive(Debug)]
struct Folder {
    path: PathBuf,
    /// The process that made it; a fork's child leaves it alone.
    process: u32,
}

impl Folder {
    /// Makes one; fails if there is anything of that name.
    fn new(path: PathBuf) -> Result<Self, Errno> {
        // protection: remote-the-place-is-private
        DirBuilder::new().mode(0o700).create(&path).map_err(errno)?;
        Ok(Self {
            path,
            process: std::process::id(),
        })
    }

    fn socket(&self) -> PathBuf {
        self.path.join("socket")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.process == std::process::id() {
            // A refusal can only leave them there.
            let _ = fs::remove_file(self.socket());
            let _ = fs::remove_dir(&self.path);
        }
    }
}

impl Listener {
    /// A place in a new folder within that one.
    pub(crate) fn bind_in(within: &Path) -> Result<Self, Errno> {
        let unused: String = secret()?
            .iter()
            .take(8)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let name = format!("patchpoint-{}-{unused}", std::process::id());
        let folder = Folder::new(within.join(name))?;
        let path = folder.socket();
        let socket = open(libc::SOCK_NONBLOCK)?;
        let (address, len) = address(&path)?;
        // SAFETY: the address is as long as is said.
        let bound = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) };
        // SAFETY: takes numbers.
        if bound != 0 || unsafe { libc::listen(socket.as_raw_fd(), BACKLOG) } != 0 {
            return Err(last_errno());
        }
        Ok(Self {
            socket: Socket::over(socket)?,
            path,
            _folder: folder,
        })
    }

    /// Where others connect.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What becomes readable when somebody connects.
    pub(crate) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// The next that has connected; `None` if nobody has.
    pub(crate) fn accept(&self) -> Result<Option<Socket>, Errno> {
        let none = std::ptr::null_mut();
        let fd = self.socket.as_raw_fd();
        // SAFETY: no address is asked for.
        let fd = unsafe { libc::accept4(fd, none, std::ptr::null_mut(), libc::SOCK_CLOEXEC) };
        if fd < 0 {
            return match last_errno() {
                // Another thread was faster, a signal came, or it is gone already.
                Errno(libc::EAGAIN | libc::EINTR | libc::ECONNABORTED) => Ok(None),
                errno => Err(errno),
            };
        }
        // SAFETY: opened above and owned by nobody else.
        Socket::over(unsafe { OwnedFd::from_raw_fd(fd) }).map(Some)
    }
}

/// Connects to a place. Waits as long as its backlog is full.
pub(crate) fn connect(path: &Path) -> Result<Socket, Errno> {
    let socket = open(0)?;
    let (address, len) = address(path)?;
    loop {
        // SAFETY: the address is as long as is said.
        match unsafe { libc::connect(socket.as_raw_fd(), (&raw const address).cast(), len) } {
            0 => return Socket::over(socket),
            _ => match last_errno() {
                Errno(libc::EINTR) => {}
                errno => return Err(errno),
            },
        }
    }
}

fn errno(error: io::Error) -> Errno {
    // Without a number: a path with a zero byte in it.
    Errno(error.raw_os_error().unwrap_or(libc::EINVAL))
}

fn open(flags: libc::c_int) -> Result<OwnedFd, Errno> {
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | flags;
    // SAFETY: takes numbers.
    let fd = unsafe { libc::socket(libc::AF_UNIX, kind, 0) };
    if fd < 0 {
        return Err(last_errno());
    }
    // SAFETY: opened above and owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A path as an address, and the address's length. An empty path is none: the system would take it
/// for any place.
fn address(path: &Path) -> Result<(libc::sockaddr_un, libc::socklen_t), Errno> {
    // SAFETY: all zeros is a valid address, of nothing.
    let mut address = unsafe { MaybeUninit::<libc::sockaddr_un>::zeroed().assume_init() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    let path = path.as_os_str().as_bytes();
    if path.is_empty() || path.contains(&0) {
        return Err(Errno(libc::EINVAL));
    }
    // A zero byte stays behind it.
    let room = address.sun_path.len() - 1;
    let place = address.sun_path.get_mut(..path.len());
    let place = place.filter(|_| path.len() <= room);
    let place = place.ok_or(Errno(libc::ENAMETOOLONG))?;
    for (to, from) in place.iter_mut().zip(path) {
        *to = *from as libc::c_char;
    }
    let len = offset_of!(libc::sockaddr_un, sun_path) + path.len() + 1;
    assert!(
        len <= size_of::<libc::sockaddr_un>(),
        "the path and its end have room"
    );
    Ok((address, len as libc::socklen_t))
}

/// Bytes that nobody can guess.
pub(crate) fn secret() -> Result<[u8; 32], Errno> {
    let mut bytes = [0; 32];
    loop {
        // SAFETY: as many bytes as are said are written.
        match unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) } {
            32 => return Ok(bytes),
            -1 if last_errno() != Errno(libc::EINTR) => return Err(last_errno()),
            // So few bytes come whole, unless a signal comes before the system has any.
            _ => {}
        }
    }
}
