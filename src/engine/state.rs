//! What the engine remembers of sites that it has changed. A site that was never changed has no
//! state.

use core::any::Any;
use core::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use smallvec::SmallVec;

use super::exits::StackAt;
use super::journal::{Journal, JournalEntry};
use super::live::Armed;
use super::observe::Owner;
use super::retire::{RetireList, RetiredCode};
use super::templates::Templates;
use super::work::Work;
use crate::addr::{CodeAddr, CodeRange, Len};
use crate::arch::SiteKind;
use crate::invariant::OrAbort;
use crate::memory::StubSlot;
use crate::memory::short::{self, Bytes};
use crate::sequence::{Outline, Sequence, Variant};
use crate::site::{Module, Site, SiteKey};
use crate::verify::{self, Original};
use crate::{Error, Result};

/// What stands in a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Status {
    /// The bytes that stood there when it was registered.
    Original,
    /// A sequence.
    Patched,
    /// A way to its exit stub, for good.
    Invalidated,
    /// A jump away: nobody enters its function any more.
    Redirected,
    /// A failed roll-back left it in doubt: it cannot be changed any more.
    Lost,
}

/// The three exit stubs that a site can have; they differ in where they resume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExitStubKind {
    /// `Target::Miss`: resumes at the site's end.
    Miss,
    /// `Target::Deopt` of a sequence: resumes with the original instructions.
    Deopt,
    /// Invalidation: resumes with what the site did before.
    Invalidated,
}

/// An exit stub whose code is in place.
pub(super) struct ExitStub {
    pub(super) kind: ExitStubKind,
    pub(super) slot: StubSlot,
    pub(super) owner: Owner,
    pub(super) stack: Box<[StackAt]>,
    /// Of the stub in which a thread that leaves it goes on, if it is one.
    pub(super) resumes_in: Option<LeadsTo>,
    /// What the code refers to.
    pub(super) _keep: Box<dyn Any + Send + Sync>,
}

/// Offsets in a site to which return addresses may point, ascending. Most sites have none.
pub(super) type ReturnOffsets = Vec<u32>;

/// What stands in a site, and what is known of it: what a commit exchanges, by its pointer.
pub(super) struct Installed {
    pub(super) status: Status,
    pub(super) bytes: Bytes,
    /// Offsets to which return addresses may point, from bytes that have been replaced. Ascending.
    pub(super) return_offsets: ReturnOffsets,
    /// Offsets to which calls of the bytes return. Ascending.
    pub(super) returns: ReturnOffsets,
    /// The sequence that stands there now, or stood there when it was invalidated.
    pub(super) sequence: Option<Variant>,
    pub(super) stub: Option<Box<Stub>>,
    /// Counts the changes.
    pub(super) generation: u64,
}

/// The state of a site that has been changed, or for which a change has been prepared. It is small:
/// states lie side by side, and a commit touches this much of each.
pub(super) struct SiteState {
    /// Never the same twice for a place in [`States`], so that a change which was prepared for
    /// another is found out.
    version: u64,
    pub(super) installed: Box<Installed>,
    pub(super) lasting: Box<Lasting>,
}

/// What stays with a site whatever stands there.
pub(super) struct Lasting {
    /// The site's module, which is registered as long as this is here.
    module: Module,
    /// The site's bytes.
    pub(super) range: CodeRange,
    pub(super) original: Arc<[u8]>,
    /// The original instructions that lose bytes to a sequence: the original bytes, and of a shadow
    /// the rest of its last instruction.
    pub(super) displaced: Arc<[u8]>,
    /// The stub of the sequence that a lost site may hold.
    pub(super) doubtful: Option<Box<Stub>>,
    /// Stubs that the runtime has published for it.
    pub(super) published: Vec<StubSlot>,
    pub(super) exit_stubs: Vec<ExitStub>,
    /// Bytes of its stubs and exit stubs that have been given back.
    pub(super) reclaimed: u64,
    /// What arming has made of it, if it is live.
    pub(super) live: Option<Armed>,
    /// Whether it is a call site. It is asked for each change.
    pub(super) is_call: bool,
    /// The number of its kind, if it has one: see [`super::templates`].
    pub(super) kind: OnceCell<Option<u32>>,
    /// The number of the template that was filled last for it.
    pub(super) template: Cell<u32>,
}

/// Out-of-line code of a sequence.
pub(super) struct Stub {
    pub(super) slot: StubSlot,
    pub(super) owner: Owner,
    pub(super) code: Vec<u8>,
    /// Whether a callee of it could return into it.
    pub(super) calls: bool,
    /// One more than there are exits that resume in it, if there ever was one.
    exits: OnceCell<LeadsTo>,
}

/// Held by an exit that resumes in a stub, which is not freed before.
pub(super) type LeadsTo = Arc<()>;

impl Stub {
    /// One whose code is not there yet.
    pub(super) fn empty(slot: StubSlot, owner: Owner) -> Box<Self> {
        Box::new(Self {
            slot,
            owner,
            code: Vec::new(),
            calls: true,
            exits: OnceCell::new(),
        })
    }

    /// For an exit that resumes in it.
    pub(super) fn leads_to(&self) -> LeadsTo {
        Arc::clone(self.exits.get_or_init(LeadsTo::default))
    }

    /// Whether there is an exit that resumes in it.
    pub(super) fn is_led_to(&self) -> bool {
        self.exits.get().is_some_and(|exits| Arc::strong_count(exits) > 1)
    }
}

impl Default for Installed {
    fn default() -> Self {
        Self::original(&[], &[])
    }
}

impl Installed {
    /// Says what its bytes are, and for which sequence they stand.
    pub(super) fn stand_for(&mut self, status: Status, sequence: Option<Variant>) {
        self.status = status;
        self.sequence = sequence;
    }

    /// The same, for the sequence of that outline; the words of `like` are the same.
    #[inline]
    pub(super) fn stand_like(&mut self, status: Status, like: &Sequence, outline: &Outline) {
        self.status = status;
        match &mut self.sequence {
            Some(before) => before.become_like(like, outline),
            none => *none = Some(Variant::of(like, outline)),
        }
    }

    /// What stands in a site that has not been changed.
    pub(super) fn original(bytes: &[u8], returns: &[u32]) -> Self {
        Self {
            status: Status::Original,
            bytes: short::of(bytes),
            return_offsets: ReturnOffsets::new(),
            returns: returns.to_vec(),
            sequence: None,
            stub: None,
            generation: 0,
        }
    }

    /// Whether return addresses may point into it once its code has been run.
    #[inline]
    pub(super) fn has_return_offsets(&self) -> bool {
        !(self.return_offsets.is_empty() && self.returns.is_empty())
    }

    /// Offsets to which return addresses may point then.
    pub(super) fn all_return_offsets(&self) -> ReturnOffsets {
        let mut return_offsets: ReturnOffsets =
            self.return_offsets.iter().chain(&self.returns).copied().collect();
        return_offsets.sort_unstable();
        return_offsets.dedup();
        return_offsets
    }
}

impl SiteState {
    /// The state of a site that has not been changed yet.
    fn unchanged(site: &Site) -> Result<Self> {
        // protection: old-bytes-are-compared-before-the-first-patch
        let displaced = site.displaced();
        let returns = returns_of(site, displaced)?;
        let original = displaced.get(..site.reserved().as_usize());
        let original = original.expect("what a site displaces begins with its reserved bytes");
        Ok(Self::new(site, original.into(), displaced.into(), &returns, None))
    }

    /// The state of a live site that has just been armed. What `restore` puts back is its armed
    /// form.
    pub(super) fn armed(site: &Site, displaced: Arc<[u8]>, armed: Arc<[u8]>, live: Armed) -> Self {
        Self::new(site, armed, displaced, &[], Some(live))
    }

    fn new(
        site: &Site,
        original: Arc<[u8]>,
        displaced: Arc<[u8]>,
        returns: &[u32],
        live: Option<Armed>,
    ) -> Self {
        Self {
            version: 0,
            installed: Box::new(Installed::original(&original, returns)),
            lasting: Box::new(Lasting {
                module: site.module().clone(),
                range: site.range(),
                original,
                displaced,
                doubtful: None,
                published: Vec::new(),
                exit_stubs: Vec::new(),
                reclaimed: 0,
                live,
                is_call: site.shape().kind() == SiteKind::Call,
                kind: OnceCell::new(),
                template: Cell::default(),
            }),
        }
    }

    /// Whether nothing has changed here since [`version`](Self::version) said so.
    #[inline]
    pub(super) fn is_still(&self, version: u64) -> bool {
        self.version == version
    }

    /// A number that changes with the site.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// Everything outside the site, which has that key, that belongs to it. What is retired may
    /// lead to the stubs.
    fn into_code(self, site: SiteKey) -> SitesCode {
        let Lasting {
            doubtful,
            published,
            exit_stubs,
            live,
            ..
        } = *self.lasting;
        let of_no_change = Owner { site, generation: 0 };
        let armed = live.into_iter().flat_map(|armed| armed.stubs);
        let others = armed.chain(published).map(|slot| (of_no_change, slot));
        let exit_stubs = exit_stubs
            .into_iter()
            .map(|exit_stub| (exit_stub.owner, exit_stub.slot));
        SitesCode {
            slots: exit_stubs.chain(others).collect(),
            stubs: self.installed.stub.into_iter().chain(doubtful).collect(),
        }
    }

    /// The same, where it is.
    pub(super) fn slots(&self) -> impl Iterator<Item = &StubSlot> {
        let Lasting {
            doubtful,
            published,
            exit_stubs,
            live,
            ..
        } = &*self.lasting;
        let stubs = self.installed.stub.iter().chain(doubtful);
        let armed = live.iter().flat_map(|armed| &armed.stubs);
        let exit_stubs = exit_stubs.iter().map(|exit_stub| &exit_stub.slot);
        exit_stubs
            .chain(stubs.map(|stub| &stub.slot))
            .chain(armed)
            .chain(published)
    }

    pub(super) fn exit_stub(&self, kind: ExitStubKind) -> Option<CodeAddr> {
        self.lasting
            .exit_stubs
            .iter()
            .find(|exit_stub| exit_stub.kind == kind)
            .map(|exit_stub| exit_stub.slot.addr())
    }
}

/// The out-of-line code of a site that is forgotten.
pub(super) struct SitesCode {
    /// Exits, whatever arming has made, and what the runtime has published.
    pub(super) slots: Vec<(Owner, StubSlot)>,
    pub(super) stubs: SmallVec<[Box<Stub>; 1]>,
}

/// The number of a site's place in [`States`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place(usize);

/// The states of all sites that have one.
#[derive(Default)]
pub(super) struct States {
    /// Side by side, so that a commit finds those of its sites without a search.
    places: Vec<Option<SiteState>>,
    free: Vec<Place>,
    by_site: HashMap<SiteKey, Place, RandomState>,
    /// Counts what gives states their versions.
    versions: u64,
    /// Stubs that no site leads to any more, but into which a callee could still return.
    pub(super) retired: RetireList<RetiredCode>,
    pub(super) journal: Journal,
    /// What is known of sequences, for whoever prepares a change.
    pub(super) templates: RefCell<Templates>,
    /// What commits were made of that is not in the journal yet, newest first.
    unfiled: Option<Box<Work>>,
    /// The room that one of them took, for the next. It holds the memories of registered modules.
    spare: Option<Box<Work>>,
}

impl States {
    pub(super) fn new(journal: usize) -> Self {
        let mut states = Self::default();
        states.journal = Journal::new(journal);
        states
    }

    /// Gives a site its state.
    pub(super) fn insert(&mut self, key: SiteKey, mut state: SiteState) -> Place {
        // protection: state-of-the-successor
        state.version = self.next_version();
        let place = match self.free.pop() {
            Some(given_up) => {
                let empty = self.places.get_mut(given_up.0);
                *empty.expect("a place that was given up is still there") = Some(state);
                given_up
            }
            None => {
                self.places.push(Some(state));
                Place(self.places.len() - 1)
            }
        };
        self.by_site.insert(key, place);
        place
    }

    /// The place of a registered site. Its state is made from what the site held at its
    /// registration the first time.
    pub(super) fn place_of(&mut self, site: &Site) -> Result<Place> {
        match self.known(site) {
            Some(place) => Ok(place),
            None => Ok(self.insert(site.key(), SiteState::unchanged(site)?)),
        }
    }

    /// The place of a site, if it has one. Its module is registered then: states go with their
    /// modules. One that is of another engine, or was registered once, may have the same key, but
    /// is not the same module.
    pub(super) fn known(&self, site: &Site) -> Option<Place> {
        let place = *self.by_site.get(&site.key())?;
        let state = self.at(place).expect("a listed site has a state");
        let module = &state.lasting.module;
        // protection: state-of-another-engine
        module.is_same(site.module()).then_some(place)
    }

    /// The site one of whose stubs or exit stubs contains `addr`.
    pub(super) fn site_of_stub(&self, addr: CodeAddr) -> Option<SiteKey> {
        let holds = |state: &SiteState| state.slots().any(|slot| slot.range().contains(addr));
        let mut sites = self.by_site.iter();
        let found = sites.find(|(_, place)| self.at(**place).is_some_and(holds));
        found.map(|(key, _)| *key)
    }

    /// The state of a site, if it has one.
    pub(super) fn of(&self, key: SiteKey) -> Option<&SiteState> {
        let state = self.at(*self.by_site.get(&key)?);
        Some(state.expect("a listed site has a state"))
    }

    pub(super) fn of_mut(&mut self, key: SiteKey) -> Option<&mut SiteState> {
        let place = *self.by_site.get(&key)?;
        let state = self.places.get_mut(place.0).and_then(Option::as_mut);
        Some(state.expect("a listed site has a state"))
    }

    /// The state in a place. There is none any more where the module was unregistered after a
    /// change was prepared.
    #[inline]
    pub(super) fn at(&self, place: Place) -> Option<&SiteState> {
        self.places.get(place.0)?.as_ref()
    }

    /// Marks a site as left in doubt. What its new bytes may lead to is kept with it until its
    /// module goes.
    pub(super) fn lose(&mut self, place: Place, exit_stubs: &mut Vec<ExitStub>, stub: Option<Box<Stub>>) {
        let version = self.next_version();
        let state = self.written(place);
        // protection: prepared-before-a-loss
        state.version = version;
        state.installed.status = Status::Lost;
        state.installed.generation += 1;
        state.lasting.exit_stubs.append(exit_stubs);
        // protection: stub-of-a-lost-site-is-kept
        state.lasting.doubtful = stub;
    }

    /// Adds exit stubs to those of a site.
    pub(super) fn keep_exit_stubs(&mut self, place: Place, exit_stubs: &mut Vec<ExitStub>) {
        self.written(place).lasting.exit_stubs.append(exit_stubs);
    }

    /// Notes that a stub or exit stub of a site is given back. A site that is gone counts nothing.
    pub(super) fn note_reclaimed(&mut self, site: SiteKey, slot: &StubSlot) {
        if let Some(state) = self.of_mut(site) {
            state.lasting.reclaimed += slot.range().len();
        }
    }

    /// Lets a site keep the stub of what has just been replaced.
    #[cold]
    pub(super) fn keep_stub(&mut self, place: Place, stub: Box<Stub>) {
        self.written(place).installed.stub = Some(stub);
    }

    /// Puts what stands in a site from now on into its state, under a version that was never there,
    /// and what stood there into its place.
    #[inline]
    pub(super) fn exchange(&mut self, place: Place, installed: &mut Box<Installed>, version: u64) {
        // protection: what-was-written-has-a-state
        let state = self.written(place);
        state.version = version;
        std::mem::swap(&mut state.installed, installed);
    }

    /// The state of a site that a commit has written. It was found current under the same lock;
    /// without it, nobody would know what the site holds now.
    #[inline]
    fn written(&mut self, place: Place) -> &mut SiteState {
        let state = self.places.get_mut(place.0).and_then(Option::as_mut);
        state.or_abort("a site that was written has a state")
    }

    /// A version that no state has had.
    #[inline]
    pub(super) fn next_version(&mut self) -> u64 {
        self.versions += 1;
        self.versions
    }

    /// Keeps what a commit was made of. It was allocated already, so there is always room for it.
    #[inline]
    pub(super) fn leave(&mut self, mut work: Box<Work>) {
        work.next = self.unfiled.take();
        self.unfiled = Some(work);
    }

    /// What the last commit was made of.
    pub(super) fn newest(&self) -> Option<&Work> {
        self.unfiled.as_deref()
    }

    /// Lets go of what commits were made of: they hold modules and memories.
    pub(super) fn let_go(&mut self) {
        self.file_unfiled();
        // protection: room-holds-no-memory
        self.spare = None;
    }

    /// Writes what commits were made of into the journal, and frees the rest of it.
    pub(super) fn file_unfiled(&mut self) {
        match self.unfiled.take() {
            Some(work) if work.next.is_none() => self.file(work),
            Some(work) => self.file_all(work),
            None => {}
        }
    }

    fn file_all(&mut self, newest: Box<Work>) {
        let mut newest = Some(newest);
        let mut oldest: Option<Box<Work>> = None;
        while let Some(mut work) = newest {
            newest = work.next.take();
            work.next = oldest;
            oldest = Some(work);
        }
        while let Some(mut work) = oldest {
            oldest = work.next.take();
            self.file(work);
        }
    }

    #[inline]
    fn file(&mut self, mut work: Box<Work>) {
        work.file(&mut self.journal);
        if work.is_small() {
            work.clear();
            self.spare = Some(work);
        }
    }

    /// Room for a transaction.
    #[expect(
        clippy::disallowed_methods,
        reason = "without room of an earlier one it is made"
    )]
    pub(super) fn room(&mut self) -> Box<Work> {
        self.spare.take().unwrap_or_default()
    }

    /// What the journal has of all commits.
    pub(super) fn journal_entries(&mut self) -> Vec<JournalEntry> {
        self.file_unfiled();
        self.journal.entries()
    }

    /// Forgets a site, and returns everything outside of it that belongs to it, if it has a state.
    pub(super) fn remove(&mut self, key: SiteKey) -> Option<SitesCode> {
        let place = self.by_site.remove(&key)?;
        self.free.push(place);
        let state = self.places.get_mut(place.0).and_then(Option::take);
        let state = state.expect("a listed site has a state");
        Some(state.into_code(key))
    }
}

impl Drop for States {
    /// Freeing a list by its first member recurs, as often as it is long.
    fn drop(&mut self) {
        // protection: unfiled-work-is-freed-one-by-one
        self.file_unfiled();
    }
}

/// The offsets in the site to which calls in these bytes of it return, without its end.
pub(super) fn returns_of(site: &Site, bytes: &[u8]) -> Result<Vec<u32>> {
    let returns = match verify::original(site.module().arch(), site.addr(), bytes)? {
        Original::Nops => Vec::new(),
        Original::LlvmCall { returns_at, .. } => vec![returns_at],
        Original::Instructions { calls } => calls,
    };
    Ok(returns
        .into_iter()
        .filter(|at| *at < site.reserved().get())
        .collect())
}

/// Original bytes that come back must keep the return offsets as any sequence does, unless a return
/// offset is one of their own: then what returned there before may return there again.
pub(super) fn check_keeps_return_offsets(
    site: &Site,
    original: &[u8],
    returns: &[u32],
    return_offsets: &[u32],
) -> Result<()> {
    for return_offset in return_offsets
        .iter()
        .filter(|return_offset| !returns.contains(return_offset))
    {
        let tail = original.get(*return_offset as usize..);
        let tail = tail.expect("a return offset is one of the site's");
        let addr = site.addr().plus(Len::new(*return_offset));
        let addr = addr.expect("a site's bytes have addresses");
        let nops = matches!(
            verify::original(site.module().arch(), addr, tail),
            Ok(Original::Nops)
        );
        let boundary =
            verify::boundaries(site.module().arch(), site.addr(), original).contains(return_offset);
        if !nops || !boundary {
            return Err(Error::ReturnOffsetLost {
                site: site.name(),
                return_offset: *return_offset,
            });
        }
    }
    Ok(())
}

/// Refuses a change of a site that is lost, and whatever `sticky` refuses of one that is
/// invalidated or redirected.
pub(super) fn check_changeable(site: &Site, status: Status) -> Result<()> {
    match status {
        Status::Original | Status::Patched => Ok(()),
        // protection: invalidation-is-sticky
        Status::Invalidated => Err(Error::SiteInvalidated { site: site.name() }),
        // protection: redirection-is-for-good
        Status::Redirected => Err(Error::SiteRedirected { site: site.name() }),
        Status::Lost => Err(Error::SiteLost { site: site.name() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn what_was_written_is_not_forgotten_where_its_state_is_gone() {
        let words = crate::invariant::tests::last_words(|| {
            let mut installed = Box::default();
            States::new(1).exchange(Place(0), &mut installed, 1);
        });
        assert!(words.contains("a site that was written has a state"), "{words}");
    }

    #[test]
    fn any_number_of_commits_may_be_left() {
        let mut states = States::new(1);
        (0..50_000).for_each(|_| states.leave(Box::default()));
        drop(states);
    }
}
