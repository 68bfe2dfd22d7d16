//! The runtime's side of a miss.

use crate::deopt::{Answer, Frame, Result, Value};
use crate::site::Site;

use super::Entry;

/// One execution of a site that no entry served.
#[derive(Debug)]
pub struct Miss<'m, 'f> {
    pub(super) frame: &'m mut Frame<'f>,
    pub(super) site: Option<&'m Site>,
}

impl<'f> Miss<'_, 'f> {
    /// The site, if it has a cache; one whose sequence goes to a miss without a cache learns
    /// nothing.
    #[must_use]
    pub fn site(&self) -> Option<&Site> {
        self.site
    }

    /// The argument at `index`: the receiver is usually the first.
    ///
    /// # Errors
    /// As [`Frame::arg`].
    pub fn arg(&self, index: usize) -> Result<Value> {
        self.frame.arg(index)
    }

    /// Sets the result to an integer or pointer.
    ///
    /// # Errors
    /// As [`Frame::set_result`].
    pub fn set_result(&mut self, value: u64) -> Result<()> {
        self.frame.set_result(value)
    }

    /// Sets the result to a floating-point number.
    ///
    /// # Errors
    /// As [`Frame::set_float_result`].
    pub fn set_float_result(&mut self, value: f64) -> Result<()> {
        self.frame.set_float_result(value)
    }

    /// The frame. It is whole, and can be left, only where the caches have been built
    /// [so](super::CachesBuilder::whole_frames).
    pub fn frame(&mut self) -> &mut Frame<'f> {
        self.frame
    }
}

/// What a lookup hands back besides the result that it has set.
#[derive(Debug)]
#[must_use]
pub enum Learn<'f> {
    /// What the next execution with such values should do.
    Entry(Entry),
    /// Nothing.
    Nothing,
    /// Nothing, and the code does not go on behind the site but as this answer says. All but
    /// resuming needs [whole frames](super::CachesBuilder::whole_frames).
    Leave(Answer<'f>),
}

/// The runtime's search, called where no entry applies. It sets the result.
///
/// It may run compiled code, miss again, and change caches. A panic in it ends the process:
/// compiled code cannot be unwound.
pub trait Lookup: Send + Sync {
    /// Finds the answer.
    fn lookup<'f>(&self, miss: &mut Miss<'_, 'f>) -> Learn<'f>;
}

impl<F> Lookup for F
where
    F: for<'f> Fn(&mut Miss<'_, 'f>) -> Learn<'f> + Send + Sync,
{
    fn lookup<'f>(&self, miss: &mut Miss<'_, 'f>) -> Learn<'f> {
        self(miss)
    }
}
