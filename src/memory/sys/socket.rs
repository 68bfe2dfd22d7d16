//! A connection between two processes: whole messages, each with the descriptors that come with it.
//!
//! A socket of messages (`SOCK_SEQPACKET`, unix(7)): a message arrives whole or not at all, in order, and the end of the
//! other process is the end of the connection, whatever killed it. Waiting is bounded where the caller says so.

use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use super::linux::last_errno;
use crate::error::Errno;

/// With one message come no more descriptors.
const MOST_FILES: usize = 1;

/// Why nothing was sent or received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The other side is gone.
    Gone,
    /// Nothing came in time.
    Late,
    /// The message was longer than the buffer, or had more descriptors than it may.
    TooLong,
    /// The system refused.
    Refused(Errno),
}

impl From<Errno> for Trouble {
    fn from(errno: Errno) -> Self {
        match errno.0 {
            libc::EPIPE | libc::ECONNRESET | libc::ENOTCONN | libc::ECONNREFUSED => Self::Gone,
            libc::EAGAIN => Self::Late,
            _ => Self::Refused(errno),
        }
    }
}

/// One end of a connection.
#[derive(Debug)]
pub(crate) struct Socket(OwnedFd);

impl Socket {
    /// Both ends of a new connection. Neither is inherited by other programs.
    pub(crate) fn pair() -> Result<(Self, Self), Errno> {
        let mut ends: [RawFd; 2] = [-1; 2];
        let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
        // SAFETY: two descriptors are written.
        if unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) } != 0 {
            return Err(last_errno());
        }
        // SAFETY: opened above and owned by nobody else.
        let [one, other] = ends.map(|end| Self(unsafe { OwnedFd::from_raw_fd(end) }));
        Ok((one, other))
    }

    /// The end that somebody handed over; refused unless it is a socket of messages.
    pub(crate) fn over(end: OwnedFd) -> Result<Self, Errno> {
        let mut kind: libc::c_int = 0;
        let mut len = size_of::<libc::c_int>() as libc::socklen_t;
        let (level, what) = (libc::SOL_SOCKET, libc::SO_TYPE);
        // SAFETY: as many bytes as are said are written at most.
        let asked =
            unsafe { libc::getsockopt(end.as_raw_fd(), level, what, (&raw mut kind).cast(), &raw mut len) };
        match asked {
            0 if kind == libc::SOCK_SEQPACKET => Ok(Self(end)),
            0 => Err(Errno(libc::EPROTOTYPE)),
            _ => Err(last_errno()),
        }
    }

    pub(crate) fn into_fd(self) -> OwnedFd {
        self.0
    }

    /// Ends the connection for both sides, also for whoever waits at this end.
    pub(crate) fn end(&self) {
        // SAFETY: takes a descriptor that is open. A refusal means that there is no connection.
        unsafe { libc::shutdown(self.0.as_raw_fd(), libc::SHUT_RDWR) };
    }

    /// Whether the connection has ended, on whichever side.
    pub(crate) fn is_ended(&self) -> bool {
        let mut poll = libc::pollfd {
            fd: self.0.as_raw_fd(),
            events: libc::POLLRDHUP,
            revents: 0,
        };
        // SAFETY: one entry is passed.
        let asked = unsafe { libc::poll(&raw mut poll, 1, 0) };
        asked != 0 && poll.revents & (libc::POLLHUP | libc::POLLRDHUP | libc::POLLERR | libc::POLLNVAL) != 0
    }

    /// Waits until a message can be sent or received, or the other side is gone.
    pub(super) fn wait(&self, events: libc::c_short, until: Option<Instant>) -> Result<(), Trouble> {
        loop {
            let timeout = match until {
                None => -1,
                Some(until) => {
                    let left = until.saturating_duration_since(Instant::now());
                    // One more, as a rest of less than a millisecond is not nothing.
                    left.as_millis()
                        .saturating_add(u128::from(!left.is_zero()))
                        .min(1 << 30) as libc::c_int
                }
            };
            let mut poll = libc::pollfd {
                fd: self.0.as_raw_fd(),
                events,
                revents: 0,
            };
            // SAFETY: one entry is passed.
            match unsafe { libc::poll(&raw mut poll, 1, timeout) } {
                0 => return Err(Trouble::Late),
                1.. => return Ok(()),
                _ => match last_errno() {
                    Errno(libc::EINTR) => {}
                    errno => return Err(errno.into()),
                },
            }
        }
    }

    /// Sends a message, with a descriptor if one is given.
    pub(crate) fn send(
        &self,
        bytes: &[u8],
        file: Option<BorrowedFd<'_>>,
        until: Option<Instant>,
    ) -> Result<(), Trouble> {
        loop {
            match self.try_send(bytes, file) {
                Err(Errno(libc::EAGAIN)) => self.wait(libc::POLLOUT, until)?,
                Err(Errno(libc::EINTR)) => {}
                other => return Ok(other?),
            }
        }
    }

    fn try_send(&self, bytes: &[u8], file: Option<BorrowedFd<'_>>) -> Result<(), Errno> {
        let mut part = libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        };
        let mut control = Control::new();
        let mut message = header(&mut part);
        if let Some(file) = file {
            control.attach(&mut message, 1);
            // SAFETY: there is room for one entry, which is written here.
            unsafe {
                let entry = libc::CMSG_FIRSTHDR(&raw const message);
                (*entry).cmsg_level = libc::SOL_SOCKET;
                (*entry).cmsg_type = libc::SCM_RIGHTS;
                (*entry).cmsg_len = libc::CMSG_LEN(size_of::<RawFd>() as u32) as _;
                libc::CMSG_DATA(entry)
                    .cast::<RawFd>()
                    .write_unaligned(file.as_raw_fd());
            }
        }
        let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
        // SAFETY: the header, the bytes and the control data outlive the call, which only reads them.
        match unsafe { libc::sendmsg(self.0.as_raw_fd(), &raw const message, flags) } {
            sent if sent == bytes.len() as isize => Ok(()),
            -1 => Err(last_errno()),
            _ => Err(Errno(libc::EMSGSIZE)),
        }
    }

    /// Receives a message into the buffer: its length, and the descriptor that came with it.
    pub(crate) fn receive(
        &self,
        into: &mut [u8],
        until: Option<Instant>,
    ) -> Result<(usize, Option<OwnedFd>), Trouble> {
        // Without a deadline the call itself waits, which is one call less.
        let flags = libc::MSG_CMSG_CLOEXEC | if until.is_some() { libc::MSG_DONTWAIT } else { 0 };
        loop {
            if until.is_some() {
                self.wait(libc::POLLIN, until)?;
            }
            match self.try_receive(into, flags) {
                Err(Trouble::Late | Trouble::Refused(Errno(libc::EINTR))) => {}
                other => return other,
            }
        }
    }

    fn try_receive(&self, into: &mut [u8], flags: libc::c_int) -> Result<(usize, Option<OwnedFd>), Trouble> {
        let mut part = libc::iovec {
            iov_base: into.as_mut_ptr().cast(),
            iov_len: into.len(),
        };
        let mut control = Control::new();
        let mut message = header(&mut part);
        control.attach(&mut message, MOST_FILES);
        // SAFETY: the header names the buffer and the control data, which outlive the call.
        let len = unsafe { libc::recvmsg(self.0.as_raw_fd(), &raw mut message, flags) };
        if len < 0 {
            return Err(last_errno().into());
        }
        let file = received_file(&message);
        if message.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0 {
            return Err(Trouble::TooLong);
        }
        match len {
            // Nobody sends an empty message.
            0 => Err(Trouble::Gone),
            len => Ok((len as usize, file)),
        }
    }
}

fn header(part: &mut libc::iovec) -> libc::msghdr {
    // SAFETY: all zeros is a valid header, of nothing.
    let mut message = unsafe { MaybeUninit::<libc::msghdr>::zeroed().assume_init() };
    message.msg_iov = part;
    message.msg_iovlen = 1;
    message
}

/// The descriptor that came with a message, now owned by the caller.
fn received_file(message: &libc::msghdr) -> Option<OwnedFd> {
    // SAFETY: the kernel has filled the header in.
    let entry = unsafe { libc::CMSG_FIRSTHDR(message).as_ref() }?;
    let one = entry.cmsg_level == libc::SOL_SOCKET
        && entry.cmsg_type == libc::SCM_RIGHTS
        // SAFETY: a computation.
        && entry.cmsg_len as usize >= unsafe { libc::CMSG_LEN(size_of::<RawFd>() as u32) } as usize;
    // SAFETY: the entry holds a descriptor, which is ours from now on.
    one.then(|| unsafe { OwnedFd::from_raw_fd(libc::CMSG_DATA(entry).cast::<RawFd>().read_unaligned()) })
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Room for the descriptors of a message, aligned as their header is.
struct Control([u64; 8]);

impl Control {
    fn new() -> Self {
        Self([0; 8])
    }

    fn attach(&mut self, message: &mut libc::msghdr, files: usize) {
        // SAFETY: a computation.
        let len = unsafe { libc::CMSG_SPACE((files * size_of::<RawFd>()) as u32) } as usize;
        debug_assert!(len <= size_of::<Self>());
        message.msg_control = self.0.as_mut_ptr().cast();
        message.msg_controllen = len as _;
    }
}

/// A deadline that far from now.
pub(crate) fn within(time: Duration) -> Option<Instant> {
    Instant::now().checked_add(time)
}
