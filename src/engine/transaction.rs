//! Changes that are made together: collected, prepared, committed.

#![allow(unsafe_code, reason = "an address is a promise")]

use std::borrow::Borrow;
use std::collections::HashSet;
use std::fmt;
use std::hash::BuildHasherDefault;

use smallvec::SmallVec;

use super::commit::Prepared;
use super::observe::Boxed;
use super::state::{KeyHasher, States};
use super::{Engine, Receipt, calls, prepare};
use crate::addr::{CodeAddr, RecordId};
use crate::arch::SiteKind;
use crate::error::{Error, Result};
use crate::publish::Drained;
use crate::sequence::{Sequence, Target};
use crate::site::{Function, Site, SiteKey};

/// So many sites of a transaction are looked through for one that is there twice; beyond, a set says so.
const FEW: usize = 8;

/// The sites of a transaction, each with what is to become of it.
pub(super) type Changes = SmallVec<[(Site, Change); 1]>;

/// What is to become of a site. A transaction has sequences of its own; whoever makes a change at once lends them.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change<S = Sequence> {
    /// It gets this sequence.
    Patch(S),
    /// It gets its original bytes back.
    Restore,
    /// It gets a way to its ramp, for good.
    Invalidate,
    /// It gets this sequence, which leads elsewhere, and from now on no other but of that kind.
    Redirect(S),
    /// It calls the function to which this sequence leads.
    Retarget(S),
}

impl<S: Borrow<Sequence>> Change<S> {
    /// The same, lent.
    #[inline]
    pub(super) fn lend(&self) -> Change<&Sequence> {
        match self {
            Self::Patch(sequence) => Change::Patch(sequence.borrow()),
            Self::Restore => Change::Restore,
            Self::Invalidate => Change::Invalidate,
            Self::Redirect(sequence) => Change::Redirect(sequence.borrow()),
            Self::Retarget(sequence) => Change::Retarget(sequence.borrow()),
        }
    }
}

/// Any number of changes, of any number of modules, that are made as one: all of them, or none.
///
/// Dropping it changes nothing.
#[must_use = "a transaction changes nothing until it is committed"]
pub struct Transaction<'e> {
    engine: &'e Engine,
    changes: Changes,
    /// The keys of its sites, once there are more than [`FEW`].
    sites: HashSet<SiteKey, BuildHasherDefault<KeyHasher>>,
    drained: Option<Drained>,
    quiescent: bool,
    immediate: bool,
}

impl<'e> Transaction<'e> {
    pub(super) fn new(engine: &'e Engine) -> Self {
        Self {
            engine,
            changes: SmallVec::new(),
            sites: HashSet::default(),
            drained: None,
            quiescent: false,
            immediate: false,
        }
    }

    /// Every site with that ID gets the sequence.
    ///
    /// # Errors
    /// [`Error::NoSuchSite`], [`Error::SiteTwice`].
    pub fn patch(mut self, id: impl Into<RecordId>, sequence: &Sequence) -> Result<Self> {
        for site in self.engine.sites(id)? {
            self.add(site, Change::Patch(sequence.clone()))?;
        }
        Ok(self)
    }

    /// The site gets the sequence.
    ///
    /// # Errors
    /// [`Error::SiteTwice`].
    pub fn patch_site(mut self, site: &Site, sequence: &Sequence) -> Result<Self> {
        self.add(site.clone(), Change::Patch(sequence.clone()))?;
        Ok(self)
    }

    /// The site gets its original bytes back.
    ///
    /// # Errors
    /// [`Error::SiteTwice`].
    pub fn restore(mut self, site: &Site) -> Result<Self> {
        self.add(site.clone(), Change::Restore)?;
        Ok(self)
    }

    /// Every patchpoint and shadow of the function leads to its ramp from now on.
    ///
    /// # Errors
    /// [`Error::SiteTwice`].
    pub fn invalidate(mut self, function: &Function) -> Result<Self> {
        for site in function.sites().filter(Site::is_recorded) {
            self.add(site, Change::Invalidate)?;
        }
        Ok(self)
    }

    /// The site leads to its ramp from now on.
    ///
    /// # Errors
    /// [`Error::SiteTwice`].
    pub fn invalidate_site(mut self, site: &Site) -> Result<Self> {
        self.add(site.clone(), Change::Invalidate)?;
        Ok(self)
    }

    /// The function's entry sites lead to `to` from now on: nobody enters its code any more. `to` finds registers and
    /// stack as they are at the entry of the function. It can be redirected again, but not patched or restored.
    ///
    /// # Safety
    /// As long as a thread may enter the function or its stubs, there is code at `to` that can be entered in its place: it takes the
    /// same arguments in the same places, returns the same kind of result, and keeps what the function would keep.
    ///
    /// # Errors
    /// [`Error::NoEntrySite`]: the function has none; [`Error::SiteTwice`].
    pub unsafe fn redirect(mut self, function: &Function, to: CodeAddr) -> Result<Self> {
        // SAFETY: the caller promises just that of `to`.
        let target = unsafe { Target::addr(to) };
        let sequence = Sequence::new().jump(target);
        let entries: Vec<Site> = function
            .sites()
            .filter(|site| site.shape().kind() == SiteKind::Entry)
            .collect();
        if entries.is_empty() {
            return Err(Error::NoEntrySite {
                function: function.name().into(),
                addr: function.addr(),
            });
        }
        for site in entries {
            self.add(site, Change::Redirect(sequence.clone()))?;
        }
        Ok(self)
    }

    /// Every recorded call of `function`, in all modules, goes to `to`. What is called there finds registers and stack as the function that
    /// the compiler meant would, and must be callable so. See [`Engine::load_recording`] for which calls are
    /// recorded.
    ///
    /// The calls of modules that are [live](super::Registration::live) are changed while threads make them: each goes to the old function or to
    /// the new one, and to the new one only when an [`immediate`](Self::immediate) commit has returned. A
    /// thread that is in the old function goes on there.
    ///
    /// # Safety
    /// As long as a recorded call of the function may be made, there is a function at `to` that can be called in its place: it takes
    /// the same arguments in the same places, returns the same kind of result, and keeps what the function would keep.
    ///
    /// # Errors
    /// [`Error::NoCallSite`], [`Error::SiteTwice`].
    pub unsafe fn retarget(mut self, function: &str, to: CodeAddr) -> Result<Self> {
        let sequence = calls::sequence(to);
        for site in self.engine.calls_of(function)? {
            self.add(site, Change::Retarget(sequence.clone()))?;
        }
        Ok(self)
    }

    /// Every recorded call of `function`, in all modules, goes where it was linked to.
    ///
    /// # Errors
    /// [`Error::NoCallSite`], [`Error::SiteTwice`].
    pub fn restore_calls(mut self, function: &str) -> Result<Self> {
        for site in self.engine.calls_of(function)? {
            self.add(site, Change::Restore)?;
        }
        Ok(self)
    }

    /// No return address points into the sites of this transaction: their landings need not be kept.
    pub fn drained(mut self, drained: Drained) -> Self {
        self.drained = Some(drained);
        self
    }

    /// The sites' landings need not be kept: the world finds out whether a thread is in a site or returns there, and
    /// waits until none does, or refuses the change, as it was told.
    ///
    /// Only a world that [stops threads anywhere](crate::publish::World::stops_anywhere) looks for them.
    pub fn quiescent(mut self) -> Self {
        self.quiescent = true;
        self
    }

    /// When the commit returns, no thread begins to execute what stood in the sites before, of live ones too: as after
    /// an invalidation. One that is inside of a stub goes on there.
    pub fn immediate(mut self) -> Self {
        self.immediate = true;
        self
    }

    fn add(&mut self, site: Site, change: Change) -> Result<()> {
        let key = site.key();
        let is_new = match self.changes.len() {
            0..FEW => self.changes.iter().all(|(other, _)| other.key() != key),
            FEW => {
                self.sites.extend(self.changes.iter().map(|(site, _)| site.key()));
                self.sites.insert(key)
            }
            _ => self.sites.insert(key),
        };
        if !is_new {
            return Err(Error::SiteTwice { site: site.name() });
        }
        self.changes.push((site, change));
        Ok(())
    }

    /// Assembles and checks every change, and allocates and fills stubs and ramps. No site is touched.
    ///
    /// # Errors
    /// Whatever keeps a change from being made.
    pub fn prepare(mut self) -> Result<Prepared<'e>> {
        let engine = self.engine;
        engine.shared.with_states(|states| self.prepare_with(states))
    }

    /// The same for whoever has the engine's lock. The changes are taken out.
    fn prepare_with(&mut self, states: &mut States) -> Boxed<Prepared<'e>> {
        if self.quiescent && !self.engine.shared.stops_anywhere {
            return Err(Error::WorldDoesNotLook.into());
        }
        // A proof that was found out holds for what nothing leads to; something leads to sites.
        let promised = self.drained.as_ref().is_some_and(Drained::is_promise);
        let drained = promised || self.quiescent;
        let mut prepared = prepare::prepare(self.engine, states, self.changes.drain(..), drained)?;
        if self.immediate {
            prepared.be_immediate();
        }
        Ok(prepared)
    }

    /// Prepares the changes and makes them. No other change comes in between.
    ///
    /// # Errors
    /// As [`Transaction::prepare`] and [`Prepared::commit`]; no site has been changed then, unless the error is
    /// [`Error::RollBackFailed`].
    pub fn commit(mut self) -> Result<Receipt> {
        let engine = self.engine;
        engine
            .shared
            .with_states(|states| self.prepare_with(states)?.commit_with(states))
    }
}

impl fmt::Debug for Transaction<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(self.changes.iter().map(|(site, change)| (site, change)))
            .finish()
    }
}
