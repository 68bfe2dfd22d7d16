//! What the runtime says of its sites, for its handlers.
//!
//! A description is of any type: the runtime's values by virtual register, the functions that were
//! inlined. It is given once and read without a lock or an allocation. A module without them pays
//! nothing.

use std::any::Any;
use std::sync::OnceLock;

use super::module::Site;
use crate::site::{Error, Result};

/// A description, whatever its type.
pub(super) type Description = Box<dyn Any + Send + Sync>;

/// The descriptions of a module's sites, by index.
#[derive(Default)]
pub(super) struct Descriptions(OnceLock<Box<[OnceLock<Description>]>>);

impl Descriptions {
    pub(super) fn get(&self, index: u32) -> Option<&Description> {
        self.0.get()?.get(index as usize)?.get()
    }

    /// Keeps the description, unless the site has one.
    fn set(&self, index: u32, sites: usize, description: Description) -> Option<()> {
        let all = self
            .0
            .get_or_init(|| (0..sites).map(|_| OnceLock::new()).collect());
        all.get(index as usize)?.set(description).ok()
    }
}

impl Site {
    /// Attaches a description, for handlers to find by [`description`](Self::description) or
    /// [`Frame::description`](crate::deopt::Frame::description). It lives as long as the module.
    ///
    /// # Errors
    /// [`Error::SiteDescribed`]: the site has one. What changes is best kept behind a lock in it.
    pub fn describe<T: Any + Send + Sync>(&self, description: T) -> Result<()> {
        let module = &self.module().0;
        module
            .on_demand()
            .descriptions
            .set(self.index(), module.site_count(), Box::new(description))
            .ok_or_else(|| Error::SiteDescribed { site: self.name() })
    }

    /// The description, if the site has one of this type.
    #[must_use]
    pub fn description<T: Any>(&self) -> Option<&T> {
        self.any_description()?.downcast_ref()
    }

    pub(crate) fn any_description(&self) -> Option<&(dyn Any + Send + Sync)> {
        let known = self.module().0.known_on_demand()?;
        known.descriptions.get(self.index()).map(AsRef::as_ref)
    }
}
