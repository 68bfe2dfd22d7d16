//! Where something was refused, and what came of it.

use core::fmt;

/// What a site is after a roll-back that could not restore it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fate {
    /// It has its old bytes, but its page could not be made executable again.
    OldNotExecutable,
    /// It has its new bytes.
    New,
    /// Its bytes are neither the old nor the new ones, or a core may still execute either.
    Unknown,
}

/// An error number of the operating system.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(pub i32);

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        #[cfg(feature = "std")]
        return fmt::Display::fmt(&std::io::Error::from_raw_os_error(self.0), f);
        #[cfg(not(feature = "std"))]
        return write!(f, "error number {}", self.0);
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A number of bytes in words.
#[cfg(feature = "std")]
pub(crate) fn bytes(number: &impl fmt::Display) -> alloc::string::String {
    match alloc::format!("{number}").as_str() {
        "1" => "1 byte".into(),
        number => alloc::format!("{number} bytes"),
    }
}
