//! What the engine remembers of sites that it has changed. A site that was never changed has no
//! state.

use core::cell::{Cell, OnceCell, RefCell};
use core::mem;

use smallvec::SmallVec;

use super::batch::Batches;
use super::change::{ChangeSet, MANY};
use super::exit_stub::{ExitStub, ExitStubKind, ExitStubList};
use super::exits::{ExitResumption, ExitRooms};
use super::installed::{Held, Installed, InstalledRoom, Stub};
use super::journal::{Journal, JournalEntry, Record};
use super::live::{Armed, LiveRoom, Settling};
use super::observe::CodeOwner;
use super::originals::{Originals, SiteFacts};
use super::retire::{RetireList, RetiredCode};
pub(super) use super::state_table::StateIndex;
use super::state_table::{Places, StatePlace, StateTable};
use super::templates::Templates;
use crate::addr::{CodeAddr, CodeRange, Len};
use crate::invariant::OrAbort;
use crate::memory::fork::seat::Seat;
use crate::memory::short;
use crate::memory::{StubRoom, StubSlot};
use crate::publish::{CoarseTime, Key};
use crate::site::{Module, Site, SiteKey};
use crate::verify::{self, Original};
use crate::{Error, Result};

/// What a site holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Status {
    /// The bytes that it held when it was registered.
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

/// The state of a site that has been changed, or for which a change has been prepared.
#[derive(Clone, Copy)]
pub(super) struct SiteState<'s> {
    version: u64,
    pub(super) installed: &'s Installed,
    pub(super) lasting: &'s Lasting,
}

/// What changes with a site. It is small: these lie side by side, and a commit touches this much of
/// each site.
struct Changing {
    /// Never the same twice for a place in [`States`], so that a change which was prepared for
    /// another is found out.
    version: u64,
    installed: Held,
}

/// What stays with a site whatever is installed.
pub(super) struct Lasting {
    /// The site's bytes.
    pub(super) range: CodeRange,
    pub(super) exit_stubs: ExitStubList,
    /// Bytes of its stubs and exit stubs that have been reclaimed.
    pub(super) reclaimed: u64,
    /// What arming has made of it, if it is live.
    pub(super) live: Option<Box<Armed>>,
    /// Whether it is one of [`States::closed`].
    is_listed: bool,
    /// What few sites have.
    rare: Option<Box<Rare>>,
    pub(super) facts: SiteFacts,
    /// The number of its kind, if it has one, once somebody has asked: see [`super::templates`].
    pub(super) kind: OnceCell<Option<u32>>,
    /// The number of the template that was filled last for it.
    pub(super) template: Cell<u32>,
}

/// What stays with few sites: most have no room for it.
#[derive(Default)]
struct Rare {
    /// The stub of the sequence that a lost site may hold.
    doubtful: Option<Box<Stub>>,
    /// Stubs that the runtime has published for it.
    published: Vec<StubSlot>,
    /// The version that closed it by a trap, if one has. It stays closed when it is patched.
    closed_since: Option<u64>,
}

impl Lasting {
    /// Of a site that has not been changed yet.
    fn new(site: &Site, facts: SiteFacts, live: Option<Box<Armed>>) -> Self {
        Self {
            range: site.range(),
            exit_stubs: ExitStubList::new(),
            reclaimed: 0,
            live,
            is_listed: false,
            rare: None,
            facts,
            kind: OnceCell::new(),
            template: Cell::default(),
        }
    }

    fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    /// Keeps a stub that the runtime has published for the site.
    pub(super) fn publish(&mut self, stub: StubSlot) {
        self.rare().published.push(stub);
    }

    /// The number of its kind, of a live site that was armed, if it has one.
    #[inline]
    pub(super) fn armed_kind(&self) -> Option<u32> {
        self.kind.get().copied().flatten()
    }

    /// The version that closed it by a trap, if one has.
    pub(super) fn closed_since(&self) -> Option<u64> {
        self.rare.as_ref()?.closed_since
    }
}

impl<'s> SiteState<'s> {
    /// What `restore` puts back into the site, whose state this is: what it held when it was
    /// registered, or its armed form.
    #[inline]
    pub(super) fn original(self, site: &'s Site) -> &'s [u8] {
        match &self.lasting.live {
            Some(armed) => &armed.form,
            None => site.original(),
        }
    }

    /// The instructions that lose bytes to a sequence: what the site held when it was registered, and
    /// of a shadow the rest of its last instruction.
    pub(super) fn displaced(self, site: &'s Site) -> &'s [u8] {
        match &self.lasting.live {
            Some(armed) => &armed.displaced,
            None => site.displaced(),
        }
    }

    /// Where a thread goes on that resumes as if the site, whose state this is, still held that.
    #[inline]
    pub(super) fn resumption(self, site: &'s Site) -> ExitResumption<'s> {
        let displaced = || self.displaced(site);
        self.lasting.facts.resumption(self.lasting.range.end(), displaced)
    }

    /// A number that changes with the site.
    pub(super) fn version(self) -> u64 {
        self.version
    }

    /// Where everything outside the site is that belongs to it.
    pub(super) fn code(self) -> impl Iterator<Item = CodeRange> + use<'s> {
        let Lasting {
            rare,
            exit_stubs,
            live,
            ..
        } = self.lasting;
        let published = rare.iter().flat_map(|rare| &rare.published);
        let doubtful = rare.iter().flat_map(|rare| &rare.doubtful);
        let stubs = self.installed.stub.iter().chain(doubtful);
        let armed = live.iter().flat_map(|armed| &armed.stubs);
        let slots = stubs.map(|stub| &stub.slot).chain(armed).chain(published);
        let exit_stubs = exit_stubs.iter().map(ExitStub::range);
        exit_stubs.chain(slots.map(StubSlot::range))
    }

    pub(super) fn exit_stub(self, kind: ExitStubKind) -> Option<CodeAddr> {
        self.lasting
            .exit_stubs
            .iter()
            .find(|exit_stub| exit_stub.kind == kind)
            .map(ExitStub::addr)
    }
}

/// The out-of-line code of a site that is forgotten. What is retired may refer to the stubs.
pub(super) struct SitesCode {
    /// Exits, whatever arming has made, and what the runtime has published.
    pub(super) slots: Vec<(CodeOwner, StubSlot)>,
    pub(super) stubs: SmallVec<[Box<Stub>; 1]>,
}

impl SitesCode {
    /// That of a site that has only an exit stub.
    fn of_exit_stub(site: SiteKey, exit_stub: ExitStub) -> Self {
        Self {
            slots: vec![(exit_stub.owner(site), exit_stub.into_slot())],
            stubs: SmallVec::new(),
        }
    }

    /// That of the site with that key, whose state this was.
    fn of(site: SiteKey, stub: Option<Box<Stub>>, lasting: Lasting) -> Self {
        let Lasting {
            rare,
            exit_stubs,
            live,
            ..
        } = lasting;
        let (doubtful, published) = rare.map_or((None, Vec::new()), |rare| (rare.doubtful, rare.published));
        let of_no_change = CodeOwner { site, generation: 0 };
        let armed = live.into_iter().flat_map(|armed| armed.stubs.into_iter());
        let others = armed.chain(published).map(|slot| (of_no_change, slot));
        let exit_stubs = exit_stubs
            .into_iter()
            .map(|exit_stub| (exit_stub.owner(site), exit_stub.into_slot()));
        Self {
            slots: exit_stubs.chain(others).collect(),
            stubs: stub.into_iter().chain(doubtful).collect(),
        }
    }
}

/// The states of all sites that have one.
#[derive(Default)]
pub(super) struct States {
    /// Side by side, so that a commit finds those of its sites without a search.
    places: Vec<Option<Changing>>,
    /// What does not change with the sites in these places.
    lasting: Vec<Option<Lasting>>,
    free: Vec<StateIndex>,
    /// Of the table of sites, which changes under this lock only.
    pub(super) table_key: Key,
    /// The sites that have none of their own.
    pub(super) batches: Batches,
    /// A handle of the module that was changed last, for the next change.
    pub(super) kept_module: Option<Module>,
    pub(super) table: StateTable,
    /// How many sites are being changed, until one of them gets a state.
    expected: usize,
    /// Counts what gives states their versions.
    versions: u64,
    /// Stubs that no site branches to any more, but into which a callee could still return.
    pub(super) retired: RetireList<RetiredCode>,
    /// Live sites whose gate was closed since they were looked at for being settled.
    closed: Vec<SiteKey>,
    /// What sites hold that have not been changed.
    originals: Originals,
    /// Sites that are settled when every thread has passed their epoch.
    pub(super) settling: Vec<Settling>,
    /// Whether any site was ever closed by a trap, and left so.
    has_trapped: bool,
    pub(super) journal: Journal,
    /// How a commit goes through the gate of forks.
    pub(super) seat: Seat,
    /// What is known of sequences, for whoever prepares a change.
    pub(super) templates: RefCell<Templates>,
    /// Rooms for exit stubs, while a transaction is prepared.
    pub(super) exit_rooms: RefCell<ExitRooms>,
    /// Room for the stubs that templates make.
    pub(super) stub_room: RefCell<StubRoom>,
    /// What commits were made of that is not in the journal yet.
    #[allow(clippy::vec_box, reason = "a commit hands over a pointer")]
    unfiled: Vec<Box<ChangeSet>>,
    /// The room that one before took, for the next.
    spare: Option<Box<ChangeSet>>,
    /// What was installed in sites once.
    pub(super) installed_room: InstalledRoom,
    /// The same of what live sites were changed by, for whoever prepares a change.
    pub(super) live_room: RefCell<LiveRoom>,
}

impl States {
    pub(super) fn new(journal: usize, table_key: Key) -> Self {
        Self {
            table_key,
            journal: Journal::new(journal),
            ..Self::default()
        }
    }

    /// Gives a live site, which has just been armed, its state.
    pub(super) fn insert_armed(&mut self, site: &Site, armed: Armed) {
        let kind = self
            .templates
            .get_mut()
            .kinds
            .of(site, Some(armed.patchable_jump));
        let installed = Held::Own(Box::new(Installed::original(&armed.form, &[])));
        let (_, place) = self.insert(site, installed);
        let facts = SiteFacts::of(site, &armed.displaced);
        let lasting = place.insert(Lasting::new(site, facts, Some(Box::new(armed))));
        lasting.kind = kind.into();
    }

    /// Gives a site its state, all but what lasts, which is to be put where this says.
    #[inline(always)] // Called, it takes 30 instructions of a site's first change.
    fn insert(&mut self, site: &Site, installed: Held) -> (StateIndex, &mut Option<Lasting>) {
        // protection: state-of-the-successor
        let version = self.next_version();
        let index = match self.free.pop() {
            Some(given_up) => given_up,
            None => {
                self.places.push(None);
                self.lasting.push(None);
                StateIndex::new(self.places.len() - 1)
            }
        };
        self.table.insert(site, index);
        let at = index.number();
        let empty = self.places.get_mut(at).zip(self.lasting.get_mut(at));
        let (place, lasting) = empty.expect("a place that became free is still there, as is a new one");
        *place = Some(Changing { version, installed });
        (index, lasting)
    }

    /// The place of a registered site. Its state is made from what the site held at its
    /// registration the first time.
    ///
    /// A module that has states is registered: they go with it. Of others, `check_registered` says
    /// whether they are.
    #[inline(always)] // Called, it takes 37 instructions of a patch.
    pub(super) fn index_of(
        &mut self,
        site: &Site,
        check_registered: impl FnOnce() -> Result<()>,
    ) -> Result<StateIndex> {
        match self.table.of(site.module()) {
            Some(places) => match places.get(site.index()) {
                Some(StatePlace::State(index)) => return Ok(index),
                Some(StatePlace::Batch(part)) => return Ok(self.leave_batch(site, part)),
                None => {}
            },
            None => check_registered()?,
        }
        self.insert_unchanged(site)
    }

    /// The places of a module's sites, if one of them has a state.
    pub(super) fn places_in(&self, module: &Module) -> Option<&Places> {
        self.table.of(module)
    }

    /// Gives a site a state that is in that part of a batch.
    #[cold]
    fn leave_batch(&mut self, site: &Site, part: u32) -> StateIndex {
        let (installed, exit_stub, facts) = self.batches.take_out(part, site.key());
        let (index, lasting) = self.insert(site, Held::Own(Box::new(installed)));
        let lasting = lasting.insert(Lasting::new(site, facts, None));
        lasting.exit_stubs.push(exit_stub);
        index
    }

    /// The place of a site's state, if it was changed.
    pub(super) fn index_if_changed(&mut self, site: &Site) -> Option<StateIndex> {
        match self.table.get(site)? {
            StatePlace::State(index) => Some(index),
            StatePlace::Batch(part) => Some(self.leave_batch(site, part)),
        }
    }

    /// Makes room for the states of so many more sites.
    pub(super) fn make_room(&mut self, len: usize) {
        self.places.reserve(len);
        self.lasting.reserve(len);
    }

    /// So many sites are being changed: when the first of them turns out to have no state, room is made
    /// for those of all, once. None are, when that has ended.
    #[inline]
    pub(super) fn expect_sites(&mut self, len: usize) {
        self.expected = len;
        self.exit_rooms.get_mut().expect(len);
    }

    /// Gives room back that was made for the states of sites which are in batches.
    pub(super) fn give_room_back(&mut self) {
        let most = 2 * self.places.len() + MANY;
        self.places.shrink_to(most);
        self.lasting.shrink_to(most);
    }

    /// Makes the state of a site that has not been changed yet.
    #[inline(never)]
    fn insert_unchanged(&mut self, site: &Site) -> Result<StateIndex> {
        let expected = mem::take(&mut self.expected);
        self.make_room(expected);
        // protection: old-bytes-are-compared-before-the-first-patch
        let (original, facts) = self.originals.of(site)?;
        let (index, lasting) = self.insert(site, Held::Original(original));
        // Where it stays: what is made first and copied then waits for all that is still to be written
        // before it.
        *lasting = Some(Lasting::new(site, facts, None));
        Ok(index)
    }

    /// The site one of whose stubs or exit stubs contains `addr`.
    pub(super) fn site_of_stub(&self, addr: CodeAddr) -> Option<SiteKey> {
        let holds = |state: SiteState<'_>| state.code().any(|range| range.contains(addr));
        let mut sites = self.table.iter();
        let found = sites.find(|(key, place)| match *place {
            StatePlace::State(index) => self.at(index).is_some_and(holds),
            StatePlace::Batch(part) => self.batches.has(part, *key, addr),
        });
        found.map(|(key, _)| key)
    }

    /// The state of a site, if it has one.
    pub(super) fn of(&mut self, site: &Site) -> Option<SiteState<'_>> {
        let index = self.index_if_changed(site)?;
        let state = self.at(index);
        Some(state.expect("a listed site has a state"))
    }

    /// What does not change with a site, if it has a state.
    pub(super) fn lasting_of(&mut self, site: &Site) -> Option<&mut Lasting> {
        let index = self.index_if_changed(site)?;
        let lasting = self.lasting.get_mut(index.number()).and_then(Option::as_mut);
        Some(lasting.expect("a listed site has a state"))
    }

    /// The state in a place. There is none any more where the module was unregistered after a
    /// change was prepared.
    #[inline]
    pub(super) fn at(&self, index: StateIndex) -> Option<SiteState<'_>> {
        let changing = self.places.get(index.number())?.as_ref()?;
        let lasting = self.lasting.get(index.number())?.as_ref()?;
        Some(SiteState {
            version: changing.version,
            installed: changing.installed.get(&self.originals),
            lasting,
        })
    }

    /// Whether nothing has changed in a place since its [version](SiteState::version) was this.
    #[inline]
    pub(super) fn is_still(&self, index: StateIndex, version: u64) -> bool {
        let changing = self.places.get(index.number()).and_then(Option::as_ref);
        changing.is_some_and(|changing| changing.version == version)
    }

    /// Marks a site as left in doubt. What its new bytes may branch to is kept with it until its
    /// module goes.
    pub(super) fn lose(&mut self, index: StateIndex, exit_stubs: &mut ExitStubList, stub: Option<Box<Stub>>) {
        let version = self.next_version();
        // protection: prepared-before-a-loss
        self.written(index).version = version;
        let installed = self.own(index);
        installed.status = Status::Lost;
        installed.generation += 1;
        let lasting = self.written_lasting(index);
        lasting.exit_stubs.append(exit_stubs);
        // protection: stub-of-a-lost-site-is-kept
        lasting.rare().doubtful = stub;
    }

    /// Adds exit stubs to those of a site.
    #[inline]
    pub(super) fn keep_exit_stubs(&mut self, index: StateIndex, exit_stubs: &mut ExitStubList) {
        if exit_stubs.is_empty() {
            return;
        }
        let kept = &mut self.written_lasting(index).exit_stubs;
        match kept.is_empty() {
            true => mem::swap(kept, exit_stubs),
            false => kept.append(exit_stubs),
        }
    }

    /// Notes that a stub or exit stub of a site is reclaimed.
    pub(super) fn note_reclaimed(&mut self, index: StateIndex, code: CodeRange) {
        self.written_lasting(index).reclaimed += code.len();
    }

    /// Notes that the gate of a live site was closed.
    pub(super) fn note_closed(&mut self, index: StateIndex, site: SiteKey) {
        let lasting = self.written_lasting(index);
        if !std::mem::replace(&mut lasting.is_listed, true) {
            self.closed.push(site);
        }
    }

    /// Whether there are sites whose gate was closed since they were [taken](Self::take_closed).
    pub(super) fn has_closed(&self) -> bool {
        !self.closed.is_empty()
    }

    /// Takes out the sites whose gate was closed since this was asked last. The modules of some may be
    /// unregistered by now.
    pub(super) fn take_closed(&mut self) -> Vec<SiteKey> {
        std::mem::take(&mut self.closed)
    }

    /// Notes that a site was taken out of those whose gate was closed: the next change that closes it lists it
    /// again. Returns its place.
    pub(super) fn take_listed(&mut self, site: &Site) -> Option<StateIndex> {
        let index = self.index_if_changed(site)?;
        self.written_lasting(index).is_listed = false;
        Some(index)
    }

    /// Notes that a change has closed a site by a trap.
    pub(super) fn note_trapped(&mut self, index: StateIndex) {
        let version = self.written(index).version;
        self.written_lasting(index).rare().closed_since = Some(version);
        self.has_trapped = true;
    }

    /// Whether any site was ever closed by a trap, and left so.
    pub(super) fn has_trapped(&self) -> bool {
        self.has_trapped
    }

    /// Notes that a site was settled: these are its bytes now. Returns the stub that it was in, if it
    /// moves out of that.
    pub(super) fn note_settled(
        &mut self,
        (index, moves): (StateIndex, bool),
        (site, addr): (SiteKey, CodeAddr),
        bytes: &[u8],
        time: CoarseTime,
    ) -> Option<Box<Stub>> {
        let version = self.next_version();
        let changing = self.places.get_mut(index.number()).and_then(Option::as_mut);
        let changing = changing.or_abort("a site that was written has a state");
        // protection: prepared-before-a-site-settled
        changing.version = version;
        let installed = changing.installed.own(&mut self.originals);
        let record = Record {
            site,
            addr,
            generation: installed.generation,
            became: installed.status,
            before: &installed.bytes,
            after: bytes,
        };
        self.journal.add(time, std::iter::once(record));
        short::assign(&mut installed.bytes, bytes);
        match moves {
            true => installed.stub.take(),
            false => None,
        }
    }

    /// Lets a site keep the stub of what has just been replaced.
    #[cold]
    pub(super) fn keep_stub(&mut self, index: StateIndex, stub: Box<Stub>) {
        self.own(index).stub = Some(stub);
    }

    /// What is installed in a site that a commit has written, to be changed where it is.
    fn own(&mut self, index: StateIndex) -> &mut Installed {
        let changing = self.places.get_mut(index.number()).and_then(Option::as_mut);
        let changing = changing.or_abort("a site that was written has a state");
        changing.installed.own(&mut self.originals)
    }

    /// How many there are of what sites hold that have not been changed.
    #[cfg(test)]
    pub(super) fn originals(&self) -> usize {
        self.originals.len()
    }

    /// Puts what is installed in a site from now on into its state, under a version that was never
    /// there, and what was installed into its place.
    #[inline]
    pub(super) fn exchange(&mut self, index: StateIndex, installed: &mut Held, version: u64) {
        // protection: what-was-written-has-a-state
        let changing = self.written(index);
        changing.version = version;
        std::mem::swap(&mut changing.installed, installed);
        if let Held::Original(original) = installed {
            // protection: who-is-changed-uses-no-original
            self.originals.lose_user(*original);
        }
    }

    /// What changes with a site that a commit has written. It was found current under the same lock;
    /// without it, nobody would know what the site holds now.
    #[inline]
    fn written(&mut self, index: StateIndex) -> &mut Changing {
        let changing = self.places.get_mut(index.number()).and_then(Option::as_mut);
        changing.or_abort("a site that was written has a state")
    }

    /// What does not change with it.
    #[inline]
    fn written_lasting(&mut self, index: StateIndex) -> &mut Lasting {
        let lasting = self.lasting.get_mut(index.number()).and_then(Option::as_mut);
        lasting.or_abort("a site that was written has a state")
    }

    /// A version that no state has had.
    #[inline]
    pub(super) fn next_version(&mut self) -> u64 {
        self.versions += 1;
        self.versions
    }

    /// Keeps what a commit was made of until it is filed.
    #[inline]
    pub(super) fn leave(&mut self, set: Box<ChangeSet>) {
        self.unfiled.push(set);
    }

    /// What the last commit was made of.
    pub(super) fn last(&self) -> Option<&ChangeSet> {
        self.unfiled.last().map(|set| &**set)
    }

    /// Writes what commits were made of into the journal, and lets go of it. What stays as room holds
    /// a memory and a module until [it is dropped](Self::drop_room).
    #[inline]
    pub(super) fn file(&mut self) {
        if !self.unfiled.is_empty() {
            self.file_all();
        }
    }

    fn file_all(&mut self) {
        // Mostly there is one, for which `drain` takes 40 instructions more.
        self.unfiled.reverse();
        while let Some(mut set) = self.unfiled.pop() {
            self.journal.add(set.time, set.records());
            if !set.installed_batches.is_empty() {
                self.file_batches(&set);
            }
            self.kept_module = set.take_module();
            if set.changes.capacity() < 2 * MANY {
                set.clear(&mut self.installed_room, self.live_room.get_mut());
                self.spare = Some(set);
            }
        }
    }

    #[inline(never)] // As `ChangeSet::install_batches`.
    fn file_batches(&mut self, set: &ChangeSet) {
        let numbers = &set.installed_batches;
        let lens = numbers.iter().map(|number| self.batches.get(*number).len());
        let mut left: usize = lens.sum();
        for number in numbers {
            let batch = self.batches.get(*number);
            left -= batch.len();
            batch.file(&mut self.journal, set.time, left);
            self.batches.note_filed(*number);
        }
    }

    /// Files what commits were made of, and keeps nothing of it: room holds memories and modules.
    pub(super) fn drop_room(&mut self) {
        self.file();
        self.spare = None;
        self.kept_module = None;
        *self.live_room.get_mut() = LiveRoom::default();
    }

    /// Room for a transaction.
    #[expect(
        clippy::disallowed_methods,
        reason = "without room of an earlier one it is made"
    )]
    pub(super) fn room(&mut self) -> Box<ChangeSet> {
        self.spare.take().unwrap_or_default()
    }

    /// What the journal has of all commits.
    pub(super) fn journal_entries(&mut self) -> Vec<JournalEntry> {
        self.file();
        self.journal.entries()
    }

    /// Forgets the sites of a module, and returns everything outside of them that belongs to them.
    pub(super) fn remove(&mut self, module: &Module) -> Vec<SitesCode> {
        let places = self.table.remove(module);
        let listed = places.iter().flat_map(Places::iter);
        let code = listed.map(|(key, place)| {
            let index = match place {
                StatePlace::State(index) => index,
                StatePlace::Batch(part) => {
                    let (_, exit_stub, _) = self.batches.take_out(part, key);
                    return SitesCode::of_exit_stub(key, exit_stub);
                }
            };
            self.free.push(index);
            let changing = self.places.get_mut(index.number()).and_then(Option::take);
            let lasting = self.lasting.get_mut(index.number()).and_then(Option::take);
            let (mut changing, lasting) = changing.zip(lasting).expect("a listed site has a state");
            if let Held::Original(original) = changing.installed {
                self.originals.lose_user(original);
            }
            let stub = changing.installed.take_stub();
            self.installed_room.keep_of(&mut changing.installed);
            SitesCode::of(key, stub, lasting)
        });
        code.collect()
    }
}

/// The offsets in the site to which calls in these bytes of it return, which are its own, without
/// its end; and those to which the runtime has said that somebody may return. Ascending.
pub(super) fn returns_of(site: &Site, bytes: &[u8]) -> Result<Vec<u32>> {
    let returns = match verify::original(site.module().arch(), site.addr(), bytes)? {
        Original::Nops => Vec::new(),
        Original::LlvmCall { returns_at, .. } => vec![returns_at],
        Original::Instructions { calls } => calls,
    };
    // protection: told-return-offsets-are-kept
    let mut returns: Vec<u32> = returns.into_iter().chain(site.told_return_offsets()).collect();
    returns.retain(|at| *at < site.reserved().get());
    returns.sort_unstable();
    returns.dedup();
    Ok(returns)
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
            let mut installed = Held::Own(Box::default());
            States::new(1, Key::default()).exchange(StateIndex::new(0), &mut installed, 1);
        });
        assert!(words.contains("a site that was written has a state"), "{words}");
    }

    #[test]
    fn any_number_of_commits_may_be_left() {
        let mut states = States::new(1, Key::default());
        (0..50_000).for_each(|_| states.leave(Box::default()));
        drop(states);
    }
}
