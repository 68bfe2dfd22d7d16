//! What is asked of a module and done by its engine: sites do not know of engines, so these methods
//! are here.

use super::requests::Request;
use super::{Engine, IfInvalid, Receipt, Shared};
use crate::addr::RecordId;
use crate::sequence::Sequence;
use crate::site::{Module, Site};
use crate::{Error, Result};

impl Module {
    /// The engine that it is registered with, or was.
    ///
    /// # Errors
    /// [`Error::EngineGone`]: the last handle of the engine has been dropped.
    pub fn engine(&self) -> Result<Engine> {
        let shared = self.owner().get::<Shared>().ok_or(Error::EngineGone)?;
        Ok(Engine { shared })
    }

    /// Its sites with that ID, in order of address.
    ///
    /// # Errors
    /// [`Error::NoSuchSite`], [`Error::EngineGone`].
    pub fn sites_with_id(&self, id: impl Into<RecordId>) -> Result<Vec<Site>> {
        self.engine()?.sites_in(self, id.into())
    }

    /// Writes the sequence into every valid site of this module with that ID; see
    /// [`Engine::patch`].
    ///
    /// # Errors
    /// [`Error::NoSuchSite`], [`Error::EngineGone`], and as [`Engine::patch`].
    pub fn patch(&self, id: impl Into<RecordId>, sequence: &Sequence) -> Result<Receipt> {
        let engine = self.engine()?;
        let sites = engine.sites_in(self, id.into())?.into_iter();
        let changes = sites.map(|site| (site, Request::Patch(sequence), IfInvalid::Leave));
        engine.change(changes)
    }

    /// Puts the original bytes back into every valid site of this module with that ID; see
    /// [`Engine::restore`].
    ///
    /// # Errors
    /// [`Error::NoSuchSite`], [`Error::EngineGone`], and as [`Engine::restore`].
    pub fn restore(&self, id: impl Into<RecordId>) -> Result<Receipt> {
        let engine = self.engine()?;
        let sites = engine.sites_in(self, id.into())?.into_iter();
        let changes = sites.map(|site| (site, Request::Restore, IfInvalid::Leave));
        engine.change(changes)
    }
}

impl Site {
    /// Writes the sequence into this site; see [`Engine::patch_site`].
    ///
    /// # Errors
    /// [`Error::EngineGone`], and as [`Engine::patch_site`].
    pub fn patch(&self, sequence: &Sequence) -> Result<Receipt> {
        self.module().engine()?.patch_site(self, sequence)
    }

    /// Puts the original bytes back into this site; see [`Engine::restore_site`].
    ///
    /// # Errors
    /// [`Error::EngineGone`], and as [`Engine::restore_site`].
    pub fn restore(&self) -> Result<Receipt> {
        self.module().engine()?.restore_site(self)
    }
}

impl Engine {
    fn sites_in(&self, module: &Module, id: RecordId) -> Result<Vec<Site>> {
        let mut sites: Vec<Site> = self.sites_of(id)?.into_iter().collect();
        sites.retain(|site| site.module().is_same(module));
        match sites.is_empty() {
            true => Err(Error::NoSuchSite { id }),
            false => Ok(sites),
        }
    }
}
