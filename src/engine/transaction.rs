//! Changes that are made together: collected, prepared, committed.

#![allow(unsafe_code, reason = "an address is a promise")]

use std::fmt;

use super::commit::Prepared;
use super::observe::Boxed;
use super::prepare::Conditions;
use super::requests::{Collected, IfInvalid, Request, Requests};
use super::state::States;
use super::{Engine, Receipt, calls};
use crate::addr::{CodeAddr, RecordId};
use crate::arch::SiteKind;
use crate::publish::GracePeriod;
use crate::sequence::{Sequence, Target};
use crate::site::{Function, Site};
use crate::{Error, Result};

const RESTORE: Request<&Sequence> = Request::Restore;
const INVALIDATE: Request<&Sequence> = Request::Invalidate;

/// Any number of changes, of any number of modules, that are made as one: all of them, or none.
///
/// Changes are added one after the other. One that is refused leaves the transaction as it was
/// before, so that an error loses nothing. Dropping it changes nothing.
///
/// ```no_run
/// # fn example(engine: &patchpoint::Engine, hit: &patchpoint::sequence::Sequence, function: &patchpoint::site::Function)
/// # -> patchpoint::Result<()> {
/// let mut changes = engine.transaction();
/// changes.patch(78, hit)?;
/// changes.invalidate(function)?;
/// let receipt = changes.commit()?;
/// println!("{} sites changed, {} were invalid", receipt.sites, receipt.invalidated);
/// # Ok(())
/// # }
/// ```
#[must_use = "a transaction changes nothing until it is committed"]
pub struct Transaction<'e> {
    engine: &'e Engine,
    changes: Collected,
    grace_period: Option<GracePeriod>,
    quiescent: bool,
    immediate: bool,
}

impl<'e> Transaction<'e> {
    pub(super) fn new(engine: &'e Engine) -> Self {
        Self {
            engine,
            changes: Collected::default(),
            grace_period: None,
            quiescent: false,
            immediate: false,
        }
    }

    /// Every valid site with that ID gets the sequence. Those that have been invalidated by the
    /// time of the commit stay so; the [receipt](Receipt::invalidated) names them.
    ///
    /// # Errors
    /// [`Error::NoSuchSite`], [`Error::SiteTwice`].
    pub fn patch(&mut self, id: impl Into<RecordId>, sequence: &Sequence) -> Result<&mut Self> {
        let sites = self.engine.sites(id)?;
        self.add_all(sites, Request::Patch(sequence), IfInvalid::Leave)
    }

    /// The site gets the sequence.
    ///
    /// # Errors
    /// [`Error::SiteTwice`].
    pub fn patch_site(&mut self, site: &Site, sequence: &Sequence) -> Result<&mut Self> {
        self.changes
            .add(site, Request::Patch(sequence), IfInvalid::Refuse)?;
        Ok(self)
    }

    /// The site gets its original bytes back.
    ///
    /// # Errors
    /// [`Error::SiteTwice`].
    pub fn restore(&mut self, site: &Site) -> Result<&mut Self> {
        self.changes.add(site, RESTORE, IfInvalid::Refuse)?;
        Ok(self)
    }

    /// Every patchpoint, shadow and told site of the function goes to its exit stub from now on.
    ///
    /// # Errors
    /// [`Error::NothingToInvalidate`]: the function has none; [`Error::SiteTwice`].
    pub fn invalidate(&mut self, function: &Function) -> Result<&mut Self> {
        let (before, module) = (self.changes.len(), function.module());
        let guess = self.changes.behind(module).unwrap_or(0);
        for sites in function.recorded(guess) {
            let added = self
                .changes
                .add_range(module, sites, INVALIDATE, IfInvalid::Refuse);
            self.keep_all(before, added)?;
        }
        // protection: an-invalidation-of-nothing-is-refused
        match self.changes.len() == before {
            true => Err(Error::NothingToInvalidate {
                function: function.name().into(),
                addr: function.addr(),
            }),
            false => Ok(self),
        }
    }

    /// The site goes to its exit stub from now on.
    ///
    /// # Errors
    /// [`Error::SiteTwice`].
    pub fn invalidate_site(&mut self, site: &Site) -> Result<&mut Self> {
        self.changes.add(site, INVALIDATE, IfInvalid::Refuse)?;
        Ok(self)
    }

    /// The function's entry sites jump to `to` from now on: nobody enters its code any more. `to`
    /// finds registers and stack as they are at the entry of the function. It can be redirected
    /// again, but not patched or restored.
    ///
    /// # Safety
    /// As long as a thread may enter the function or its stubs, there is code at `to` that can be entered in its place: it takes the
    /// same arguments in the same places, returns the same kind of result, and keeps what the function would keep.
    ///
    /// # Errors
    /// [`Error::NoEntrySite`]: the function has none; [`Error::SiteTwice`].
    pub unsafe fn redirect(&mut self, function: &Function, to: CodeAddr) -> Result<&mut Self> {
        // SAFETY: the caller promises just that of `to`.
        let target = unsafe { Target::addr(to) };
        let sequence = Sequence::new().jump(target);
        let entries: Vec<Site> = function
            .sites()
            // protection: marks-are-no-entries
            .filter(|site| site.shape().kind() == SiteKind::Entry)
            .collect();
        if entries.is_empty() {
            return Err(Error::NoEntrySite {
                function: function.name().into(),
                addr: function.addr(),
            });
        }
        self.add_all(entries, Request::Redirect(&sequence), IfInvalid::Refuse)
    }

    /// Every recorded call of `function`, in all modules, goes to `to`. What is called there finds
    /// registers and stack as the function that the compiler meant would, and must be callable so.
    /// See [`Engine::load_recording`] for which calls are recorded.
    ///
    /// The calls of modules that are [live](super::Registration::live) are changed while threads
    /// make them: each goes to the old function or to the new one, and to the new one only when an
    /// [`immediate`](Self::immediate) commit has returned. A thread that is in the old function
    /// goes on there.
    ///
    /// # Safety
    /// As long as a recorded call of the function may be made, there is a function at `to` that can be called in its place: it takes
    /// the same arguments in the same places, returns the same kind of result, and keeps what the function would keep.
    ///
    /// # Errors
    /// [`Error::NoCallSite`], [`Error::SiteTwice`].
    pub unsafe fn retarget(&mut self, function: &str, to: CodeAddr) -> Result<&mut Self> {
        let sequence = calls::sequence(to);
        let calls = self.engine.calls_of(function)?;
        self.add_all(calls, Request::Retarget(&sequence), IfInvalid::Refuse)
    }

    /// Every recorded call of `function`, in all modules, goes where it was linked to.
    ///
    /// # Errors
    /// [`Error::NoCallSite`], [`Error::SiteTwice`].
    pub fn restore_calls(&mut self, function: &str) -> Result<&mut Self> {
        let calls = self.engine.calls_of(function)?;
        self.add_all(calls, RESTORE, IfInvalid::Refuse)
    }

    /// No return address points into the sites of this transaction: their return offsets need not
    /// be kept.
    pub fn grace_period(&mut self, grace_period: GracePeriod) -> &mut Self {
        self.grace_period = Some(grace_period);
        self
    }

    /// The sites' return offsets need not be kept: the world finds out whether a thread is in a
    /// site or returns there, and waits until none does, or refuses the change, as it was told.
    ///
    /// Only a world that [stops threads anywhere](crate::publish::World::stops_anywhere) looks for
    /// them.
    pub fn quiescent(&mut self) -> &mut Self {
        self.quiescent = true;
        self
    }

    /// When the commit returns, no thread begins to execute what the sites held before, of live
    /// ones too: as after an invalidation. One that is inside of a stub goes on there.
    pub fn immediate(&mut self) -> &mut Self {
        self.immediate = true;
        self
    }

    /// Adds a change of each of these sites, or, where one is refused, of none.
    fn add_all(
        &mut self,
        sites: impl IntoIterator<Item = Site>,
        change: Request<&Sequence>,
        if_invalid: IfInvalid,
    ) -> Result<&mut Self> {
        let before = self.changes.len();
        for site in sites {
            let added = self.changes.add(&site, change, if_invalid);
            self.keep_all(before, added)?;
        }
        Ok(self)
    }

    /// Keeps what was added behind the first so many, if it was.
    fn keep_all(&mut self, before: usize, added: Result<()>) -> Result<()> {
        if added.is_err() {
            // protection: what-is-refused-is-not-in-the-transaction
            self.changes.truncate(before);
        }
        added
    }

    /// Assembles and checks every change, and allocates and fills stubs and exit stubs. No site is
    /// touched.
    ///
    /// What was collected is handed on, and the transaction is as new. After an error it still has
    /// its changes, so that it can be mended and prepared again; but a [proof](Self::grace_period)
    /// holds for one attempt only.
    ///
    /// # Errors
    /// Whatever keeps a change from being made.
    pub fn prepare(&mut self) -> Result<Prepared<'e>> {
        let engine = self.engine;
        let prepared = self.with_prepared(false, |_, prepared| Ok(prepared))?;
        *self = Self::new(engine);
        Ok(prepared)
    }

    /// Prepares the changes, and does something with them under the same lock: commits them, if that is
    /// said to be at once.
    fn with_prepared<R>(
        &mut self,
        at_once: bool,
        then: impl FnOnce(&mut States, Prepared<'e>) -> Boxed<R>,
    ) -> Result<R> {
        let (engine, shared) = (self.engine, &self.engine.shared);
        shared.check_here()?;
        if self.quiescent && !shared.stops_anywhere {
            return Err(Error::WorldDoesNotLook);
        }
        // A proof that was found out holds for what is unreachable; sites are reachable.
        // protection: a-proof-is-used-up
        let promised = self
            .grace_period
            .take()
            .is_some_and(|grace_period| grace_period.is_promise());
        let conditions = Conditions {
            grace_period: promised || self.quiescent,
            at_once,
        };
        let immediate = self.immediate;
        let changes = &self.changes;
        shared.with_prepared(engine, changes, conditions, |states, mut prepared| {
            // protection: immediate-on-request
            if immediate {
                prepared.be_immediate();
            }
            then(states, prepared)
        })
    }

    /// Prepares the changes and makes them. No other change comes in between. The transaction is as
    /// new then; after an error it is as after one of [`prepare`](Self::prepare).
    ///
    /// # Errors
    /// As [`Transaction::prepare`] and [`Prepared::commit`]; no site has been changed then, unless the error is
    /// [`Error::RollBackFailed`].
    pub fn commit(&mut self) -> Result<Receipt> {
        let engine = self.engine;
        // protection: one-lock-over-prepare-and-write
        let receipt = self.with_prepared(true, |states, prepared| {
            let receipt = prepared.commit_with(states)?;
            states.file();
            Ok(receipt)
        })?;
        *self = Self::new(engine);
        Ok(receipt)
    }
}

impl fmt::Debug for Transaction<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut map = f.debug_map();
        let listed = self.changes.try_each(|site, change, _, _| {
            map.entry(&site.into_site(), &change);
            Ok(0)
        });
        listed.map_err(|_| fmt::Error)?;
        map.finish()
    }
}
