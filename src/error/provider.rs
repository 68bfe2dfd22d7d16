//! Errors of implementations that are outside of this crate.

use alloc::string::ToString;
use alloc::sync::Arc;
use core::error::Error;
use core::fmt;

use super::ErrorKind;

/// An error of an implementation outside of this crate of one of its traits
/// ([`Mirror`](crate::memory::Mirror) and [`Publication`](crate::publish::Publication), say), which
/// the engine hands on as it is. Clones name the same.
///
/// ```
/// use patchpoint::Error;
/// use patchpoint::error::ProviderError;
///
/// #[derive(Debug, PartialEq, thiserror::Error)]
/// #[error("the wire is cut")]
/// struct Cut;
///
/// let error = Error::from(ProviderError::new(Cut));
/// assert_eq!(error.to_string(), "the wire is cut");
/// let Error::Provider(why) = error else { unreachable!() };
/// assert_eq!(why.get(), Some(&Cut));
/// ```
#[derive(Clone, Debug)]
pub struct ProviderError {
    error: Arc<dyn Error + Send + Sync>,
    kind: ErrorKind,
}

impl ProviderError {
    /// Wraps an error, whose kind is [`ErrorKind::Provider`].
    pub fn new(error: impl Error + Send + Sync + 'static) -> Self {
        Self::of_kind(ErrorKind::Provider, error)
    }

    /// Wraps an error, of which callers that treat kinds alike may know the kind.
    pub fn of_kind(kind: ErrorKind, error: impl Error + Send + Sync + 'static) -> Self {
        let error = Arc::new(error);
        Self { error, kind }
    }

    /// Which of the few kinds of errors it is said to be.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The error that was wrapped, if it is of this type.
    #[must_use]
    pub fn get<E: Error + 'static>(&self) -> Option<&E> {
        self.error.downcast_ref()
    }
}

/// Two are equal that are the same, or are of one kind and say the same.
impl PartialEq for ProviderError {
    fn eq(&self, other: &Self) -> bool {
        let says_the_same = || self.error.to_string() == other.error.to_string();
        Arc::ptr_eq(&self.error, &other.error) || (self.kind == other.kind && says_the_same())
    }
}

impl Eq for ProviderError {}

impl fmt::Display for ProviderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.error, f)
    }
}

impl Error for ProviderError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.source()
    }
}
