//! One cache: its entries, and the change of its site from one state to the next.

use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;

use super::builder::Settings;
use super::entry::{Entry, Key};
use super::lower::{self, Counter as Counts};
use super::policy::{Decision, History};
use super::shared::{SharedCache, SiteProbe};
use super::stats::{CacheStats, Counting, Order};
use crate::engine::{Engine, Status};
use crate::memory::Counter;
use crate::memory::fork::Birth;
use crate::sequence::Sequence;
use crate::site::Site;
use crate::{Error, Result};

/// What a cache has become.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CacheState {
    /// No entry: every execution misses.
    Uninitialized,
    /// One entry.
    Monomorphic,
    /// A chain of entries.
    Polymorphic,
    /// The runtime's generic path.
    Megamorphic,
    /// The site has been invalidated, or a failed roll-back left it in doubt: the cache learns
    /// nothing any more.
    Dead,
}

/// A cache that is attached to a site. Cloning clones a handle.
#[derive(Clone, Debug)]
pub struct Cache(pub(super) Arc<Cell>);

impl Cache {
    /// Its site.
    #[must_use]
    pub fn site(&self) -> &Site {
        &self.0.site
    }

    /// Its state. In a fork's child whose parent was changing the cache, [`CacheState::Dead`]: it
    /// is not known.
    #[must_use]
    pub fn state(&self) -> CacheState {
        self.0.look().map_or(CacheState::Dead, |inner| inner.state)
    }

    /// Its entries, in the order in which they are tested, with the hits of each where they are
    /// counted. None in a fork's child whose parent was changing the cache.
    #[must_use]
    pub fn entries(&self) -> Vec<(Entry, Option<u64>)> {
        let Some(inner) = self.0.look() else {
            return Vec::new();
        };
        let entry = |installed: &Installed| (installed.entry.clone(), installed.hits());
        inner.entries.iter().map(entry).collect()
    }

    /// Why the last entry was refused that could not be installed.
    #[must_use]
    pub fn last_refusal(&self) -> Option<Error> {
        self.0
            .look()
            .map_or(Some(Error::Memory(crate::memory::Error::EngineForked)), |inner| {
                inner.refusal.clone()
            })
    }
}

/// A cache.
#[derive(Debug)]
pub(super) struct Cell {
    pub(super) site: Site,
    pub(super) misses: AtomicU64,
    inner: Mutex<Inner>,
    birth: Birth,
}

/// What changes together with the site.
#[derive(Debug)]
pub(super) struct Inner {
    state: CacheState,
    entries: Entries,
    /// What a megamorphic site looks up in the shared cache, if it does.
    probe: Option<Box<SiteProbe>>,
    /// All counters that the site's code has ever used. Those that no entry uses are used again:
    /// code that still counts there adds a few hits to the wrong entry, but never to freed memory.
    counters: Vec<Counter>,
    /// The misses when the state last changed.
    changed_at: u64,
    /// No entry is installed before that many misses.
    patient_until: u64,
    refusal: Option<Error>,
    installed: u64,
    refused: u64,
    retracted: u64,
    retractions: u64,
    megamorphic: u64,
    transitions: u64,
}

/// The entries of a cache. Most caches have one.
type Entries = SmallVec<[Installed; 1]>;

/// An entry in the site.
#[derive(Clone, Debug)]
struct Installed {
    entry: Entry,
    /// Where it counts, and what was there when it began.
    counter: Option<(Counter, u64)>,
    /// Its hits when the chain was last ordered.
    ordered_at: u64,
}

impl Installed {
    fn hits(&self) -> Option<u64> {
        let (counter, from) = self.counter.as_ref()?;
        Some(counter.get().wrapping_sub(*from))
    }

    /// The hits since the chain was last ordered.
    fn recent_hits(&self) -> Option<u64> {
        Some(self.hits()?.saturating_sub(self.ordered_at))
    }
}

/// What a cache is about to become.
pub(super) struct NextState {
    state: CacheState,
    entries: Entries,
    /// Whether entries are lost because they do not hold any more: what makes a cache back off.
    retracts: bool,
    probe: Option<Box<SiteProbe>>,
    /// The sequence of its site.
    pub(super) sequence: Sequence,
}

impl NextState {
    pub(super) fn has_probe(&self) -> bool {
        self.probe.is_some()
    }
}

impl Cell {
    pub(super) fn new(site: Site) -> Self {
        Self {
            site,
            misses: AtomicU64::new(0),
            birth: Birth::here(),
            inner: Mutex::new(Inner {
                state: CacheState::Uninitialized,
                entries: Entries::new(),
                probe: None,
                counters: Vec::new(),
                changed_at: 0,
                patient_until: 0,
                refusal: None,
                installed: 0,
                refused: 0,
                retracted: 0,
                retractions: 0,
                megamorphic: 0,
                transitions: 0,
            }),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }

    pub(super) fn try_lock(&self) -> Option<MutexGuard<'_, Inner>> {
        self.inner.try_lock()
    }

    /// Locks it for a look, also in a fork's child, unless a thread of the parent has the lock
    /// there for ever.
    fn look(&self) -> Option<MutexGuard<'_, Inner>> {
        self.birth.lock(&self.inner)
    }

    pub(super) fn stats(&self, engine: Option<&Engine>) -> CacheStats {
        let Some(inner) = self.look() else {
            return CacheStats {
                state: CacheState::Dead,
                entries: 0,
                hits: None,
                misses: self.misses.load(Ordering::Relaxed),
                installed: 0,
                refused: 0,
                retracted: 0,
                transitions: 0,
                stub_bytes: 0,
                reclaimed: 0,
            };
        };
        let hits = inner
            .counters
            .iter()
            .fold(0_u64, |sum, counter| sum.wrapping_add(counter.get()));
        CacheStats {
            state: inner.state,
            entries: inner.entries.len(),
            hits: (!inner.counters.is_empty()).then_some(hits),
            misses: self.misses.load(Ordering::Relaxed),
            installed: inner.installed,
            refused: inner.refused,
            retracted: inner.retracted,
            transitions: inner.transitions,
            stub_bytes: engine.map_or(0, |engine| engine.stub_bytes(&self.site)),
            reclaimed: engine.map_or(0, |engine| engine.reclaimed_bytes(&self.site)),
        }
    }
}

impl Inner {
    pub(super) fn is_dead(&self) -> bool {
        self.state == CacheState::Dead
    }

    pub(super) fn depends_on(&self, keys: &[Key]) -> bool {
        self.entries.iter().any(|installed| depends(installed, keys))
    }

    /// What becomes of the cache with an entry that a lookup has handed over; `None` if its site
    /// stays as it is. What the site finds in the shared cache is put there.
    pub(super) fn learn(
        &mut self,
        engine: &Engine,
        cell: &Cell,
        entry: Entry,
        (settings, shared): (&Settings, Option<&SharedCache>),
    ) -> Result<Option<NextState>> {
        let all_misses = cell.misses.load(Ordering::Relaxed);
        let known = |installed: &Installed| installed.entry.serves_the_same(&entry);
        // protection: one-entry-of-all-who-miss
        if self.is_dead() || all_misses < self.patient_until || self.entries.iter().any(known) {
            return Ok(None);
        }
        let history = History {
            state: self.state,
            entries: self.entries.len(),
            misses: all_misses.saturating_sub(self.changed_at),
            all_misses,
            retractions: self.retractions,
            megamorphic: self.megamorphic,
        };
        let kept = match settings.policy.decide(&history) {
            Decision::Ignore => {
                if let (Some(shared), Some(this)) = (shared, &self.probe) {
                    share(shared, this, &entry);
                }
                return Ok(None);
            }
            Decision::GoMegamorphic => {
                let Some(probing) = Self::probing(engine, cell, shared)? else {
                    return Ok(Some(Self::generic(cell, settings)));
                };
                if let (Some(shared), Some(this)) = (shared, &probing.probe) {
                    let chain = self.entries.iter().map(|installed| &installed.entry);
                    chain.chain([&entry]).for_each(|entry| share(shared, this, entry));
                }
                return Ok(Some(probing));
            }
            Decision::Install => self.ordered(settings.order),
            Decision::Replace => Entries::new(),
        };
        let new = Installed {
            entry,
            counter: self.counter(engine, settings.counting, &kept)?,
            ordered_at: 0,
        };
        let mut entries = kept;
        match settings.order {
            Order::MostRecent => entries.insert(0, new),
            Order::MostFrequent => entries.push(new),
        }
        self.chain(cell, entries, settings).map(Some)
    }

    /// What becomes of the cache without the entries that depend on one of the keys.
    pub(super) fn without(&self, cell: &Cell, keys: &[Key], settings: &Settings) -> Result<NextState> {
        let mut entries = self.entries.clone();
        entries.retain(|installed| !depends(installed, keys));
        let next = self.chain(cell, entries, settings)?;
        Ok(NextState {
            retracts: true,
            ..next
        })
    }

    /// The cache without entries.
    pub(super) fn empty() -> NextState {
        NextState {
            state: CacheState::Uninitialized,
            entries: Entries::new(),
            retracts: false,
            probe: None,
            sequence: lower::MISS.clone(),
        }
    }

    /// The megamorphic cache whose site looks into the shared cache, if it can.
    fn probing(engine: &Engine, cell: &Cell, shared: Option<&SharedCache>) -> Result<Option<NextState>> {
        let Some(shared) = shared else {
            return Ok(None);
        };
        // In a mirror the table is not there.
        // protection: mirrored-code-does-not-probe
        if engine.counter()?.is_shared() {
            return Ok(None);
        }
        let Some(probe) = shared.probe_of(&cell.site) else {
            return Ok(None);
        };
        Ok(Some(NextState {
            state: CacheState::Megamorphic,
            entries: Entries::new(),
            retracts: false,
            sequence: lower::probe(&cell.site, &probe)?,
            probe: Some(Box::new(probe)),
        }))
    }

    /// The megamorphic cache whose site does not look into the shared cache.
    pub(super) fn generic(cell: &Cell, settings: &Settings) -> NextState {
        let generic = settings.generic.as_ref().and_then(|path| path(&cell.site));
        NextState {
            state: CacheState::Megamorphic,
            entries: Entries::new(),
            retracts: false,
            probe: None,
            sequence: generic.unwrap_or_else(|| lower::MISS.clone()),
        }
    }

    fn chain(&self, cell: &Cell, entries: Entries, settings: &Settings) -> Result<NextState> {
        let state = match entries.len() {
            0 => CacheState::Uninitialized,
            1 => CacheState::Monomorphic,
            _ => CacheState::Polymorphic,
        };
        let listed = entries.iter().map(|installed| {
            let counter = match (&installed.counter, settings.counting) {
                (Some((counter, _)), Counting::Plain) => Counts::Plain(counter.addr()),
                (Some((counter, _)), Counting::Atomic) => Counts::Atomic(counter.addr()),
                _ => Counts::Off,
            };
            (&installed.entry, counter)
        });
        let sequence = lower::chain(&cell.site, listed)?;
        Ok(NextState {
            state,
            entries,
            retracts: false,
            probe: None,
            sequence,
        })
    }

    /// The entries, the most useful first.
    fn ordered(&self, order: Order) -> Entries {
        if self.entries.is_empty() {
            return Entries::new();
        }
        // With room for one more.
        let mut entries = Entries::with_capacity(self.entries.len() + 1);
        entries.extend(self.entries.iter().cloned());
        if order == Order::MostFrequent {
            entries.sort_by_key(|installed| Reverse(installed.recent_hits()));
        }
        entries
    }

    /// The chain with the most frequent entry first, if that pays.
    pub(super) fn reordered(&self, cell: &Cell, settings: &Settings) -> Result<Option<NextState>> {
        let hits: Option<Vec<u64>> = self.entries.iter().map(Installed::recent_hits).collect();
        let pays = |hits: &Vec<u64>| hits.len() > 1 && settings.policy.reorders(hits);
        // protection: chains-are-reordered-where-it-pays
        if !hits.as_ref().is_some_and(pays) {
            return Ok(None);
        }
        let mut entries = self.ordered(Order::MostFrequent);
        for installed in &mut entries {
            installed.ordered_at = installed.hits().unwrap_or(installed.ordered_at);
        }
        self.chain(cell, entries, settings).map(Some)
    }

    /// A counter that none of the kept entries uses.
    fn counter(
        &mut self,
        engine: &Engine,
        counting: Counting,
        kept: &[Installed],
    ) -> Result<Option<(Counter, u64)>> {
        if counting == Counting::Off {
            return Ok(None);
        }
        let used = |counter: &Counter| {
            let mut others = kept.iter().filter_map(|installed| installed.counter.as_ref());
            others.any(|(other, _)| other.is(counter))
        };
        let free = self.counters.iter().find(|counter| !used(counter)).cloned();
        let counter = match free {
            Some(counter) => counter,
            None => {
                let new = engine.counter()?;
                self.counters.push(new.clone());
                new
            }
        };
        let from = counter.get();
        Ok(Some((counter, from)))
    }

    /// The site has become what was planned.
    pub(super) fn become_next(&mut self, cell: &Cell, next: NextState) {
        let gone = |installed: &&Installed| {
            let mut now = next.entries.iter();
            !now.any(|other| other.entry.is(&installed.entry))
        };
        let new = |installed: &&Installed| {
            let mut before = self.entries.iter();
            !before.any(|other| other.entry.is(&installed.entry))
        };
        let (gone, new) = (
            self.entries.iter().filter(gone).count() as u64,
            next.entries.iter().filter(new).count() as u64,
        );
        self.installed += new;
        if new == 0 && next.state != CacheState::Megamorphic {
            self.retracted += gone;
            self.retractions += u64::from(next.retracts && gone > 0);
        }
        self.entries = next.entries;
        self.probe = next.probe;
        self.enter(cell, next.state);
    }

    fn enter(&mut self, cell: &Cell, state: CacheState) {
        if self.state != state {
            self.transitions += 1;
            self.megamorphic += u64::from(state == CacheState::Megamorphic);
            self.changed_at = cell.misses.load(Ordering::Relaxed);
            self.state = state;
        }
    }

    /// The site refused what was planned, and stayed as it was. What it has refused once it will
    /// refuse again, so the next tries come ever later.
    pub(super) fn refused(&mut self, cell: &Cell, why: Error) {
        // protection: dead-caches-learn-nothing
        if is_final(&why) {
            self.die(cell);
        } else {
            self.patient_until = cell.misses.load(Ordering::Relaxed) + (1 << self.refused.min(16));
            self.refused += 1;
        }
        self.refusal = Some(why);
    }

    /// The site refused its probe; it does without.
    pub(super) fn probe_refused(&mut self, why: Error) {
        self.refusal = Some(why);
    }

    /// Whether the site can be changed no more; the cache learns nothing then.
    pub(super) fn check_alive(&mut self, cell: &Cell, engine: &Engine) -> bool {
        if matches!(
            engine.status(&cell.site),
            Status::Invalidated | Status::Redirected | Status::Lost
        ) {
            self.die(cell);
        }
        !self.is_dead()
    }

    fn die(&mut self, cell: &Cell) {
        self.entries.clear();
        self.probe = None;
        self.enter(cell, CacheState::Dead);
    }
}

/// Puts an entry into the shared cache, if the probe can have it.
fn share(shared: &SharedCache, this: &SiteProbe, entry: &Entry) {
    if let Some(kept) = this.probe.keeps(entry) {
        shared.insert(this.number, kept, entry.keys());
    }
}

fn depends(installed: &Installed, keys: &[Key]) -> bool {
    installed.entry.keys().iter().any(|key| keys.contains(key))
}

/// Whether the site will never take a sequence again.
pub(super) fn is_final(error: &Error) -> bool {
    matches!(
        error,
        Error::SiteInvalidated { .. }
            | Error::SiteRedirected { .. }
            | Error::SiteLost { .. }
            | Error::Site(crate::site::Error::SiteForeign { .. })
    )
}
