//! The end of a process in which something is not as it always is.
//!
//! Problem: a broken invariant must not be answered with a default, which would be written into
//! code. Before a byte is written a panic says enough: `expect("why it holds")`. But once bytes are
//! written a panic would unwind through half a transaction and leave sites that nobody knows; in a
//! signal handler, or while other threads are stopped, it would allocate, and a stopped thread may
//! hold the allocator's lock. Approach: there the process ends, with a message that is put together
//! on the stack and written by one system call.

use core::fmt::{self, Write};
use core::panic::Location;

/// Ends the process with a message that names a broken invariant. It neither allocates nor unwinds,
/// and may be called in a signal handler.
#[cold]
#[inline(never)]
#[track_caller]
pub(crate) fn broken(invariant: &str) -> ! {
    let mut message = Message::new();
    // A message that is too long is cut off.
    let _ = write!(
        message,
        "patchpoint: {}: an invariant is broken: {invariant}",
        Location::caller()
    );
    message.tell();
    std::process::abort();
}

/// Takes what is always there, where nothing may unwind.
pub(crate) trait OrAbort<T> {
    /// The value. If there is none, the process ends: see [`broken`]. `why` says why there is one.
    fn or_abort(self, why: &str) -> T;
}

impl<T> OrAbort<T> for Option<T> {
    #[inline]
    #[track_caller]
    fn or_abort(self, why: &str) -> T {
        match self {
            Some(value) => value,
            None => broken(why),
        }
    }
}

/// Text on the stack, as much as there is room for.
struct Message {
    bytes: [u8; 512],
    len: usize,
}

impl Message {
    const fn new() -> Self {
        Self {
            bytes: [0; 512],
            len: 0,
        }
    }

    /// Writes the text and a line's end to the standard error.
    fn tell(&mut self) {
        let end = self.len.min(self.bytes.len() - 1);
        if let Some(line) = self.bytes.get_mut(..=end) {
            if let Some(last) = line.last_mut() {
                *last = b'\n';
            }
            write_to_stderr(line);
        }
    }
}

impl Write for Message {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.bytes.iter_mut().skip(self.len);
        let copied = room.zip(text.as_bytes()).map(|(to, from)| *to = *from).count();
        self.len += copied;
        Ok(())
    }
}

/// By the system's call itself: the standard library's handle has a lock, which the interrupted
/// code may hold.
#[cfg(unix)]
#[allow(unsafe_code)]
fn write_to_stderr(line: &[u8]) {
    // SAFETY: the bytes can be read. That nobody may read them there is no reason not to end.
    unsafe { libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len()) };
}

#[cfg(not(unix))]
fn write_to_stderr(line: &[u8]) {
    // That nobody may read it there is no reason not to end.
    let _ = std::io::Write::write_all(&mut std::io::stderr(), line);
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// What a forked child writes to the standard error when some work has aborted it.
    #[cfg(target_os = "linux")]
    pub(crate) fn last_words(work: impl FnOnce()) -> std::string::String {
        use crate::memory::testing::process::{End, end_and_message};
        let (end, words) = end_and_message(|| {
            work();
            true
        });
        assert_eq!(end, End::Killed(libc::SIGABRT), "{words}");
        words
    }

    #[test]
    fn what_is_there_is_taken() {
        assert_eq!(Some(7).or_abort("it is there"), 7);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_broken_invariant_is_named_with_its_place_and_ends_the_process() {
        let words = last_words(|| None.or_abort("there is one"));
        assert!(words.starts_with("patchpoint: "), "{words}");
        assert!(words.contains("invariant.rs:"), "{words}");
        // An emulator adds how the process ended.
        assert!(
            words.contains(": an invariant is broken: there is one\n"),
            "{words}"
        );
    }

    #[test]
    fn a_message_that_is_too_long_is_cut_off() {
        let mut message = Message::new();
        (0..100).for_each(|_| message.write_str("0123456789").unwrap());
        assert_eq!((message.len, message.bytes[511]), (512, b'1'));
    }
}
