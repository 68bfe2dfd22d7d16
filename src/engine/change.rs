//! The changes of a transaction, one for each site: made when it is prepared, applied when it is
//! committed.
//!
//! Problem: the interesting part of a commit runs while the world is stopped and behind a
//! serialization of the processor. Whatever is in no cache there, is allocated or freed, or is
//! decided anew, costs more than the stores themselves. Approach: everything that can be known is
//! known when the transaction is prepared, down to the [`Installed`] that becomes the site's state.
//! A commit walks over one list of [`SiteChange`] and, for the memories, over the bytes before and
//! after of each ([`SiteWrite`]); for a site's state it only exchanges a pointer. What it replaces
//! takes the place of what it has installed. Then the list goes into the journal (see
//! [`super::journal`]), and the next transaction uses its room, so that most allocate nothing.
//!
//! Invariants: quiescent sites come first, by address, then live ones; a commit writes only if the
//! state of each site still has the version for which its change was prepared, so what was derived
//! from the state is true then.

use std::borrow::Cow;
use std::iter;
use std::mem;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use super::Shared;
use super::batch::{OpenBatches, SiteBatch};
use super::exit_stub::{ExitStub, ExitStubList};
use super::fault::FirstFault;
use super::installed::{Held, Installed, InstalledRoom, Stub};
use super::journal::Record;
use super::live::{JumpExchange, LiveRoom};
use super::observe::Boxed;
use super::originals::OriginalIndex;
use super::state::{StateIndex, States, Status};
use crate::Error;
use crate::addr::{CodeAddr, CodeRange, Len};
use crate::error::Fate;
use crate::invariant::OrAbort;
use crate::memory::short::{self, Bytes};
use crate::memory::{self, Alias, CodeMemory, PageRun};
use crate::publish::{CoarseTime, Level, Publisher, QuiescentState, Stopped};
use crate::site::{Module, ModuleId, Site, SiteKey};

/// Which of the two states of a changed site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Old,
    New,
}

/// What is written of a site: the bytes at an address before and after. They lie beside each other,
/// and those of one site beside those of the next, so that comparing and writing a transaction
/// reads memory in its order: as parts of [`SiteChange`], a large transaction takes two fifths longer.
pub(super) struct SiteWrite {
    pub(super) at: CodeAddr,
    old: Bytes,
    new: Bytes,
}

impl SiteWrite {
    pub(super) fn new(at: CodeAddr, old: &[u8], new: &[u8]) -> Self {
        Self {
            at,
            old: short::of(old),
            new: short::of(new),
        }
    }

    #[inline(always)] // Most know at compile time which side they want.
    pub(super) fn side(&self, side: Side) -> &[u8] {
        match side {
            Side::Old => &self.old,
            Side::New => &self.new,
        }
    }
}

/// The change of one site.
pub(super) struct SiteChange {
    pub(super) site: SiteKey,
    /// The number of its module among those of the transaction.
    pub(super) module: u32,
    /// Where the site's state is.
    pub(super) index: StateIndex,
    /// The version of the state for which this was prepared.
    pub(super) version: u64,
    /// What is to be installed; once the change is made, what was.
    pub(super) installed: Held,
    /// What is written: the site, or the gate of a call.
    pub(super) range: CodeRange,
    pub(super) old_stub: OldStub,
    /// What the site becomes.
    pub(super) status: Status,
    /// Bytes of code, the rest being nops.
    pub(super) used: Len,
    pub(super) exit_stubs: ExitStubList,
    /// Whether it would have been prepared otherwise, had its code been run.
    pub(super) until_run: bool,
    /// How a live site is written, and where.
    pub(super) exchange: Option<Box<JumpExchange>>,
    /// What the site is if a commit has failed and left it in doubt.
    pub(super) fate: Option<Fate>,
}

/// A longer one is copied by a call each time that it is moved: 58 of a live patch's 5,340 instructions.
const _: () = assert!(size_of::<SiteChange>() <= 128);

impl SiteChange {
    /// Room for one, before it is written. A constant, which is copied without waiting for its parts to be
    /// stored: a fortieth of a patch.
    pub(super) const ROOM: Self = Self {
        site: SiteKey {
            module: ModuleId(0),
            index: 0,
        },
        module: 0,
        index: StateIndex::FIRST,
        version: 0,
        installed: Held::Original(OriginalIndex::FIRST),
        range: CodeRange::new(CodeAddr::new(0), 0).expect("nothing is in the address space"),
        old_stub: OldStub::None,
        status: Status::Original,
        used: Len::new(0),
        exit_stubs: ExitStubList::new_const(),
        until_run: false,
        exchange: None,
        fate: None,
    };

    /// What orders the changes of a transaction.
    fn order(&self) -> (bool, CodeAddr) {
        (self.exchange.is_some(), self.range.start())
    }

    /// What is to be installed, before the change is made.
    #[inline]
    pub(super) fn to_install(&self) -> &Installed {
        match &self.installed {
            Held::Own(new) => new,
            Held::Original(_) => unreachable!("what is to be installed is made for the site"),
        }
    }

    /// Takes out the stub that was made for a change which was not made, or was in force before one
    /// that was.
    pub(super) fn take_stub(&mut self) -> Option<Box<Stub>> {
        self.installed.take_stub()
    }
}

/// What becomes of the stub of what is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OldStub {
    /// There is none.
    None,
    /// It stays: a thread that resumes from an invalidated site goes on in the stub that it had.
    Kept,
    /// It is freed: the world was stopped outside of it, and nothing branches there any more.
    Freed,
    /// It is reclaimed when every attached thread has reported this.
    Reported(QuiescentState),
    /// It is reclaimed when a grace period is proven.
    GracePeriod,
}

impl OldStub {
    /// What becomes of a stub when `new` takes the place of what it belonged to.
    pub(super) fn of(stub: &Stub, new: &Installed, is_live: bool) -> Self {
        match stub {
            // protection: stub-of-an-invalidated-site-is-kept
            _ if new.status == Status::Invalidated && new.stub.is_none() => Self::Kept,
            // Threads that execute quiescent modules need not report.
            // protection: reports-are-of-live-modules
            _ if !is_live && (stub.calls || stub.is_referenced()) => Self::GracePeriod,
            _ if !is_live => Self::Freed,
            // protection: stub-that-calls-waits-for-quiescence
            _ if stub.calls => Self::Reported(QuiescentState::Quiescent),
            // protection: live-replaced-stub-is-retired
            _ => Self::Reported(QuiescentState::Checkpoint),
        }
    }
}

/// Quiescent sites, next to each other in the list of changes, that are in one memory: its pages
/// are opened and closed together.
pub(super) struct SameMemory {
    pub(super) memory: HeldMemory,
    /// The pages that are written. Memory of the engine's own has no pages to open.
    runs: SmallVec<[PageRun; 1]>,
    /// Which changes they are.
    pub(super) changes: Range<usize>,
    /// Whether its pages are as they should be at this point of a roll-back.
    pub(super) good: bool,
}

/// A memory, which most changes share with the ones before: its handle is room for that of the next,
/// as to count it up and down is a twentieth of a patch.
pub(super) struct HeldMemory {
    /// Where the memory itself is, which the sites keep: to tell it from others.
    is_of: usize,
    pub(super) kind: MemoryKind,
}

/// The engine's own memory is called directly: calls through a table were a third of a commit's
/// instructions.
pub(super) enum MemoryKind {
    Own(Alias),
    Other(Arc<dyn CodeMemory>),
}

impl HeldMemory {
    #[inline]
    pub(super) fn of(memory: &Arc<dyn CodeMemory>) -> Self {
        let own = memory.as_alias().cloned();
        Self {
            is_of: Arc::as_ptr(memory).addr(),
            kind: own.map_or_else(|| MemoryKind::Other(Arc::clone(memory)), MemoryKind::Own),
        }
    }

    /// Whether it is that one.
    #[inline]
    fn is(&self, memory: &Arc<dyn CodeMemory>) -> bool {
        self.is_of == Arc::as_ptr(memory).addr()
    }

    /// Becomes a handle of that one, if it is not.
    #[inline]
    pub(super) fn hold(&mut self, memory: &Arc<dyn CodeMemory>) {
        // protection: room-of-another-memory-is-not-used
        if !self.is(memory) {
            *self = Self::of(memory);
        }
    }

    /// Whether it holds these bytes, for a transaction that the engine has not refused in a fork's
    /// child.
    #[inline]
    pub(super) fn holds(&self, at: CodeAddr, expected: &[u8]) -> memory::Result<bool> {
        match &self.kind {
            MemoryKind::Own(alias) => alias.holds_here(at, expected),
            MemoryKind::Other(memory) => memory.holds(at, expected),
        }
    }

    /// For what is not worth a call of its own.
    pub(super) fn get(&self) -> &dyn CodeMemory {
        match &self.kind {
            MemoryKind::Own(alias) => alias,
            MemoryKind::Other(memory) => &**memory,
        }
    }
}

impl SameMemory {
    /// Becomes room for that of another transaction: it has no changes.
    fn become_room(&mut self) {
        self.changes = 0..0;
        self.good = true;
    }

    /// What is its own of a list that has one member for each change.
    #[inline]
    pub(super) fn of_all<'c, T>(&self, all: &'c [T]) -> &'c [T] {
        let own = all.get(self.changes.clone());
        own.or_abort("a memory's changes are some of the transaction's")
    }

    /// Its changes, to be given their fate.
    pub(super) fn of_all_mut<'c>(&self, changes: &'c mut [SiteChange]) -> &'c mut [SiteChange] {
        let own = changes.get_mut(self.changes.clone());
        own.or_abort("a memory's changes are some of the transaction's")
    }

    /// Makes its pages writable.
    #[inline]
    pub(super) fn begin(&self, stopped: &Stopped) -> memory::Result<()> {
        match &self.memory.kind {
            MemoryKind::Own(alias) => alias.begin_here(),
            MemoryKind::Other(memory) => memory.begin(&self.runs, stopped),
        }
    }

    /// Makes its pages executable again.
    #[inline]
    pub(super) fn end(&self) -> memory::Result<()> {
        match &self.memory.kind {
            // Its pages were not opened.
            MemoryKind::Own(_) => Ok(()),
            MemoryKind::Other(memory) => memory.end(&self.runs),
        }
    }

    /// What a site is after its roll-back, unless that is what it should be.
    pub(super) fn fate(&self, write: &SiteWrite) -> Option<Fate> {
        let holds = |side| self.memory.get().holds(write.at, write.side(side)) == Ok(true);
        match (holds(Side::Old), self.good) {
            (true, true) => None,
            (true, false) => Some(Fate::OldNotExecutable),
            // protection: fates-are-looked-up
            (false, _) if holds(Side::New) => Some(Fate::New),
            (false, _) => Some(Fate::Unknown),
        }
    }
}

/// The changes of a transaction, and what they are together.
pub(super) struct ChangeSet {
    pub(super) changes: Vec<SiteChange>,
    /// Sites that have no change of their own, all of them quiescent: see [`super::batch`].
    pub(super) batches: Vec<SiteBatch>,
    /// The same while the transaction is prepared.
    pub(super) open: OpenBatches,
    /// The numbers of those that were committed.
    pub(super) installed_batches: Vec<u32>,
    /// In the order in which changes came; the same is there again where another was in between.
    modules: Vec<Module>,
    /// What is written of each.
    pub(super) writes: Vec<SiteWrite>,
    /// How many of them are of quiescent sites: the first.
    pub(super) quiescent: usize,
    /// The memories of quiescent sites.
    pub(super) memories: Vec<SameMemory>,
    /// Whether all sites are quiescent, in one memory, and in no batch.
    pub(super) is_of_one_memory: bool,
    /// Whether some of them are not the engine's own: their pages have to be opened and closed.
    pub(super) has_others: bool,
    /// What is published: the sites, or the patchable jumps of live ones, and then stubs.
    pub(super) ranges: Vec<CodeRange>,
    /// How many of these are of sites.
    pub(super) of_sites: usize,
    /// What is published of stubs and exit stubs, until that is behind what is of sites; nothing where no cache is
    /// maintained.
    pub(super) of_stubs: Vec<CodeRange>,
    /// Whether the changes are in their order as they were added.
    is_sorted: bool,
    /// Whether some of them abandon code.
    ends: bool,
    pub(super) level: Level,
    /// Whether some of them would have been prepared otherwise, had their code been run.
    pub(super) until_run: bool,
    /// Whether there are exit stubs or stubs to be kept, retired or freed when the changes are
    /// made, or gates that are closed by them.
    pub(super) has_code: bool,
    /// Whether bytes are rewritten behind traps, which all cores have to serialize for.
    pub(super) rewrites: bool,
    /// Whether the handler of traps is told of some of them.
    pub(super) notes_traps: bool,
    /// How many sites were left as they are, as they are as asked for.
    pub(super) unchanged: usize,
    /// Sites that were left as they are, as they have been invalidated.
    pub(super) invalidated: Vec<Site>,
    pub(super) found: FirstFault,
    /// Whether a commit that has failed had exchanged patchable jumps before: threads may be where
    /// they branched to.
    pub(super) exposed: bool,
    /// When it was committed.
    pub(super) time: CoarseTime,
    /// How long it was prepared, where there are observers.
    pub(super) prepared: Duration,
}

/// The lists of a transaction of so many sites are used again, or of so many that are settled: some
/// 200 KiB. Given back and taken anew, their pages are a sixth of what settling a thousand takes.
pub(super) const MANY: usize = 1024;

impl Default for ChangeSet {
    fn default() -> Self {
        Self {
            changes: Vec::new(),
            batches: Vec::new(),
            open: OpenBatches::default(),
            installed_batches: Vec::new(),
            modules: Vec::new(),
            writes: Vec::new(),
            quiescent: 0,
            memories: Vec::new(),
            is_of_one_memory: false,
            has_others: false,
            ranges: Vec::new(),
            of_sites: 0,
            of_stubs: Vec::new(),
            is_sorted: true,
            ends: false,
            level: Level::Immediate,
            until_run: false,
            has_code: false,
            rewrites: false,
            notes_traps: false,
            unchanged: 0,
            invalidated: Vec::new(),
            found: FirstFault::default(),
            exposed: false,
            time: CoarseTime::EPOCH,
            prepared: Duration::ZERO,
        }
    }
}

/// Adds a change to the lists that are in the order of changes, and to its memory.
#[inline(always)] // As `add`.
fn note(
    memories: &mut Vec<SameMemory>,
    (writes, ranges): (&mut Vec<SiteWrite>, &mut Vec<CodeRange>),
    (site, change): (&Site, &SiteChange),
    old: &Bytes,
) -> Boxed<()> {
    let (number, new) = (writes.len(), &change.to_install().bytes);
    assert_eq!(
        old.len(),
        new.len(),
        "the checker has seen to it that a site keeps its length"
    );
    // Written where they stay: what is made first and copied then waits for all that is still to be
    // written before it, a tenth of what a change takes among a hundred thousand.
    let at = change.range.start();
    writes.extend(iter::once_with(|| SiteWrite {
        at,
        old: short::ROOM,
        new: short::ROOM,
    }));
    if let Some(write) = writes.last_mut() {
        short::assign(&mut write.old, old);
        short::assign(&mut write.new, new);
    }
    if let Some(exchange) = &change.exchange {
        ranges.push(exchange.range());
        return Ok(());
    }
    ranges.push(change.range);
    let memory = site.memory_at(change.range.start()).map_err(Error::from)?;
    match memories.last_mut() {
        Some(room) if room.changes.is_empty() => {
            room.memory.hold(memory);
            room.changes = number..number + 1;
        }
        Some(last) if last.memory.is(memory) && last.changes.end == number => last.changes.end += 1,
        _ => memories.push(SameMemory {
            memory: HeldMemory::of(memory),
            runs: SmallVec::new(),
            changes: number..number + 1,
            good: true,
        }),
    }
    Ok(())
}

/// Adds a range to those that are published. One that begins near the end of the last, as rooms of one
/// block and most sites of a batch do, is published with that and what is between them.
#[inline]
pub(super) fn publish_too(ranges: &mut Vec<CodeRange>, range: CodeRange) {
    let last = ranges.last_mut().filter(|last| last.start() <= range.start());
    if let Some(last) = last {
        let whole = CodeRange::new(last.start(), range.end().distance_from(last.start()) as u64);
        let gap = range.start().distance_from(last.end()) as u64;
        if let Some(whole) = whole.filter(|_| gap < NEAR) {
            *last = whole;
            return;
        }
    }
    ranges.push(range);
}

/// In bytes: what is between has one or two cache lines, on the pages of both.
const NEAR: u64 = 64;

/// The module of a change of a transaction that has sites in these.
fn module<'m>(modules: &'m [Module], change: &SiteChange) -> &'m Module {
    let module = modules.get(change.module as usize);
    module.or_abort("the module of each change is one of the transaction's")
}

impl ChangeSet {
    /// Room for so many changes.
    pub(super) fn reserve(&mut self, len: usize) {
        self.changes.reserve(len);
        self.writes.reserve(len);
        self.ranges.reserve(len);
    }

    /// Room for one more change, in its place: it is written there, and then [added](Self::add). It is freed
    /// with the others even if that fails. Made apart and copied, it waits for what was just written: a
    /// thirtieth of an invalidation.
    #[inline]
    pub(super) fn next_change(&mut self) -> &mut SiteChange {
        self.changes.push(SiteChange::ROOM);
        self.changes.last_mut().expect("one has just been added")
    }

    /// Adds the change that was written last, of a site that holds `old`.
    ///
    /// # Errors
    /// [`memory::Error::OutsideMemory`](crate::memory::Error::OutsideMemory) for a site whose pages do not exist.
    #[inline(always)] // Called, it copies the change once more.
    pub(super) fn add(&mut self, site: &Site, old: &Bytes, publisher: &Publisher) -> Boxed<()> {
        let module = self.number_of_module(site);
        let (change, before) = self.changes.split_last_mut().expect("one has just been added");
        change.module = module;
        let last = before.last();
        self.is_sorted &= last.is_none_or(|last| last.order() <= change.order());
        // Whether code is abandoned, which nobody may execute afterwards.
        self.ends |= matches!(change.status, Status::Invalidated | Status::Redirected);
        self.until_run |= change.until_run;
        self.has_code |= !change.exit_stubs.is_empty() || change.old_stub != OldStub::None;
        match &change.exchange {
            None => self.quiescent += 1,
            Some(exchange) => {
                self.has_code = true;
                self.rewrites |= exchange.is_rewriting();
                self.notes_traps |= exchange.notes_trap();
            }
        }
        if publisher.takes_ranges() {
            let exit_stubs = change.exit_stubs.iter().map(ExitStub::range);
            let stub = change.to_install().stub.iter().map(|stub| stub.slot.range());
            for range in exit_stubs.chain(stub) {
                publish_too(&mut self.of_stubs, range);
            }
        }
        let (writes, ranges) = (&mut self.writes, &mut self.ranges);
        note(&mut self.memories, (writes, ranges), (site, change), old)
    }

    /// The number of a site's module, which is kept last or will be next.
    #[inline]
    pub(super) fn number_of_module(&self, site: &Site) -> u32 {
        (self.modules.len() - usize::from(self.has_module(site))) as u32
    }

    /// How many sites are changed.
    #[inline]
    pub(super) fn len(&self) -> usize {
        match self.is_of_one_memory {
            // Then there are no batches.
            true => self.changes.len(),
            false => self.len_with_batches(),
        }
    }

    #[inline(never)] // Few transactions have batches.
    fn len_with_batches(&self) -> usize {
        let in_batches: usize = self.batches.iter().map(SiteBatch::len).sum();
        self.changes.len() + in_batches
    }

    /// Makes changes of its own of each site of a batch, behind the others: of a transaction that has
    /// failed, for whoever tells why.
    #[cold]
    pub(super) fn take_batches_apart(&mut self, states: &mut States) {
        for batch in mem::take(&mut self.batches) {
            batch.into_changes(states, |site, mut change, write| {
                change.module = self.number_of_module(&site);
                if !self.has_module(&site) {
                    self.modules.push(site.into_module());
                }
                self.changes.push(change);
                self.writes.push(write);
            });
        }
    }

    /// Moves the changes from that number on, which are of quiescent sites, before those of live ones. What
    /// was noted by number is then told.
    #[cold]
    pub(super) fn put_before_live(&mut self, from: usize) {
        let live = from - self.quiescent;
        let moved = self.changes.get_mut(self.quiescent..);
        moved
            .or_abort("quiescent changes are some of all")
            .rotate_left(live);
        let moved = self.writes.get_mut(self.quiescent..);
        moved.or_abort("each change has a write").rotate_left(live);
        self.quiescent += self.changes.len() - from;
    }

    /// Whether the module that was kept last is that of this site.
    #[inline]
    pub(super) fn has_module(&self, site: &Site) -> bool {
        self.modules
            .last()
            .is_some_and(|last| last.is_same(site.module()))
    }

    /// Keeps the module of a site of which a change has just been added, by `kept` if that is a handle
    /// of it.
    #[inline]
    pub(super) fn keep_module(&mut self, site: Cow<'_, Site>, kept: &mut Option<Module>) {
        let site = match site {
            Cow::Borrowed(site) => site.handle_by(kept),
            Cow::Owned(site) => site,
        };
        self.modules.push(site.into_module());
    }

    /// Takes out the module of the last change, whose handle nobody needs any more.
    #[inline]
    pub(super) fn take_module(&mut self) -> Option<Module> {
        self.modules.pop()
    }

    /// Brings the changes into their order and finds what they are together.
    ///
    /// # Errors
    /// [`Error::SiteInvalidated`]: nothing of what was asked for can be done;
    /// [`memory::Error::OutsideMemory`](crate::memory::Error::OutsideMemory) for a site whose pages do not exist.
    pub(super) fn seal(&mut self, states: &States, shared: &Shared) -> Boxed<()> {
        // protection: nothing-valid-is-an-error
        if let (Some(site), true, 0) = (self.invalidated.first(), self.changes.is_empty(), self.unchanged) {
            return Err(Error::SiteInvalidated { site: site.name() }.into());
        }
        if !self.open.is_empty() {
            self.batches.extend(self.open.take());
        }
        // protection: changes-that-came-in-another-order-are-sorted
        if !self.is_sorted {
            self.sort(states)?;
        }
        // protection: no-memory-is-left-out
        let first = self.memories.first().map(|memory| &memory.changes);
        self.is_of_one_memory = first == Some(&(0..self.changes.len())) && self.batches.is_empty();
        let longest = self.writes.iter().map(|write| write.new.len());
        let longest = longest.chain(self.batches.iter().map(SiteBatch::site_len));
        self.found.make_room(longest.fold(0, usize::max));
        // protection: sites-of-batches-are-published
        if !self.batches.is_empty() && shared.publisher.takes_ranges() {
            let mut of_batches = Vec::new();
            for batch in &self.batches {
                batch.each_run(NEAR, |run| publish_too(&mut of_batches, run));
            }
            self.ranges.append(&mut of_batches);
        }
        self.of_sites = self.ranges.len();
        // protection: stubs-are-published-with-their-sites
        if !self.of_stubs.is_empty() {
            self.ranges.extend_from_slice(&self.of_stubs);
        }
        self.level = match (self.is_live(), self.ends) {
            // protection: invalidation-is-immediate
            (true, true) => Level::Immediate,
            (true, false) => Level::Eventual,
            (false, _) => shared.level,
        };
        for of_others in self
            .memories
            .iter_mut()
            .filter(|memory| !memory.changes.is_empty())
        {
            if let MemoryKind::Other(memory) = &of_others.memory.kind {
                self.has_others = true;
                let own = self.ranges.get(of_others.changes.clone());
                let own = own.expect("each change has a range");
                let mut ranges: SmallVec<[CodeRange; 8]> = own.into();
                of_others.runs = PageRun::cover(&mut ranges).map_err(Error::from)?;
                memory.make_room(of_others.runs.len());
            }
        }
        Ok(())
    }

    /// Sorts the changes, and lists anew what is in their order.
    #[inline(never)]
    fn sort(&mut self, states: &States) -> Boxed<()> {
        self.changes.sort_by_key(SiteChange::order);
        self.writes.clear();
        self.ranges.clear();
        self.memories.clear();
        for change in &self.changes {
            let state = states.at(change.index);
            let state = state.expect("nobody has unregistered the site of a change that is being prepared");
            let lists = (&mut self.writes, &mut self.ranges);
            let site = module(&self.modules, change).handle(change.site.index);
            note(&mut self.memories, lists, (&site, change), &state.installed.bytes)?;
        }
        Ok(())
    }

    /// The sites of its changes.
    pub(super) fn sites(&self) -> impl Iterator<Item = Site> {
        self.changes.iter().map(|change| self.site(change))
    }

    /// The site of one of its changes.
    pub(super) fn site(&self, change: &SiteChange) -> Site {
        self.module(change).handle(change.site.index)
    }

    /// Its module.
    pub(super) fn module(&self, change: &SiteChange) -> &Module {
        module(&self.modules, change)
    }

    /// The changes of live sites, to be undone or retired.
    pub(super) fn live_mut(&mut self) -> &mut [SiteChange] {
        let live = self.changes.get_mut(self.quiescent..);
        live.or_abort("quiescent changes are some of all")
    }

    /// The changes of live sites.
    #[inline]
    pub(super) fn live(&self) -> &[SiteChange] {
        let live = self.changes.get(self.quiescent..);
        live.or_abort("quiescent changes are some of all")
    }

    /// What is published of stubs and exit stubs.
    pub(super) fn outside(&self) -> &[CodeRange] {
        let outside = self.ranges.get(self.of_sites..);
        outside.or_abort("the ranges of sites are some of all")
    }

    /// Whether there are changes, all of them of live sites, so that no thread has to be stopped.
    #[inline]
    pub(super) fn is_live(&self) -> bool {
        self.quiescent == 0 && !self.changes.is_empty() && self.batches.is_empty()
    }

    /// What was committed, for the journal.
    pub(super) fn records(&self) -> impl ExactSizeIterator<Item = Record<'_>> {
        let both = self.changes.iter().zip(&self.writes);
        both.map(|(change, write)| Record {
            site: change.site,
            addr: write.at,
            // What has been replaced is in its place.
            // protection: journal-has-both-sides
            generation: change.installed.generation() + 1,
            became: change.status,
            before: &write.old,
            after: &write.new,
        })
    }

    /// Drops all that it refers to but for one memory, and keeps the room; what was installed, and
    /// how, is room for what is to be, if that is not too much.
    pub(super) fn clear(&mut self, installed_room: &mut InstalledRoom, live_room: &mut LiveRoom) {
        for change in &mut self.changes {
            installed_room.keep_of(&mut change.installed);
            if let Some(exchange) = change.exchange.take() {
                live_room.keep_exchange(exchange);
            }
        }
        // protection: room-has-no-changes
        self.changes.clear();
        self.batches.clear();
        self.installed_batches.clear();
        self.writes.clear();
        while self.memories.len() > 1 {
            self.memories.pop();
        }
        if let Some(room) = self.memories.first_mut() {
            room.become_room();
        }
        self.modules.clear();
        self.ranges.clear();
        self.invalidated.clear();
        self.found.clear();
        self.of_stubs.clear();
        (self.unchanged, self.quiescent) = (0, 0);
        (self.is_sorted, self.ends) = (true, false);
        (self.until_run, self.has_code, self.exposed) = (false, false, false);
        (self.rewrites, self.notes_traps, self.has_others) = (false, false, false);
        self.prepared = Duration::ZERO;
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;
    use crate::invariant::tests::last_words;

    #[test]
    fn a_commit_that_has_lost_count_of_its_writes_writes_nothing_and_ends() {
        let set = ChangeSet {
            quiescent: 1,
            of_sites: 1,
            ..ChangeSet::default()
        };
        let words = last_words(|| assert!(set.live().is_empty()));
        assert!(words.contains("quiescent changes are some of all"), "{words}");
        let words = last_words(|| assert!(set.outside().is_empty()));
        assert!(words.contains("the ranges of sites are some of all"), "{words}");
    }
}
