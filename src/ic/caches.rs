//! All caches of a runtime: what they have in common, the way in from a miss, and changes of many
//! at once.

#![allow(unsafe_code, reason = "Exits is an unsafe trait")]

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, MutexGuard, RwLock};

use super::builder::{CachesBuilder, Settings};
use super::cache::{Cache, Cell, Inner, NextState, is_final};
use super::entry::{Entry, Key};
use super::hash::WordHash;
use super::miss::{Learn, Lookup, Miss};
#[cfg(doc)]
use super::policy::Policy;
use super::shared::{SharedCache, SharedStats};
use super::stats::{CacheStats, Totals};
use crate::addr::{CodeAddr, Len, RecordId};
use crate::deopt::{Answer, ExitStubs, Frame};
use crate::engine::{
    Engine, ExitBlocks, ExitCode, ExitRequest, ExitResumption, Exits, Role, SavedFrame, WeakEngine,
};
use crate::memory::BlockForm;
use crate::memory::fork::gate::Writing;
use crate::publish::{Attached, Epochs, GracePeriod, Level};
use crate::site::{ModuleId, Site};
use crate::{Error, Result};

/// The inline caches of an engine. Cloning clones a handle.
#[derive(Clone)]
pub struct Caches {
    shared: Arc<Shared>,
}

struct Shared {
    lookup: Box<dyn Lookup>,
    settings: Settings,
    shared_cache: Option<SharedCache>,
    /// The engine's, by which it is known when records of the shared cache can be freed.
    epochs: OnceLock<Epochs>,
    /// The engine whose sites have the caches, once one has.
    engine: OnceLock<WeakEngine>,
    cells: RwLock<HashMap<CodeAddr, Arc<Cell>, WordHash>>,
    /// The sites with an entry that depends, or depended, on a key.
    keys: Mutex<HashMap<Key, BTreeSet<CodeAddr>, WordHash>>,
    /// How often entries have been retracted: what was looked up before is not installed after.
    retractions: AtomicU64,
}

/// What a retraction or reset has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retracted {
    /// How many caches have lost entries.
    pub caches: usize,
    /// How many entries of the shared cache are gone.
    pub shared: usize,
}

impl Caches {
    /// Starts to describe caches.
    #[must_use]
    pub fn builder() -> CachesBuilder {
        CachesBuilder::new()
    }

    pub(super) fn made(
        lookup: Box<dyn Lookup>,
        settings: Settings,
        shared_cache: Option<SharedCache>,
    ) -> Self {
        Self {
            shared: Arc::new(Shared {
                lookup,
                settings,
                shared_cache,
                epochs: OnceLock::new(),
                engine: OnceLock::new(),
                cells: RwLock::default(),
                keys: Mutex::default(),
                retractions: AtomicU64::new(0),
            }),
        }
    }

    /// The exits of an engine that has these caches, without a handler of deoptimizations.
    #[must_use]
    pub fn exit_stubs(&self) -> impl Exits + use<> {
        self.exits(ExitStubs::new())
    }

    /// The exits of an engine that has these caches, and the other handlers of these exit stubs.
    /// Their handler of misses is replaced.
    #[must_use]
    pub fn exits(&self, exit_stubs: ExitStubs) -> impl Exits + use<> {
        let shared = Arc::clone(&self.shared);
        CacheExits {
            exit_stubs: match self.shared.settings.whole_frames {
                true => exit_stubs.on_miss(move |frame| shared.miss(frame)),
                false => exit_stubs.on_live_register_miss(move |frame| shared.miss(frame)),
            },
            caches: Arc::clone(&self.shared),
        }
    }

    /// Gives a patchpoint a cache, which is empty: every execution goes to the lookup. A site that
    /// has one keeps it.
    ///
    /// # Errors
    /// [`Error::CacheEngine`] for another engine than before; and as [`Engine::patch_site`]: nothing has changed then.
    pub fn attach(&self, engine: &Engine, site: &Site) -> Result<Cache> {
        engine.check_here()?;
        self.shared.bind(engine, site)?;
        let cell = {
            let _writing = Writing::enter();
            let mut cells = self.shared.cells.write();
            if let Some(cell) = cells.get(&site.addr()) {
                return Ok(Cache(Arc::clone(cell)));
            }
            let cell = Arc::new(Cell::new(site.clone()));
            cells.insert(site.addr(), Arc::clone(&cell));
            cell
        };
        let inner = cell.lock();
        let patched = engine.patch_site(site, &Inner::empty().sequence);
        drop(inner);
        if let Err(error) = patched {
            let _writing = Writing::enter();
            self.shared.cells.write().remove(&site.addr());
            return Err(error);
        }
        Ok(Cache(cell))
    }

    /// Gives every site with that ID a cache.
    ///
    /// # Errors
    /// [`Error::NoSuchSite`], and as [`attach`](Self::attach); the sites before the one that is refused have theirs.
    pub fn attach_all(&self, engine: &Engine, id: impl Into<RecordId>) -> Result<Vec<Cache>> {
        let sites = engine.sites(id)?;
        sites.iter().map(|site| self.attach(engine, site)).collect()
    }

    /// The cache of a site.
    #[must_use]
    pub fn at(&self, site: &Site) -> Option<Cache> {
        self.shared.cells.read().get(&site.addr()).cloned().map(Cache)
    }

    /// Takes every entry back that depends on one of these keys, from all caches, in one
    /// transaction. When it returns, no thread begins to execute one any more; see the
    /// [module](super) for those that have begun.
    ///
    /// # Errors
    /// As [`Transaction::commit`](crate::engine::Transaction::commit): all entries are still there then.
    pub fn retract(&self, keys: &[Key]) -> Result<Retracted> {
        let shared = &self.shared;
        shared.check_here()?;
        shared.retractions.fetch_add(1, Ordering::SeqCst);
        let addrs = shared.dependents(keys);
        let done = shared.change(&addrs, Level::Immediate, |cell, inner| {
            let plan = || inner.without(cell, keys, &shared.settings);
            inner.depends_on(keys).then(plan).transpose()
        });
        if done.is_err() {
            keys.iter()
                .for_each(|key| shared.index(*key, addrs.iter().copied()));
        }
        let mut done = done?;
        // Last: see `shared`.
        // protection: retraction-reaches-the-shared-cache
        done.shared = shared
            .shared_cache
            .as_ref()
            .map_or(0, |shared| shared.retract(keys));
        Ok(done)
    }

    /// Empties all caches, megamorphic ones and the shared one too, in one transaction. They learn
    /// again at once.
    ///
    /// # Errors
    /// As [`retract`](Self::retract).
    pub fn reset(&self) -> Result<Retracted> {
        self.shared.check_here()?;
        self.shared.retractions.fetch_add(1, Ordering::SeqCst);
        let addrs: BTreeSet<CodeAddr> = self.shared.cells.read().keys().copied().collect();
        let empty = |_: &Cell, _: &Inner| Ok(Some(Inner::empty()));
        let mut done = self.shared.change(&addrs, Level::Immediate, empty)?;
        done.shared = self.shared.shared_cache.as_ref().map_or(0, SharedCache::clear);
        Ok(done)
    }

    /// Empties one cache. What it has put into the shared cache stays there.
    ///
    /// # Errors
    /// As [`retract`](Self::retract).
    pub fn reset_one(&self, cache: &Cache) -> Result<Retracted> {
        self.shared.check_here()?;
        self.shared.retractions.fetch_add(1, Ordering::SeqCst);
        let addrs = BTreeSet::from([cache.site().addr()]);
        self.shared
            .change(&addrs, Level::Immediate, |_, _| Ok(Some(Inner::empty())))
    }

    /// Puts the chains in order whose entries are hit in another than the one in which they are
    /// tested, where the policy [says](Policy::reorders) that this pays: the most frequent first,
    /// by the hits since the last time. One transaction, for all of them. Only caches that
    /// [count](CachesBuilder::counting) are looked at; one that is being changed is left for the
    /// next call. Call it now and then, where [`Engine::reclaim_passed`] is called.
    ///
    /// # Errors
    /// As [`Transaction::commit`](crate::engine::Transaction::commit): all chains are as they were then.
    pub fn reorder(&self) -> Result<usize> {
        let shared = &self.shared;
        shared.check_here()?;
        let plan = |cell: &Cell, inner: &Inner| inner.reordered(cell, &shared.settings);
        let mut addrs = BTreeSet::new();
        for (addr, cell) in &*shared.cells.read() {
            if let Some(inner) = cell.try_lock() {
                if plan(cell, &inner)?.is_some() {
                    addrs.insert(*addr);
                }
            }
        }
        // Either order is right.
        Ok(shared.change(&addrs, Level::Eventual, plan)?.caches)
    }

    /// Frees the memory of retracted entries of the shared cache that every attached thread has
    /// since left, as its reports say; how many there were. None where a module that is not live has
    /// a site that looks into the shared cache: see [`reclaim`](Self::reclaim) for those.
    ///
    /// # Errors
    /// In a fork's child.
    pub fn reclaim_passed(&self, _attached: &Attached) -> Result<usize> {
        self.shared.check_here()?;
        let both = (self.shared.shared_cache.as_ref(), self.shared.epochs.get());
        let (Some(shared), Some(epochs)) = both else {
            return Ok(0);
        };
        Ok(shared.reclaim_passed(epochs))
    }

    /// Frees the memory of all retracted entries of the shared cache; how many there were. The
    /// promise is about every site that has a cache: no thread has been in one, or in its stub, since
    /// before the retraction.
    ///
    /// # Errors
    /// [`NoGracePeriod`](crate::memory::Error::NoGracePeriod) for a proof that was found by asking threads rather than
    /// promised; and in a fork's child.
    pub fn reclaim(&self, grace_period: &GracePeriod) -> Result<usize> {
        self.shared.check_here()?;
        let Some(shared) = &self.shared.shared_cache else {
            return Ok(0);
        };
        // protection: shared-records-need-a-promise
        if !grace_period.is_promise() {
            let range = shared.range();
            return Err(Error::Memory(crate::memory::Error::NoGracePeriod { range }));
        }
        Ok(shared.reclaim())
    }

    /// The figures of the shared cache; `None` without one, and in a fork's child whose parent was
    /// changing it.
    #[must_use]
    pub fn shared_stats(&self) -> Option<SharedStats> {
        self.shared.shared_cache.as_ref().and_then(SharedCache::stats)
    }

    /// The figures of one cache.
    #[must_use]
    pub fn stats(&self, cache: &Cache) -> CacheStats {
        cache.0.stats(self.shared.engine().as_ref())
    }

    /// The figures of all caches.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let engine = self.shared.engine();
        let cells: Vec<Arc<Cell>> = self.shared.cells.read().values().cloned().collect();
        let mut totals = Totals::default();
        for cell in cells {
            totals.add(&cell.stats(engine.as_ref()));
        }
        totals.reclaimed = engine.map_or(0, |engine| engine.stub_stats().reclaimed);
        totals
    }
}

impl Shared {
    fn engine(&self) -> Option<Engine> {
        self.engine.get().and_then(WeakEngine::upgrade)
    }

    /// Refuses in a fork's child, where a thread of the parent may have a lock for ever.
    fn check_here(&self) -> Result<()> {
        self.engine().map_or(Ok(()), |engine| engine.check_here())
    }

    fn bind(&self, engine: &Engine, site: &Site) -> Result<()> {
        // No fork comes in between, whose child could not look the engine up.
        let _writing = Writing::enter();
        let bound = self.engine.get_or_init(|| engine.downgrade());
        // protection: one-engine-for-caches
        if !bound.names(engine) {
            return Err(Error::CacheEngine { site: site.name() });
        }
        if self.shared_cache.is_some() {
            self.epochs
                .get_or_init(|| engine.attach_thread().epochs().clone());
        }
        Ok(())
    }

    // ---- misses ----

    fn miss<'f>(&self, frame: &mut Frame<'f>) -> Answer<'f> {
        let cell = self.cells.read().get(&frame.pc()).cloned();
        let seen = self.retractions.load(Ordering::SeqCst);
        if let Some(cell) = &cell {
            cell.misses.fetch_add(1, Ordering::Relaxed);
        }
        let mut miss = Miss {
            frame,
            site: cell.as_ref().map(|cell| &cell.site),
        };
        match self.lookup.lookup(&mut miss) {
            Learn::Leave(answer) => return answer,
            Learn::Nothing => {}
            Learn::Entry(entry) => {
                if let Some(cell) = &cell {
                    self.learn(cell, entry, seen);
                }
            }
        }
        frame.resume()
    }

    /// Installs what a lookup has found that began after `seen` retractions. Another thread that is
    /// changing the cache is not waited for: this execution has its result already.
    fn learn(&self, cell: &Cell, entry: Entry, seen: u64) {
        let Some(engine) = self.engine().filter(|engine| engine.check_here().is_ok()) else {
            return;
        };
        let Some(mut inner) = cell.try_lock() else {
            return;
        };
        // A retraction that comes now finds the site, and waits for the lock; one that came before
        // is seen.
        for key in entry.keys() {
            // protection: entry-is-indexed
            self.index(*key, [cell.site.addr()]);
        }
        // protection: lookup-before-a-retraction
        if self.retractions.load(Ordering::SeqCst) != seen {
            return;
        }
        let known = (&self.settings, self.shared_cache.as_ref());
        match inner.learn(&engine, cell, entry, known) {
            Ok(None) => {}
            Ok(Some(mut next)) => match self.install(&engine, (cell, &mut inner), &mut next) {
                Ok(()) => inner.become_next(cell, next),
                Err(why) => inner.refused(cell, why),
            },
            Err(why) => inner.refused(cell, why),
        }
    }

    /// Patches the site to what its cache becomes. One that refuses its probe does without.
    fn install(
        &self,
        engine: &Engine,
        (cell, inner): (&Cell, &mut Inner),
        next: &mut NextState,
    ) -> Result<()> {
        match engine.patch_site(&cell.site, &next.sequence) {
            Ok(_) => {}
            // protection: sites-that-refuse-a-probe-do-without
            Err(why) if next.has_probe() && !is_final(&why) => {
                inner.probe_refused(why);
                *next = Inner::generic(cell, &self.settings);
                engine.patch_site(&cell.site, &next.sequence)?;
            }
            Err(why) => return Err(why),
        }
        Ok(())
    }

    // ---- changes of many ----

    fn index(&self, key: Key, addrs: impl IntoIterator<Item = CodeAddr>) {
        self.keys.lock().entry(key).or_default().extend(addrs);
    }

    /// The sites that may have entries that depend on the keys. They are forgotten.
    fn dependents(&self, keys: &[Key]) -> BTreeSet<CodeAddr> {
        let mut index = self.keys.lock();
        keys.iter()
            .filter_map(|key| index.remove(key))
            .flatten()
            .collect()
    }

    /// Changes the caches at these addresses as planned, in one transaction.
    fn change(
        &self,
        addrs: &BTreeSet<CodeAddr>,
        level: Level,
        plan: impl Fn(&Cell, &Inner) -> Result<Option<NextState>>,
    ) -> Result<Retracted> {
        let Some(engine) = self.engine() else {
            return Ok(Retracted::default());
        };
        let cells: Vec<Arc<Cell>> = {
            let all = self.cells.read();
            addrs.iter().filter_map(|addr| all.get(addr)).cloned().collect()
        };
        // In ascending address, as everybody who locks more than one.
        let mut locked: Vec<(&Cell, MutexGuard<'_, Inner>)> =
            cells.iter().map(|cell| (&**cell, cell.lock())).collect();
        loop {
            match self.try_change(&engine, &mut locked, level, &plan) {
                // A site was invalidated in between: the others are changed without it.
                // protection: retraction-goes-on-without-the-dead
                Err(error) if is_final(&error) => {
                    let before = locked.len();
                    locked.retain_mut(|(cell, inner)| inner.check_alive(cell, &engine));
                    if locked.len() == before {
                        return Err(error);
                    }
                }
                done => return done,
            }
        }
    }

    fn try_change(
        &self,
        engine: &Engine,
        locked: &mut [(&Cell, MutexGuard<'_, Inner>)],
        level: Level,
        plan: &impl Fn(&Cell, &Inner) -> Result<Option<NextState>>,
    ) -> Result<Retracted> {
        let mut planned = Vec::new();
        let mut transaction = engine.transaction();
        if level == Level::Immediate {
            // protection: retraction-is-immediate
            transaction.immediate();
        }
        for (cell, inner) in locked.iter_mut().filter(|(_, inner)| !inner.is_dead()) {
            if let Some(next) = plan(cell, inner)? {
                transaction.patch_site(&cell.site, &next.sequence)?;
                planned.push((*cell, inner, next));
            }
        }
        transaction.commit()?;
        let caches = planned.len();
        for (cell, inner, next) in planned {
            inner.become_next(cell, next);
        }
        Ok(Retracted { caches, shared: 0 })
    }

    fn forget(&self, module: ModuleId) {
        self.cells
            .write()
            .retain(|_, cell| cell.site.module().id() != module);
    }
}

impl fmt::Debug for Caches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caches").field("totals", &self.totals()).finish()
    }
}

/// Exit stubs whose misses go to caches.
struct CacheExits {
    exit_stubs: ExitStubs,
    caches: Arc<Shared>,
}

// SAFETY: all code is that of `ExitStubs`.
unsafe impl Exits for CacheExits {
    fn prepare(&self) {
        self.exit_stubs.prepare();
    }

    fn handles(&self, role: Role) -> bool {
        self.exit_stubs.handles(role)
    }

    fn bound(&self, site: &Site, role: Role, resumption: &ExitResumption<'_>) -> Result<Len> {
        self.exit_stubs.bound(site, role, resumption)
    }

    fn encode(&self, request: &ExitRequest<'_>) -> Result<ExitCode> {
        self.exit_stubs.encode(request)
    }

    fn in_blocks(
        &self,
        site: &Site,
        role: Role,
        resumption: &ExitResumption<'_>,
    ) -> Option<(BlockForm, &dyn ExitBlocks)> {
        self.exit_stubs.in_blocks(site, role, resumption)
    }

    fn check_leavable(&self, site: &Site) -> Result<()> {
        self.exit_stubs.check_leavable(site)
    }

    unsafe fn capture_by(&mut self, routine: CodeAddr) -> Result<()> {
        // SAFETY: the caller promises the same.
        unsafe { self.exit_stubs.capture_by(routine) }
    }

    fn handle(&self, frame: &SavedFrame) -> Result<Option<u64>> {
        self.exit_stubs.handle(frame)
    }

    fn forget(&self, module: ModuleId) {
        self.exit_stubs.forget(module);
        // protection: caches-go-with-their-module
        self.caches.forget(module);
    }
}
