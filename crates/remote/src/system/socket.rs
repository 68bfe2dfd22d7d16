//! A connection between two processes: whole messages, each with the descriptors that come with it.
//!
//! A socket of messages (`SOCK_SEQPACKET`, unix(7)): a message arrives whole or not at all, in
//! order, and the end of the other process is the end of the connection, whatever killed it.
//! Waiting is bounded where the caller says so.

use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use patchpoint::error::Errno;
use smallvec::SmallVec;

use super::last_errno;

/// Bytes for what comes with a message beside its bytes: a descriptor, and what the system may add.
const CONTROL: usize = 256;
/// A descriptor of a process, which the system adds on request (Linux 6.5).
const SCM_PIDFD: libc::c_int = 4;

/// Why nothing was sent or received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The other side is gone.
    Gone,
    /// Nothing came in time.
    Late,
    /// The message was longer than the buffer, or had more descriptors than one, or any where none
    /// may be.
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

    /// Whether this process and the one at the other end have one user: the one that it had when it
    /// connected, or began to listen.
    pub(crate) fn is_of_this_user(&self) -> Result<bool, Errno> {
        let mut peer = MaybeUninit::<libc::ucred>::zeroed();
        let mut len = size_of::<libc::ucred>() as libc::socklen_t;
        let (level, what) = (libc::SOL_SOCKET, libc::SO_PEERCRED);
        // SAFETY: as many bytes as are said are written at most.
        let asked = unsafe {
            libc::getsockopt(
                self.0.as_raw_fd(),
                level,
                what,
                peer.as_mut_ptr().cast(),
                &raw mut len,
            )
        };
        if asked != 0 {
            return Err(last_errno());
        }
        // SAFETY: filled by the call, and valid as zeros before.
        let peer = unsafe { peer.assume_init() };
        // SAFETY: takes nothing and cannot fail.
        Ok(len as usize == size_of::<libc::ucred>() && peer.uid == unsafe { libc::geteuid() })
    }

    /// Waits until a message can be sent or received, or the other side is gone.
    fn wait(&self, events: libc::c_short, until: Option<Instant>) -> Result<(), Trouble> {
        let entry = libc::pollfd {
            fd: self.0.as_raw_fd(),
            events,
            revents: 0,
        };
        poll(&mut [entry], until)
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
            // SAFETY: a computation.
            let len = unsafe { libc::CMSG_SPACE(size_of::<RawFd>() as u32) };
            control.attach(&mut message, len as usize);
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
            match self.try_receive(into, flags, CONTROL) {
                Err(Trouble::Late | Trouble::Refused(Errno(libc::EINTR))) => {}
                other => return other,
            }
        }
    }

    /// Receives a message that is there already; `None` if there is none yet. It may have no
    /// descriptors: with such it is refused, and they are not even opened, which is right for
    /// somebody of whom nothing is known.
    pub(crate) fn receive_bare(&self, into: &mut [u8]) -> Result<Option<usize>, Trouble> {
        // protection: remote-strangers-open-nothing
        match self.try_receive(into, libc::MSG_DONTWAIT, 0) {
            Ok((len, _)) => Ok(Some(len)),
            Err(Trouble::Late | Trouble::Refused(Errno(libc::EINTR))) => Ok(None),
            Err(trouble) => Err(trouble),
        }
    }

    /// Receives a message, with so many bytes for what comes with it. Every descriptor that comes
    /// is either returned or closed.
    fn try_receive(
        &self,
        into: &mut [u8],
        flags: libc::c_int,
        room: usize,
    ) -> Result<(usize, Option<OwnedFd>), Trouble> {
        let mut part = libc::iovec {
            iov_base: into.as_mut_ptr().cast(),
            iov_len: into.len(),
        };
        let mut control = Control::new();
        let mut message = header(&mut part);
        control.attach(&mut message, room);
        // SAFETY: the header names the buffer and the control data, which outlive the call.
        let len = unsafe { libc::recvmsg(self.0.as_raw_fd(), &raw mut message, flags) };
        if len < 0 {
            return Err(last_errno().into());
        }
        // SAFETY: the kernel has filled the header in, and nobody has looked at it yet.
        let mut files = unsafe { received_files(&message) };
        let file = files.pop();
        // protection: remote-truncated-messages-are-refused
        // protection: remote-more-descriptors-are-refused
        if !files.is_empty() || message.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0 {
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

/// The descriptors that somebody sent with a message. The others in it, which the system adds, are
/// closed.
///
/// The room for them is rounded up, and a sender chooses how many there are: what is not taken out
/// here stays open for ever.
///
/// # Safety
///
/// The header is one that the kernel has filled in, and this is called once for it: the descriptors
/// have no owner yet.
unsafe fn received_files(message: &libc::msghdr) -> SmallVec<[OwnedFd; 1]> {
    let mut files = SmallVec::new();
    // SAFETY: the header is the kernel's.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(message) };
    // SAFETY: null, or an entry within the header's control data, which is aligned for it.
    while let Some(entry) = unsafe { next.as_ref() } {
        let has_files = matches!(entry.cmsg_type, libc::SCM_RIGHTS | SCM_PIDFD);
        if entry.cmsg_level == libc::SOL_SOCKET && has_files {
            // SAFETY: a computation.
            let head = unsafe { libc::CMSG_LEN(0) } as usize;
            let len: usize = entry.cmsg_len as _;
            let count = len.saturating_sub(head) / size_of::<RawFd>();
            // protection: remote-more-descriptors-are-closed
            for index in 0..count {
                // SAFETY: the entry has as many descriptors, by its length; they are ours from now on.
                let file = unsafe {
                    let place = libc::CMSG_DATA(entry).cast::<RawFd>().add(index);
                    OwnedFd::from_raw_fd(place.read_unaligned())
                };
                if entry.cmsg_type == libc::SCM_RIGHTS {
                    files.push(file);
                }
            }
        }
        // SAFETY: the entry is one of the header's.
        next = unsafe { libc::CMSG_NXTHDR(message, entry) };
    }
    files
}

/// Waits until a message, or a connection, has come at one of the sockets, or one has ended.
pub(crate) fn wait_for_any<'a>(
    sockets: impl Iterator<Item = &'a Socket>,
    until: Option<Instant>,
) -> Result<(), Trouble> {
    let entry = |socket: &Socket| libc::pollfd {
        fd: socket.0.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    poll(&mut sockets.map(entry).collect::<Vec<_>>(), until)
}

fn poll(entries: &mut [libc::pollfd], until: Option<Instant>) -> Result<(), Trouble> {
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
        // SAFETY: as many entries are passed as are said.
        match unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, timeout) } {
            0 => return Err(Trouble::Late),
            1.. => return Ok(()),
            _ => match last_errno() {
                Errno(libc::EINTR) => {}
                errno => return Err(errno.into()),
            },
        }
    }
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Room for what comes with a message, aligned as its header is.
struct Control([u64; CONTROL / 8]);

impl Control {
    fn new() -> Self {
        Self([0; CONTROL / 8])
    }

    /// Names the first bytes of it in a header; none, if there are to be none.
    fn attach(&mut self, message: &mut libc::msghdr, len: usize) {
        let len = len.min(size_of::<Self>());
        if len > 0 {
            message.msg_control = self.0.as_mut_ptr().cast();
        }
        message.msg_controllen = len as _;
    }
}

/// A deadline that far from now.
pub(crate) fn within(time: Duration) -> Option<Instant> {
    Instant::now().checked_add(time)
}
