//! The engine: registered modules, and every change of their sites.
//!
//! Problem: a change touches many sites, in memories that are written in different ways, while code
//! that was there before may still be returned to; it must be made whole or not at all. Approach: a
//! change goes through three types, each of which consumes the one before. A [`Transaction`]
//! collects what is asked for; [`Transaction::prepare`] assembles, places stubs and exit stubs, and
//! checks, so that everything that can be refused has been; [`Prepared::commit`] stops the world,
//! compares, writes, publishes and reads back.
//!
//! Every change takes the same six steps, whatever kind of site it is of:
//!
//! | step | what it does | where |
//! |---|---|---|
//! | look up | finds the sites of an ID, or of a function | `site`'s table |
//! | lower | finds the template of the sequence for this kind of site, or assembles it | `prepare`, `templates`, `lower`; `live`, `calls` |
//! | check | decodes what was assembled; of a template once, its holes open | `prepare`, by [`verify`](crate::verify) |
//! | fill | puts the values into the holes, each within the range of its hole | `templates` |
//! | apply | compares, writes or exchanges, publishes, reads back, or rolls back | `commit`, `write`, `live` |
//! | record | makes it the state of the sites, tells observers, fills the journal | `commit`, `state`, `journal` |
//!
//! Between the fourth and the fifth there is one list: what is to become of each site, and which
//! bytes are written for that, see `change`; many sites that get the same together are in it as one,
//! see `batch`.
//!
//! Invariants: what the engine believes a site to hold is compared with what it does hold before it
//! is overwritten; a site that is invalidated stays so; offsets to which a return address may point
//! stay instruction boundaries followed by nops only; a stub is freed only when nothing branches or
//! returns to it.
//!
//! Sites of live modules are changed without a stop, see `live`; what they branched to is freed
//! when every attached thread has left it, see `retire`.
//!
//! One lock serializes changes, see `lock`; where threads meet, they assemble without it. It is not
//! held while handlers run, so a handler may change sites, its own too. A thread that waits for the
//! lock must count as stopped for the runtime's [`World`].
//!
//! In a fork's child every change is refused by [`memory::Error::EngineForked`] before the lock is
//! taken, which a thread of the parent may have there for ever. Sites, functions and modules are
//! found as ever; what is asked of their state is answered unless the lock was held when the child
//! was made (see the methods).

mod batch;
mod builder;
mod calls;
mod change;
mod commit;
pub(crate) mod error;
mod exit_stub;
mod exits;
mod fault;
mod installed;
mod journal;
mod live;
mod load;
mod lock;
mod lower;
mod mirroring;
mod module;
mod observe;
mod originals;
mod plan;
mod prepare;
mod requests;
mod retire;
mod state;
mod state_table;
mod stubs;
mod templates;
#[cfg(test)]
mod tests;
mod transaction;
mod write;

use std::fmt;
use std::ops::Range;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

pub use batch::AlikeSites;
pub use builder::EngineBuilder;
pub use commit::Prepared;
pub use exits::{
    ExitBlock, ExitBlocks, ExitCode, ExitRequest, ExitResumption, Exits, Moved, Role, SavedFrame, StackAt,
};
pub use journal::JournalEntry;
pub use live::Settled;
pub use load::{LoadedCode, Registration};
pub use lock::LockStats;
pub use mirroring::Mirroring;
pub use observe::{Changed, CodeKind, Event, Observer, Placed, Reclaimed, Refused};
pub use state::Status;
pub use transaction::Transaction;

use crate::addr::{CodeAddr, CodeRange, RecordId};
use crate::arch::Arch;
use crate::memory::fork::Birth;
use crate::memory::fork::gate::Writing;
use crate::memory::{self, Arena, Counter, SharedCounters, StubPool, StubStats};
use crate::publish::{
    Attached, Epochs, GracePeriod, Keyed, Level, Moment, Publisher, QuiescentState, ThreadHandle, World,
};
use crate::sequence::Sequence;
use crate::site::{Function, Module, ModuleId, Owner, Site, SiteTable, Sites};
use crate::{Error, Result};
use exit_stub::{ExitStub, ExitStubList};
use installed::Stub;
use lock::Contention;
use observe::Observers;
use prepare::Conditions;
use requests::{ById, IfInvalid, Invalidations, Named, One, Request};
use retire::{RetiredCode, Until};
use state::States;

/// Patches the sites of registered modules. Cloning clones a handle.
#[derive(Clone)]
pub struct Engine {
    shared: Arc<Shared>,
}

/// Names an engine without keeping it: what a handler holds that the engine owns.
#[derive(Clone)]
pub struct WeakEngine {
    shared: Weak<Shared>,
}

impl WeakEngine {
    /// The engine, if it still exists.
    #[must_use]
    pub fn upgrade(&self) -> Option<Engine> {
        self.shared.upgrade().map(|shared| Engine { shared })
    }

    /// Whether it names this engine.
    #[must_use]
    pub fn names(&self, engine: &Engine) -> bool {
        std::ptr::eq(self.shared.as_ptr(), Arc::as_ptr(&engine.shared))
    }
}

impl fmt::Debug for WeakEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WeakEngine")
    }
}

struct Shared {
    /// What its modules know of it.
    owner: Arc<Owner>,
    arch: Arch,
    /// Changes are made by the process that made the engine.
    birth: Birth,
    world: Box<dyn World>,
    /// How the world's threads learn of a change: those that serialize before they run code again
    /// need no barrier, not even for an invalidation.
    level: Level,
    /// Whether the world stops threads at any instruction.
    stops_anywhere: bool,
    publisher: Publisher,
    /// Whether the code is executed in a mirror.
    is_mirrored: bool,
    counters: SharedCounters,
    exits: Option<Box<dyn Exits>>,
    observers: Observers,
    table: Keyed<SiteTable>,
    states: Mutex<States>,
    contention: Contention,
    /// What a test does between lowering ahead and preparing.
    #[cfg(test)]
    when_ahead: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    epochs: Epochs,
    stubs: StubPool,
    arena: Arena,
    /// How many bytes a loaded image may have, where the caller has said so.
    image_limit: Option<u64>,
    next_module: AtomicU32,
}

/// What a committed transaction has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Receipt {
    /// How many sites were written. Sites that already were as asked for are not.
    pub sites: usize,
    /// How many sites of an ID were left as they are, as they have been invalidated.
    /// [`Prepared::invalidated`] names them.
    pub invalidated: usize,
}

impl Engine {
    /// Starts to describe an engine.
    #[must_use]
    pub fn builder() -> EngineBuilder {
        EngineBuilder::default()
    }

    /// A name that does not keep the engine.
    #[must_use]
    pub fn downgrade(&self) -> WeakEngine {
        WeakEngine {
            shared: Arc::downgrade(&self.shared),
        }
    }

    /// Starts a transaction.
    pub fn transaction(&self) -> Transaction<'_> {
        Transaction::new(self)
    }

    /// Writes the sequence into every valid site with that ID. Those that have been invalidated
    /// stay so, and the [receipt](Receipt::invalidated) counts them.
    ///
    /// # Errors
    /// [`Error::NoSuchSite`]; [`Error::SiteInvalidated`] if all have been invalidated; and as [`Transaction::commit`].
    pub fn patch(&self, id: impl Into<RecordId>, sequence: &Sequence) -> Result<Receipt> {
        self.patch_record(id.into(), sequence)
    }

    /// Not generic: what a patch does is compiled here, as one unit, and not where it is called.
    fn patch_record(&self, id: RecordId, sequence: &Sequence) -> Result<Receipt> {
        self.change(ById(id, Request::Patch(sequence)))
    }

    /// Changes one site, which somebody has named.
    fn change_one(&self, site: &Site, request: Request<&Sequence>) -> Result<Receipt> {
        self.change(One(site, request))
    }

    /// Writes the sequence into one site.
    ///
    /// # Errors
    /// As [`Transaction::commit`].
    pub fn patch_site(&self, site: &Site, sequence: &Sequence) -> Result<Receipt> {
        self.change_one(site, Request::Patch(sequence))
    }

    /// Changes sites that are different ones, as a transaction of them does, but without collecting
    /// them.
    fn change<'s>(&self, changes: impl Named<'s>) -> Result<Receipt> {
        // protection: one-lock-over-a-patch
        let conditions = Conditions {
            grace_period: false,
            at_once: true,
        };
        self.shared
            .with_prepared(self, changes, conditions, |states, prepared| {
                let receipt = prepared.commit_with(states)?;
                states.file();
                Ok(receipt)
            })
    }

    /// Invalidates sites with records, by those that follow each other in a module: none of them is there twice.
    ///
    /// # Errors
    /// As [`Transaction::commit`].
    pub(crate) fn invalidate_sites(&self, sites: &[(&Module, Range<u32>)]) -> Result<Receipt> {
        self.change(Invalidations(sites))
    }

    /// Assembles and checks the sequence for every site with that ID, for a look at it, and to be
    /// committed.
    ///
    /// # Errors
    /// [`Error::NoSuchSite`], and as [`Transaction::prepare`].
    pub fn plan(&self, id: impl Into<RecordId>, sequence: &Sequence) -> Result<Prepared<'_>> {
        self.transaction().patch(id, sequence)?.prepare()
    }

    /// Puts the original bytes back into every valid site with that ID. Those that have been
    /// invalidated stay so, and the [receipt](Receipt::invalidated) counts them.
    ///
    /// # Errors
    /// [`Error::NoSuchSite`]; [`Error::SiteInvalidated`] if all have been invalidated; and as [`Transaction::commit`].
    pub fn restore(&self, id: impl Into<RecordId>) -> Result<Receipt> {
        self.change(ById(id.into(), Request::Restore))
    }

    /// Puts the original bytes back into one site.
    ///
    /// # Errors
    /// [`Error::SiteInvalidated`], and as [`Transaction::commit`].
    pub fn restore_site(&self, site: &Site) -> Result<Receipt> {
        self.change_one(site, Request::Restore)
    }

    /// Makes every patchpoint, shadow and told site of the function go to the handler of [`Role::Deopt`],
    /// for good. A function that is invalidated already stays as it is.
    ///
    /// # Errors
    /// [`Error::NoHandler`] without such a handler; [`Error::NothingToInvalidate`] if the function has none; and as
    /// [`Transaction::commit`].
    pub fn invalidate(&self, function: &Function) -> Result<Receipt> {
        self.transaction().invalidate(function)?.commit()
    }

    /// Makes the function's entry sites jump to `to`: nobody enters its code any more. One that
    /// jumps there already stays as it is. See [`Transaction::redirect`].
    ///
    /// # Safety
    /// As for [`Transaction::redirect`].
    ///
    /// # Errors
    /// [`Error::NoEntrySite`], and as [`Transaction::commit`].
    #[allow(unsafe_code, reason = "an address is a promise")]
    pub unsafe fn redirect(&self, function: &Function, to: CodeAddr) -> Result<Receipt> {
        let mut change = self.transaction();
        // SAFETY: the caller promises the same.
        unsafe { change.redirect(function, to) }?.commit()
    }

    /// Makes one site go to the handler of [`Role::Deopt`], for good. One that does already stays
    /// as it is.
    ///
    /// # Errors
    /// As [`invalidate`](Self::invalidate).
    pub fn invalidate_site(&self, site: &Site) -> Result<Receipt> {
        self.change_one(site, Request::Invalidate)
    }

    /// The sites with that ID.
    ///
    /// # Errors
    /// [`Error::NoSuchSite`].
    pub fn sites(&self, id: impl Into<RecordId>) -> Result<Sites> {
        self.sites_of(id.into())
    }

    // As a call of its own it would copy the sites once more.
    #[inline(always)]
    fn sites_of(&self, id: RecordId) -> Result<Sites> {
        let sites = self.shared.table.read().by_id(id);
        sites.ok_or_else(|| Error::NoSuchSite { id })
    }

    /// The site that contains `addr`.
    #[must_use]
    pub fn site_at(&self, addr: CodeAddr) -> Option<Site> {
        self.shared.table.read().by_addr(addr)
    }

    /// The module whose code contains `addr`.
    #[must_use]
    pub fn module_at(&self, addr: CodeAddr) -> Option<Module> {
        self.shared.table.read().module_at(addr).cloned()
    }

    /// The function that contains `addr`.
    #[must_use]
    pub fn function_at(&self, addr: CodeAddr) -> Option<Function> {
        self.shared.table.read().module_at(addr)?.function_at(addr)
    }

    /// The site one of whose stubs or exit stubs contains `addr`. Takes time in the number of
    /// changed sites. None in a fork's child whose parent was changing sites.
    #[must_use]
    pub fn site_of_stub(&self, addr: CodeAddr) -> Option<Site> {
        let states = self.shared.look()?;
        let key = states.site_of_stub(addr)?;
        self.shared.table.read().get(key)
    }

    /// The registered modules, in no particular order.
    #[must_use]
    pub fn modules(&self) -> Vec<Module> {
        self.shared.table.read().modules().cloned().collect()
    }

    /// What a site holds. One that is not registered with this engine has not been changed by
    /// it. In a fork's child whose parent was changing sites, [`Status::Lost`]: it is not known.
    #[must_use]
    pub fn status(&self, site: &Site) -> Status {
        let Some(mut states) = self.shared.look() else {
            return Status::Lost;
        };
        let state = states.of(site);
        state.map_or(Status::Original, |state| state.installed.status)
    }

    /// A counter for code of this engine's to count in.
    ///
    /// # Errors
    /// As [`Arena::place`], where the code is executed in a mirror.
    pub(crate) fn counter(&self) -> Result<Counter> {
        self.check_here()?;
        match self.shared.is_mirrored {
            // protection: mirrored-counters-are-shared
            true => Ok(self.shared.counters.make(&self.shared.arena)?),
            false => Ok(Counter::own()),
        }
    }

    /// How much memory stubs and exit stubs use.
    #[must_use]
    pub fn stub_stats(&self) -> StubStats {
        self.shared.stubs.stats()
    }

    /// How many bytes of stubs and exit stubs the site has now. 0 in a fork's child whose parent
    /// was changing sites.
    #[must_use]
    pub fn stub_bytes(&self, site: &Site) -> u64 {
        let Some(mut states) = self.shared.look() else {
            return 0;
        };
        let state = states.of(site);
        state.map_or(0, |state| state.code().map(|range| range.len()).sum())
    }

    /// How many bytes of stubs and exit stubs of the site have been freed since it was
    /// registered. 0 in a fork's child whose parent was changing sites.
    #[must_use]
    pub fn reclaimed_bytes(&self, site: &Site) -> u64 {
        let Some(mut states) = self.shared.look() else {
            return 0;
        };
        let state = states.of(site);
        state.map_or(0, |state| state.lasting.reclaimed)
    }

    /// The last changes that were committed, oldest first; how many is said [when it is
    /// built](EngineBuilder::journal). None in a fork's child whose parent was changing sites.
    #[must_use]
    pub fn journal(&self) -> Vec<JournalEntry> {
        let Some(mut states) = self.shared.look() else {
            return Vec::new();
        };
        let mut entries = states.journal_entries();
        drop(states);
        let table = self.shared.table.read();
        for entry in &mut entries {
            entry.name = table.get(entry.site).map(|site| site.name());
        }
        entries
    }

    /// Makes this thread one of those for which [`reclaim_passed`](Self::reclaim_passed) waits.
    #[must_use = "dropping the handle detaches the thread"]
    pub fn attach_thread(&self) -> ThreadHandle {
        ThreadHandle::new(&self.shared.epochs)
    }

    /// Frees the stubs that nothing branches to any more and that every attached thread has since
    /// left, as [its reports](ThreadHandle) say. Returns how many there were. Nothing waits: a stub
    /// that was retired since the last call is freed by the next one after the reports, at the
    /// earliest. A call that finds such stubs makes every core serialize, once.
    ///
    /// Only stubs of [live](Registration::live) modules: threads that execute others need not be
    /// attached. What is [retired](Self::retired) of those, stubs with calls, is freed by
    /// [`reclaim`](Self::reclaim).
    ///
    /// # Errors
    /// [`publish::Error::NoBarrier`](crate::publish::Error::NoBarrier) where other threads cannot be made to serialize: the stubs are kept.
    pub fn reclaim_passed(&self, _attached: &Attached) -> Result<usize> {
        let shared = &self.shared;
        shared.with_states(|states| {
            if states.retired.has_fresh() {
                // protection: barrier-before-an-epoch
                let published = shared.publisher.publish(&[], Level::Immediate);
                published.map_err(Error::from)?;
                // protection: reports-before-the-retirement-do-not-count
                states.retired.stamp(shared.epochs.advance());
            }
            let passed = states.retired.take_passed(shared.epochs.passed());
            shared.announce_reclaimed(states, &passed);
            let count = passed.len();
            let room = states.live_room.get_mut();
            for retired_code in passed {
                shared.stubs.discard(retired_code.into_slot(room));
            }
            Ok(count)
        })
    }

    /// The stubs that nothing branches to any more but in which, or in whose callees, threads may
    /// still be: what to ask about before [`reclaim`](Self::reclaim). None in a fork's child whose
    /// parent was changing sites.
    #[must_use]
    pub fn retired(&self) -> Vec<CodeRange> {
        let Some(states) = self.shared.look() else {
            return Vec::new();
        };
        states.retired.iter().map(RetiredCode::range).collect()
    }

    /// Frees the stubs that nothing branches to any more but into which a callee could have
    /// returned. Returns how many there were. Stubs that the proof does not cover are kept, and
    /// stubs in which an exit resumes that it does not cover.
    ///
    /// # Errors
    /// The memory refuses; the stubs are lost then.
    pub fn reclaim(&self, grace_period: &GracePeriod) -> Result<usize> {
        let is_covered_by = |retired_code: &RetiredCode| retired_code.is_covered_by(grace_period);
        let shared = &self.shared;
        shared.with_states(|states| {
            let retired = states.retired.take_where(is_covered_by);
            shared.announce_reclaimed(states, &retired);
            let (count, room) = (retired.len(), states.live_room.get_mut());
            retired
                .into_iter()
                .map(|retired_code| shared.stubs.free(retired_code.into_slot(room), grace_period))
                .fold(Ok(()), memory::Result::and)
                .map_err(Error::from)?;
            Ok(count)
        })
    }

    /// Forgets a module, its stubs and exit stubs. If the engine loaded its code, that is unloaded
    /// when the last handle of the module, a site or a function of it is gone. Adopted code stays where it is, with the bytes
    /// that it has then: where it is to go on running, restore its sites before, as what they branch to is freed. That is not enough
    /// for sites that held more than nops and were made [live](Registration::live) before their code ran: restored, they branch
    /// to what they held, in a stub.
    ///
    /// # Errors
    /// [`Error::ModuleForeign`] for one that is not registered here; [`memory::Error::NoGracePeriod`] for a proof that was found
    /// by asking threads rather than promised.
    pub fn unregister(&self, module: Module, grace_period: &GracePeriod) -> Result<()> {
        // What was found out about some ranges says nothing of a module, to which its functions still refer.
        // protection: unregister-needs-a-promise
        if let Some(area) = module.areas().first().filter(|_| !grace_period.is_promise()) {
            return Err(Error::Memory(crate::memory::Error::NoGracePeriod {
                range: area.range(),
            }));
        }
        self.shared
            .with_states(|states| Ok(self.shared.unregister(states, &module, grace_period)?))
    }

    fn next_module(&self) -> ModuleId {
        ModuleId(
            self.shared
                .next_module
                .fetch_add(1, std::sync::atomic::Ordering::Relaxed),
        )
    }
}

impl Engine {
    /// Refuses in a fork's child.
    #[inline]
    pub(crate) fn check_here(&self) -> Result<()> {
        self.shared.check_here()
    }
}

impl Shared {
    fn unregister(&self, states: &mut States, module: &Module, grace_period: &GracePeriod) -> Result<()> {
        // protection: room-holds-no-memory
        states.drop_room();
        states.exit_rooms.get_mut().give_back(&self.stubs);
        // protection: settling-holds-no-memory
        states.settling.retain(|settling| !settling.is_of(module.id()));
        let removed = self.change_table(states, |table| table.remove(module));
        removed.ok_or(Error::ModuleForeign)?;
        if let Some(exits) = &self.exits {
            exits.forget(module.id());
        }
        if module.is_live() {
            module
                .sites()
                // protection: trap-goes-with-its-module
                .for_each(|site| live::forget_trap(&self.publisher, &site));
        }
        let since = (Moment::now(), self.observers.now());
        let mut slots = Vec::new();
        for code in states.remove(module) {
            slots.extend(code.slots);
            for stub in code.stubs {
                // protection: what-an-exit-resumes-to-outlives-its-module
                match stub.is_referenced() {
                    // By an exit that is retired: it goes with that.
                    true => {
                        let until = Until::Reported(QuiescentState::Quiescent);
                        states.retired.retire(until, RetiredCode::stub(stub, since));
                    }
                    false => slots.push((stub.owner, stub.slot)),
                }
            }
        }
        for (owner, slot) in &slots {
            self.observers.reclaimed(*owner, slot.range(), None);
        }
        if self.observers.any() {
            self.observers.tell(&Event::Unregistered { module });
        }
        // A slot that is refused does not keep the others from being freed.
        let freed = slots
            .into_iter()
            .map(|(_, slot)| self.stubs.free(slot, grace_period));
        Ok(freed.fold(Ok(()), memory::Result::and)?)
    }

    /// Notes and tells that retired code is about to be reclaimed.
    fn announce_reclaimed(&self, states: &mut States, retired: &[RetiredCode]) {
        for retired_code in retired {
            let site = self
                .table
                .read_with(&states.table_key)
                .get(retired_code.owner().site);
            // One that is gone counts nothing.
            if let Some(index) = site.and_then(|site| states.index_if_changed(&site)) {
                states.note_reclaimed(index, retired_code.range());
            }
        }
        for retired_code in retired {
            retired_code.tell(&self.observers);
        }
    }

    #[inline]
    fn check_here(&self) -> Result<()> {
        match self.birth.is_here() {
            true => Ok(()),
            false => Err(Error::Memory(crate::memory::Error::EngineForked)),
        }
    }

    /// Changes the table of sites. No fork comes in between: its child could not look anything up.
    fn change_table<T>(&self, states: &mut States, change: impl FnOnce(&mut SiteTable) -> T) -> T {
        let _writing = Writing::enter();
        change(&mut self.table.write(&mut states.table_key))
    }

    fn check_registered(&self, site: &Site) -> Result<()> {
        check_has(&self.table.read(), (site.module(), site.index()))
    }

    /// The same for who has the states.
    fn check_registered_with(&self, states: &States, site: (&Module, u32)) -> Result<()> {
        check_has(self.table.read_with(&states.table_key), site)
    }

    /// Frees what was allocated for a change that was not made: nothing has ever branched to it.
    fn release(&self, exit_stubs: ExitStubList, stub: Option<Box<Stub>>) {
        let slots = exit_stubs
            .into_iter()
            .map(ExitStub::into_slot)
            .chain(stub.map(|stub| stub.slot));
        for slot in slots {
            self.stubs.discard(slot);
        }
    }
}

fn check_has(table: &SiteTable, (module, index): (&Module, u32)) -> Result<()> {
    match table.has(module) {
        true => Ok(()),
        false => Err(Error::Site(module.foreign(index))),
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("arch", &self.shared.arch)
            .field("world", &self.shared.world)
            .field("modules", &self.shared.table.read().modules().count())
            .field("stubs", &self.shared.stubs.stats())
            .finish()
    }
}
