//! Files for profilers, whose names everybody can guess, in folders to which everybody may write.
//!
//! **Problem.** Who makes such a name first decides where the bytes go: by a link, into another
//! file of this user's; by a file of his own, to where he can read and change them; by a pipe,
//! nowhere, and whoever opens it waits. **Approach.** A file is made, and only made (`O_EXCL`),
//! with mode 0600. One that is there already is taken only if it is a plain file of this user's, by
//! one name, as one is that an earlier process of this number has left.

#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Opens such a file as the options say, which are for writing and make none. Nothing in it is
/// changed.
pub(super) fn open(path: &Path, options: &OpenOptions) -> io::Result<File> {
    // The standard library opens everything close-on-exec.
    let mut new = options.clone();
    // protection: observed-files-are-made
    new.create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    match new.open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        opened => return opened,
    }
    let mut old = options.clone();
    // A pipe is not waited for.
    old.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let file = old.open(path)?;
    let found = file.metadata()?;
    // SAFETY: takes nothing and cannot fail.
    let user = unsafe { libc::geteuid() };
    // protection: observed-files-are-this-users
    if !found.is_file() || found.uid() != user || found.nlink() != 1 {
        let why = "there is something that is no plain file of this user's alone: take it away";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    Ok(file)
}

/// Keeps a file from every other description of it, until it is closed everywhere. False: somebody
/// else has it.
#[cfg(target_os = "linux")]
pub(super) fn lock(file: &File) -> io::Result<bool> {
    use std::os::fd::AsRawFd;

    // SAFETY: takes a descriptor that is open.
    match unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } {
        0 => Ok(true),
        _ => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            error => Err(error),
        },
    }
}
