//! Errors of implementations that are outside of this crate.

use alloc::string::ToString;
use alloc::sync::Arc;
use core::error::Error;
use core::fmt;

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
pub struct ProviderError(Arc<dyn Error + Send + Sync>);

impl ProviderError {
    /// Wraps an error.
    pub fn new(error: impl Error + Send + Sync + 'static) -> Self {
        Self(Arc::new(error))
    }

    /// The error that was wrapped, if it is of this type.
    #[must_use]
    pub fn get<E: Error + 'static>(&self) -> Option<&E> {
        self.0.downcast_ref()
    }
}

/// Two are equal that are the same, or say the same.
impl PartialEq for ProviderError {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.to_string() == other.0.to_string()
    }
}

impl Eq for ProviderError {}

impl fmt::Display for ProviderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl Error for ProviderError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}
