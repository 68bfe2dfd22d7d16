//! Commits of single prepared sites, and limits that are measured in the same way.
//!
//! Problem: what a commit takes depends on what ran before it. Preparing leaves the caches full of
//! the library, and a `pwrite` then takes a sixth longer than one that follows another of its kind:
//! against a limit in a tight loop a commit looks worse than it is. Approach: a limit writes where
//! the commit would, after the same transaction was prepared, and is timed by the same clock. So it
//! is here for every page that compares the two.

use std::hint::black_box;
use std::rc::Rc;
use std::time::{Duration, Instant};

use patchpoint::engine::{Engine, Prepared};
use patchpoint::memory::StrategyChoice;
use patchpoint::publish::serialize;
use patchpoint::sequence::Sequence;
use patchpoint::site::{Module, Site};

use crate::limits::{Limit, Nothing, Serialization};
use crate::measure::{Figure, time, turns};
use crate::pages::{self, PAGE};
use crate::subject::{self, Copies, RESERVED};

/// The sites that the commits of a batch change, one each.
pub(crate) const SITES: usize = 32;

/// More than a page, so that every site is on one of its own and they do not all compete for one
/// set of the cache.
pub(crate) const STRIDE: usize = PAGE + 256;

/// Prepares a transaction for each site, one after the other, and commits it, or does the bare
/// thing in its place; only that counts. Preparing goes before both, as it leaves the caches in a
/// state that matters. From commit to commit a site goes back and forth between two sequences, so
/// that each changes bytes.
pub(crate) struct Commits {
    engine: Engine,
    /// Keep the code.
    _modules: Vec<Module>,
    sites: Vec<Site>,
    sequences: [Sequence; 2],
    /// The one that is not installed.
    next: usize,
}

impl Commits {
    /// Of sites in the engine's memory.
    pub(crate) fn loaded() -> Self {
        let engine = subject::engine();
        let modules: Vec<Module> = (0..SITES / 2).map(|_| subject::module(&engine)).collect();
        let sites = modules.iter().flat_map(subject::reads).collect();
        Self::new(engine, modules, sites)
    }

    /// Of sites in a JIT's memory, one on each page.
    pub(crate) fn foreign(ask: StrategyChoice) -> Self {
        let engine = subject::engine();
        let code = Copies::new(&engine, SITES, STRIDE).adopt(&engine, ask).unwrap();
        // SAFETY: what is told is true of the object's code, or refused.
        let module = unsafe { engine.register(code, subject::shape) }.unwrap();
        let sites = subject::reads(&module).into_iter().step_by(2).collect();
        Self::new(engine, vec![module], sites)
    }

    fn new(engine: Engine, modules: Vec<Module>, sites: Vec<Site>) -> Self {
        assert_eq!(sites.len(), SITES);
        let mut commits = Self {
            engine,
            _modules: modules,
            sites,
            sequences: [subject::hit(8), subject::hit(16)],
            next: 0,
        };
        // From now on something is installed that is exchanged.
        commits.commits();
        commits
    }

    /// A batch of commits.
    pub(crate) fn commits(&mut self) -> Duration {
        let took = self.each(|_, prepared| time(|| _ = black_box(prepared.commit().unwrap())));
        self.next ^= 1;
        took
    }

    /// A batch of what is compared with them, each serialized.
    pub(crate) fn bare(&self, limit: &impl Limit) -> Duration {
        self.each(|site, _| {
            let (at, bytes) = (limit.place(site.addr()), installed(site));
            time(|| {
                limit.write(at, &bytes);
                serialize();
            })
        })
    }

    fn each(&self, timed: impl Fn(&Site, Prepared<'_>) -> Duration) -> Duration {
        let sequence = &self.sequences[self.next];
        let one = |site| {
            let mut transaction = self.engine.transaction();
            transaction.patch_site(site, sequence).unwrap();
            timed(site, transaction.prepare().unwrap())
        };
        self.sites.iter().map(one).sum()
    }
}

/// What a site holds, to be written there once more.
fn installed(site: &Site) -> [u8; RESERVED] {
    // SAFETY: the site's code stays mapped.
    let bytes = unsafe { pages::read(site.addr().get(), RESERVED) };
    bytes.try_into().unwrap()
}

/// One of the ways that are measured in turn.
pub(crate) struct Way<'w> {
    /// Does a batch; returns nanoseconds for one operation.
    pub(crate) batch: Box<dyn FnMut() -> f64 + 'w>,
    /// Whether each operation is timed by itself, as those of [`Commits`] are.
    pub(crate) one_by_one: bool,
}

impl<'w> Way<'w> {
    /// Batches of [`Commits`].
    pub(crate) fn one_by_one(mut batch: impl FnMut() -> Duration + 'w) -> Self {
        Self {
            batch: Box::new(move || batch().as_nanos() as f64 / SITES as f64),
            one_by_one: true,
        }
    }
}

/// How long a way runs before its batch that counts.
const WARM_UP: Duration = Duration::from_micros(500);

/// Measures ways in turn. In its turn each does batches that do not count, so that what the others
/// have left in the caches is no part of it, and one that does.
///
/// What is timed one by one is without what taking the time adds to an operation that serializes:
/// what one takes longer than the second of two, in the same state of the caches. The time of
/// nothing would be too much, as a part of the clock's own work goes on beside the operation: a copy
/// would then take less than serializing does.
pub(crate) fn in_turn(batches: usize, mut ways: Vec<Way<'_>>) -> Vec<Figure> {
    let count = ways.len();
    if ways.iter().any(|way| way.one_by_one) {
        let once = Rc::new(Commits::loaded());
        let twice = Rc::clone(&once);
        ways.push(Way::one_by_one(move || once.bare(&Nothing)));
        ways.push(Way::one_by_one(move || twice.bare(&Serialization)));
    }
    let is_one_by_one: Vec<bool> = ways.iter().map(|way| way.one_by_one).collect();
    let warmed = |way: &mut Way<'_>| {
        let start = Instant::now();
        while start.elapsed() < WARM_UP {
            (way.batch)();
        }
        (way.batch)()
    };
    let mut closures: Vec<_> = ways.iter_mut().map(|way| move || warmed(way)).collect();
    let mut closures: Vec<&mut dyn FnMut() -> f64> = closures
        .iter_mut()
        .map(|closure| closure as &mut dyn FnMut() -> f64)
        .collect();
    let mut figures = turns(batches, &mut closures);
    let clock: Vec<Figure> = figures.drain(count..).collect();
    let clock = match &clock[..] {
        [once, twice] => 2.0 * once.median - twice.median,
        _ => 0.0,
    };
    let less = |(figure, one_by_one): (Figure, bool)| if one_by_one { figure.less(clock) } else { figure };
    figures.into_iter().zip(is_one_by_one).map(less).collect()
}
