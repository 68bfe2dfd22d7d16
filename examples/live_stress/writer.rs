//! The thread that changes what others execute.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use patchpoint::addr::CodeAddr;
use patchpoint::arch::OnReturn;
use patchpoint::publish::{Attached, GracePeriod};
use patchpoint::sequence::{Label, Sequence, Target, arg, result};
use patchpoint::site::Site;
use patchpoint::{Engine, Result};

use super::gates::{Gate, Settlements};
use super::parts::{Part, SiteKind};
use super::running::{Random, Running, Scheme, VersionKind};
use super::totals::Totals;
use super::{Shared, behind, loaded, remapped};
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
use super::{own_text, told};
use crate::host::{Host, SharedValue};

/// How many commits a generation lives at least: long enough that stubs are reclaimed.
const LEAST_COMMITS: u64 = 512;
/// How many commits a generation lives at most.
const COMMITS: u64 = 4000;
/// How many commits there are before sites are settled, and how many times that is tried: readers
/// have to report meanwhile.
const SETTLED_AFTER: u64 = 8;
const ATTEMPTS: usize = 32;
/// How long what was settled is left as it is.
const IN_PLACE: Duration = Duration::from_micros(300);

/// The sequence of a version, with a random number of guards and additions.
fn sequence(scheme: &Scheme, version: u64, slow: CodeAddr, random: &mut Random) -> Sequence {
    if scheme.kind(version) == VersionKind::Calls {
        // SAFETY: the function takes the site's word and returns one.
        let call = unsafe { Sequence::new().call(slow, OnReturn::FollowsC) };
        return call.add(result(), version);
    }
    let never = Label::new(0);
    let mut sequence = Sequence::new();
    for guard in 0..random.below(5) {
        sequence = sequence.guard_ne(arg(0), u64::MAX / 2 + guard * 0x10001, never);
    }
    sequence = sequence.mov(result(), arg(0));
    let mut rest = version;
    for _ in 0..random.below(4) {
        let part = random.below(rest + 1);
        sequence = sequence.add(result(), part);
        rest -= part;
    }
    sequence.add(result(), rest).jump(Target::End).bind(never).trap()
}

/// The code that readers execute until another takes its place: a module of each kind of sites.
pub(super) struct Generation {
    pub(super) running: Arc<SharedValue<Running>>,
    kinds: Vec<SiteKind>,
    pub(super) parts: Vec<Part>,
    /// The sites of all parts, by the numbers that `running` has for them.
    sites: Vec<ChangedSite>,
}

impl Generation {
    /// Says where threads are behind a gate.
    fn note_sites(&self) {
        let ranges = self.sites.iter().map(|changed| changed.site.range());
        let ends = ranges.map(|range| (range.start().get(), range.end().get()));
        behind::note(self.running.number, ends);
    }
}

/// A site that is changed.
struct ChangedSite {
    site: Site,
    kind: SiteKind,
    scheme: Scheme,
    gate: Gate,
}

/// The writer.
pub(super) struct Writer {
    random: Random,
    pub(super) totals: Totals,
    settlements: Option<Settlements>,
    engine: Engine,
    host: Host,
    callee: CodeAddr,
    slow: CodeAddr,
    owner: Option<remapped::Owner>,
    next: u64,
    /// Where code was registered that stays where it is.
    seen: HashSet<CodeAddr>,
    attached: Attached,
}

impl Writer {
    /// `callee` is the target of LLVM's calls, `slow` of those of sequences. With `settlements`
    /// sites are settled.
    pub(super) fn new(
        engine: Engine,
        host: Host,
        seed: u64,
        [callee, slow]: [CodeAddr; 2],
        settlements: Option<Settlements>,
    ) -> Self {
        Self {
            random: Random::new(seed),
            totals: Totals::default(),
            settlements,
            engine,
            host,
            callee,
            slow,
            owner: None,
            next: 1,
            seen: HashSet::new(),
            // SAFETY: readers attach before they execute, report `quiescent` outside of all calls only, and nobody else
            // executes code while this is used.
            attached: unsafe { Attached::promise() },
        }
    }

    /// Loads or adopts, and registers, a module of each kind, patches what has no behaviour of its
    /// own, and makes the functions callable. Those of the program are so already, and are
    /// registered by [`register_running`](Self::register_running).
    pub(super) fn generation(&mut self, kinds: &[SiteKind]) -> Result<Generation> {
        let (mut parts, mut sites, mut functions) = (Vec::new(), Vec::new(), Vec::new());
        for kind in kinds.iter().filter(|kind| !kind.is_running()) {
            let part = self.part(*kind)?;
            sites.extend(self.first_versions(&part)?);
            functions.extend(part.release()?);
            parts.push(part);
        }
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        if kinds.contains(&SiteKind::OwnText) {
            functions.extend(own_text::functions());
        }
        // SAFETY: the functions of every kind are of an integer, and ignore the second one or take it; their modules stay
        // registered while readers use them, or they are the program's own.
        let running = unsafe { Running::new(self.next, &functions) };
        let running = self.host.place(running)?;
        self.next += 1;
        let generation = Generation {
            running: Arc::new(running),
            kinds: kinds.to_vec(),
            parts,
            sites,
        };
        generation.note_sites();
        Ok(generation)
    }

    /// Registers what threads execute at this moment. No other generation has it registered.
    fn register_running(&mut self, generation: &mut Generation) -> Result<()> {
        let kinds = generation.kinds.clone();
        for kind in kinds.into_iter().filter(|kind| kind.is_running()) {
            let part = self.part(kind)?;
            generation.sites.extend(self.first_versions(&part)?);
            generation.parts.push(part);
        }
        generation.note_sites();
        Ok(())
    }

    fn part(&mut self, kind: SiteKind) -> Result<Part> {
        let part = match kind {
            SiteKind::Loaded => loaded::load(&self.engine, self.callee),
            SiteKind::Remapped => {
                let owner = match self.owner.take() {
                    Some(owner) => owner,
                    None => remapped::Owner::new(self.callee)?,
                };
                self.owner.insert(owner).part(&self.engine, self.next)
            }
            #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
            SiteKind::Told | SiteKind::Unaligned => told::load(&self.engine, kind),
            #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
            SiteKind::OwnText => own_text::part(&self.engine),
            #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
            _ => panic!("{kind} sites are not available here"),
        }?;
        self.totals.modules += 1;
        if kind.comes_again() && !self.seen.insert(part.sites[0].addr()) {
            self.totals.of_kind(kind).again += 1;
        }
        Ok(part)
    }

    /// Gives those sites of a part a behaviour that have none.
    fn first_versions(&mut self, part: &Part) -> Result<Vec<ChangedSite>> {
        let mut sites = Vec::new();
        for (site, known) in part.sites.iter().zip(&part.known) {
            let mut changed = ChangedSite {
                site: site.clone(),
                kind: part.kind,
                scheme: known.scheme,
                gate: Gate::new(known.as_loaded),
            };
            if !changed.scheme.restores() {
                let (scheme, first) = (&changed.scheme, changed.scheme.first());
                let sequence = sequence(scheme, first, self.slow, &mut self.random);
                self.engine.patch_site(site, &sequence)?;
                self.note_change(&mut changed);
            }
            sites.push(changed);
        }
        Ok(sites)
    }

    /// Patches and restores the sites of a generation at random, and lets another take its place.
    pub(super) fn life_of(
        &mut self,
        shared: &Shared,
        mut generation: Generation,
        end: Instant,
    ) -> Result<Generation> {
        self.register_running(&mut generation)?;
        for commit in 1..=COMMITS {
            self.change(&mut generation)?;
            if self.settlements.is_some() && commit % SETTLED_AFTER == 0 {
                self.settle(&mut generation)?;
                std::thread::sleep(IN_PLACE);
            }
            if commit % 128 == 0 {
                self.reclaim()?;
                if commit >= LEAST_COMMITS && Instant::now() >= end {
                    break;
                }
            }
        }
        self.end(&mut generation)?;
        // Readers go through the exit stubs for a while.
        std::thread::sleep(Duration::from_micros(200));
        let next = self.generation(&generation.kinds)?;
        let number = next.running.number;
        *shared.current.lock().unwrap() = Arc::clone(&next.running);
        shared.number.store(number, Ordering::Release);
        generation.running.end();
        while shared.at.iter().any(|at| at.load(Ordering::Acquire) < number) {
            std::thread::yield_now();
        }
        drop(generation.sites);
        for part in generation.parts {
            drop(part.sites);
            // SAFETY: every reader has begun to execute a later generation, outside of all calls, and will not come back.
            let grace_period = unsafe { GracePeriod::promise() };
            self.engine.unregister(part.module, &grace_period)?;
        }
        Ok(next)
    }

    /// One transaction of one to three sites.
    fn change(&mut self, generation: &mut Generation) -> Result<()> {
        let running = &generation.running;
        let all = generation.sites.len();
        let first = self.random.below(all as u64) as usize;
        let count = match self.random.below(8) {
            0 => 3,
            _ => 1,
        };
        let mut transaction = self.engine.transaction();
        let chosen = (first..first + count).map(|number| number % all);
        for number in chosen.clone() {
            let version = running.announced[number].load(Ordering::Relaxed) + 1;
            let ChangedSite { site, scheme, .. } = &generation.sites[number];
            match scheme.kind(version) {
                VersionKind::Restored => transaction.restore(site)?,
                _ => {
                    let sequence = sequence(scheme, version, self.slow, &mut self.random);
                    transaction.patch_site(site, &sequence)?
                }
            };
        }
        let prepared = transaction.prepare()?;
        for number in chosen.clone() {
            running.announced[number].fetch_add(1, Ordering::AcqRel);
        }
        prepared.commit()?;
        for number in chosen {
            let version = running.confirmed[number].fetch_add(1, Ordering::AcqRel) + 1;
            let changed = &mut generation.sites[number];
            let of_kind = self.totals.of_kind(changed.kind);
            match changed.scheme.kind(version) {
                VersionKind::Restored => of_kind.restores += 1,
                VersionKind::Calls => {
                    (of_kind.patches, of_kind.calls) = (of_kind.patches + 1, of_kind.calls + 1)
                }
                VersionKind::Adds => of_kind.patches += 1,
            }
            self.note_change(changed);
        }
        Ok(())
    }

    /// Invalidates the sites of a generation, or restores those of code that goes on to run.
    fn end(&mut self, generation: &mut Generation) -> Result<()> {
        let running = &generation.running;
        let mut transaction = self.engine.transaction();
        let mut restored = Vec::new();
        for (number, ChangedSite { site, kind, .. }) in generation.sites.iter().enumerate() {
            if !kind.is_running() {
                transaction.invalidate_site(site)?;
                continue;
            }
            transaction.restore(site)?;
            let version = running.announced[number].load(Ordering::Relaxed);
            let version = Scheme::next_restored(version);
            running.announced[number].store(version, Ordering::Release);
            restored.push((number, version));
        }
        transaction.commit()?;
        self.totals.invalidations += (generation.sites.len() - restored.len()) as u64;
        for (number, version) in restored {
            running.confirmed[number].store(version, Ordering::Release);
            self.totals.of_kind(generation.sites[number].kind).restores += 1;
        }
        for changed in &mut generation.sites {
            self.note_change(changed);
        }
        Ok(())
    }

    fn note_change(&mut self, changed: &mut ChangedSite) {
        let status = self.engine.status(&changed.site);
        self.totals.closes += u64::from(changed.gate.change(status));
    }

    /// Settles what was patched, or some of it: readers may take their time.
    fn settle(&mut self, generation: &mut Generation) -> Result<()> {
        for _ in 0..ATTEMPTS {
            let done = self.engine.settle(&self.attached)?;
            self.totals.opens += done.settled as u64;
            self.totals.waits += done.waiting as u64;
            if done.settled > 0 {
                let settled = self.settlements.as_ref().map(Settlements::take);
                let settled = settled.unwrap_or_default();
                let sites = generation.sites.iter_mut();
                for changed in sites.filter(|changed| settled.contains(&changed.site.key())) {
                    changed.gate.settle(self.engine.status(&changed.site));
                }
            }
            if done.waiting == 0 {
                break;
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        Ok(())
    }

    pub(super) fn reclaim(&mut self) -> Result<()> {
        self.totals.reclaimed += self.engine.reclaim_passed(&self.attached)? as u64;
        Ok(())
    }
}
