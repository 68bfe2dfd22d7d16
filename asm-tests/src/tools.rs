//! Programs of others that a machine may have, such as LLVM's.

use std::ffi::OsStr;
use std::process::Command;

/// Whether there is such a program, which tells its version. An emulator also starts a process for
/// one that is not there, which then fails.
#[must_use]
pub fn is_there(program: impl AsRef<OsStr>) -> bool {
    let asked = Command::new(program).arg("--version").output();
    asked.is_ok_and(|output| output.status.success())
}
