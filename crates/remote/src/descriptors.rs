//! Descriptors that nobody asked for, counted by what they keep open.

#![allow(unsafe_code)]

use std::fs::File;
use std::io::Read;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

use crate::system::socket::{Socket, Trouble, within};

/// Both ends of a pipe. Reading from the first ends when nobody has the second any more.
pub(super) fn pipe() -> (File, OwnedFd) {
    let mut ends: [RawFd; 2] = [-1; 2];
    // SAFETY: two descriptors are written.
    assert_eq!(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) }, 0);
    // SAFETY: opened above and owned by nobody else.
    let [read, write] = ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) });
    (read.into(), write)
}

/// Sends a message with as many copies of a descriptor; false if the connection has ended.
pub(super) fn send_copies(socket: &Socket, bytes: &[u8], file: &OwnedFd, count: usize) -> bool {
    let mut part = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    let data = vec![file.as_raw_fd(); count];
    let mut control = vec![0_u64; 256];
    // SAFETY: all zeros is a valid header, of nothing.
    let mut message = unsafe { MaybeUninit::<libc::msghdr>::zeroed().assume_init() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    let len = size_of_val(&data[..]) as u32;
    message.msg_control = control.as_mut_ptr().cast();
    // SAFETY: a computation.
    message.msg_controllen = unsafe { libc::CMSG_SPACE(len) } as _;
    // SAFETY: there is room for the one entry, which is written here; the call only reads.
    let sent = unsafe {
        let entry = libc::CMSG_FIRSTHDR(&raw const message);
        (*entry).cmsg_level = libc::SOL_SOCKET;
        (*entry).cmsg_type = libc::SCM_RIGHTS;
        (*entry).cmsg_len = libc::CMSG_LEN(len) as _;
        std::ptr::copy_nonoverlapping(data.as_ptr().cast::<u8>(), libc::CMSG_DATA(entry), len as usize);
        libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL)
    };
    sent == bytes.len() as isize
}

/// Whether nobody has the other end of a pipe: other tests start processes, which have everything
/// for a moment.
pub(super) fn is_closed(mut read: File, write: OwnedFd) -> bool {
    drop(write);
    let mut entry = libc::pollfd {
        fd: read.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one entry is passed.
    let ready = unsafe { libc::poll(&raw mut entry, 1, 60_000) };
    ready == 1 && read.read(&mut [0]).unwrap() == 0
}

fn set(socket: &Socket, option: libc::c_int) {
    let on: libc::c_int = 1;
    let len = size_of::<libc::c_int>() as libc::socklen_t;
    let (fd, value) = (socket.as_raw_fd(), (&raw const on).cast());
    // SAFETY: as many bytes as are said are read.
    let set = unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, option, value, len) };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
}

fn receive(socket: &Socket) -> Result<(usize, Option<OwnedFd>), Trouble> {
    socket.receive(&mut [0; 8], within(Duration::from_secs(60)))
}

/// One is what a message may have; with more it is refused. None of them stays open.
#[test]
fn descriptors_that_are_not_wanted_are_closed() {
    // An emulator loses what it has no room for.
    let most = if cfg!(emulated) { 12 } else { 253 };
    for count in [1, 2, 3, 4, 12, 60, 61, 253]
        .into_iter()
        .filter(|count| *count <= most)
    {
        let (ours, theirs) = Socket::pair().unwrap();
        let (read, write) = pipe();
        assert!(send_copies(&theirs, b"x", &write, count));
        match (count, receive(&ours)) {
            (1, Ok((1, Some(file)))) => drop(file),
            (2.., Err(Trouble::TooLong)) => {}
            other => panic!("{other:?}"),
        }
        assert!(is_closed(read, write), "{count}: somebody has one still");
    }
}

/// Of who may send none not even one is opened.
#[test]
fn where_none_may_come_one_is_refused() {
    for count in [1, 2, 253] {
        let (ours, theirs) = Socket::pair().unwrap();
        let (read, write) = pipe();
        let mut into = [0; 8];
        assert_eq!(ours.receive_bare(&mut into), Ok(None));
        assert!(send_copies(&theirs, b"x", &write, count));
        assert_eq!(ours.receive_bare(&mut into), Err(Trouble::TooLong));
        assert!(is_closed(read, write), "{count}: somebody has one still");
        theirs.send(b"ab", None, None).unwrap();
        assert_eq!(ours.receive_bare(&mut into), Ok(Some(2)));
    }
}

/// Whoever handed the socket over may have asked the system for the sender's name, its process, or
/// the time.
#[test]
fn what_the_system_adds_is_no_descriptor_of_the_sender() {
    const SO_PASSPIDFD: libc::c_int = 76;
    let (ours, theirs) = Socket::pair().unwrap();
    set(&ours, libc::SO_PASSCRED);
    set(&ours, libc::SO_TIMESTAMP);
    let on: libc::c_int = 1;
    let (fd, value) = (ours.as_raw_fd(), (&raw const on).cast());
    // SAFETY: as many bytes as are said are read. Kernels before 6.5 refuse.
    unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, SO_PASSPIDFD, value, 4) };
    theirs.send(b"abc", None, None).unwrap();
    let received = receive(&ours);
    assert!(matches!(received, Ok((3, None))), "{received:?}");
    let (read, write) = pipe();
    theirs.send(b"abc", Some(write.as_fd()), None).unwrap();
    let received = receive(&ours);
    assert!(matches!(received, Ok((3, Some(_)))), "{received:?}");
    drop(received);
    assert!(is_closed(read, write));
}
