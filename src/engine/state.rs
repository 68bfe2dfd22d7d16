//! What the engine remembers of sites that it has changed. A site that was never changed has no state.

use core::any::Any;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use smallvec::SmallVec;

use super::journal::Journal;
use super::live::Armed;
use super::prepare::Leftover;
use super::retire::{Limbo, Retiree};
use crate::addr::{CodeAddr, Len};
use crate::error::{Error, Result};
use crate::memory::StubSlot;
use crate::sequence::Sequence;
use crate::site::{Site, SiteKey};
use crate::verify::{self, Original};

/// What stands in a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Status {
    /// The bytes that stood there when it was registered.
    Original,
    /// A sequence.
    Patched,
    /// A way to its ramp, for good.
    Invalidated,
    /// A failed roll-back left it in doubt: it cannot be changed any more.
    Lost,
}

/// The three ramps that a site can have; they differ in where they resume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RampKind {
    /// `Target::Miss`: resumes at the site's end.
    Miss,
    /// `Target::Deopt` of a sequence: resumes with the original instructions.
    Deopt,
    /// Invalidation: resumes with what the site did before.
    Invalidated,
}

/// A ramp whose code is in place.
pub(super) struct Ramp {
    pub(super) kind: RampKind,
    pub(super) slot: StubSlot,
    /// What the code refers to.
    pub(super) _keep: Box<dyn Any + Send + Sync>,
}

/// Offsets in a site to which return addresses may point, ascending. Most sites have none.
pub(super) type Landings = SmallVec<[u32; 4]>;

/// The state of a site that has been changed, or for which a change has been prepared.
pub(super) struct SiteState {
    pub(super) status: Status,
    pub(super) original: Arc<[u8]>,
    /// The original instructions that lose bytes to a sequence: the original bytes, and of a shadow the rest of its
    /// last instruction.
    pub(super) displaced: Arc<[u8]>,
    pub(super) current: Arc<[u8]>,
    /// Offsets to which return addresses may point, from bytes that have been replaced. Ascending.
    pub(super) landings: Landings,
    /// Offsets to which calls of the current bytes return. Ascending.
    pub(super) returns: Vec<u32>,
    /// The sequence that stands there now, or stood there when it was invalidated.
    pub(super) sequence: Option<Arc<Sequence>>,
    pub(super) stub: Option<Stub>,
    /// The stub of the sequence that a lost site may hold.
    pub(super) doubtful: Option<Stub>,
    /// Stubs that the runtime has published for it.
    pub(super) published: Vec<StubSlot>,
    pub(super) ramps: Vec<Ramp>,
    /// What arming has made of it, if it is live.
    pub(super) live: Option<Armed>,
    /// Counts the changes.
    pub(super) generation: u64,
}

/// Out-of-line code of a sequence.
pub(super) struct Stub {
    pub(super) slot: StubSlot,
    pub(super) code: Vec<u8>,
    /// Whether a callee of it could return into it.
    pub(super) calls: bool,
}

impl SiteState {
    /// The state of a site that has not been changed yet.
    fn unchanged(site: &Site) -> Result<Self> {
        let displaced = site.displaced();
        let returns = returns_of(site, displaced)?;
        let original: Arc<[u8]> = displaced
            .get(..site.reserved().as_usize())
            .unwrap_or_default()
            .into();
        Ok(Self {
            status: Status::Original,
            current: Arc::clone(&original),
            original,
            displaced: displaced.into(),
            landings: Landings::new(),
            returns,
            sequence: None,
            stub: None,
            doubtful: None,
            published: Vec::new(),
            ramps: Vec::new(),
            live: None,
            generation: 0,
        })
    }

    /// The state of a live site that has just been armed. What `restore` puts back is its armed form.
    pub(super) fn armed(displaced: Arc<[u8]>, armed: Arc<[u8]>, live: Armed) -> Self {
        Self {
            status: Status::Original,
            current: Arc::clone(&armed),
            original: armed,
            displaced,
            landings: Landings::new(),
            returns: Vec::new(),
            sequence: None,
            stub: None,
            doubtful: None,
            published: Vec::new(),
            ramps: Vec::new(),
            live: Some(live),
            generation: 0,
        }
    }

    /// The landings that hold while the current bytes are replaced.
    pub(super) fn landings_in_force(&self, may_have_run: bool, drained: bool) -> Landings {
        if drained || !may_have_run {
            return Landings::new();
        }
        let mut landings: Landings = self.landings.iter().chain(&self.returns).copied().collect();
        landings.sort_unstable();
        landings.dedup();
        landings
    }

    /// Everything outside the site that belongs to it.
    pub(super) fn into_slots(self) -> impl Iterator<Item = StubSlot> {
        self.ramps
            .into_iter()
            .map(|ramp| ramp.slot)
            .chain(self.stub.into_iter().chain(self.doubtful).map(|stub| stub.slot))
            .chain(self.live.and_then(|armed| armed.stub))
            .chain(self.published)
    }

    /// The same, where it is.
    pub(super) fn slots(&self) -> impl Iterator<Item = &StubSlot> {
        let ramps = self.ramps.iter().map(|ramp| &ramp.slot);
        let stubs = self.stub.iter().chain(&self.doubtful).map(|stub| &stub.slot);
        let armed = self.live.iter().filter_map(|armed| armed.stub.as_ref());
        ramps.chain(stubs).chain(armed).chain(&self.published)
    }

    pub(super) fn ramp(&self, kind: RampKind) -> Option<CodeAddr> {
        self.ramps
            .iter()
            .find(|ramp| ramp.kind == kind)
            .map(|ramp| ramp.slot.addr())
    }
}

/// Hashes the two numbers of a key. The engine counts them up itself, so nobody can choose keys that collide, and
/// the standard hasher's defence against that would be a good part of what a commit costs.
#[derive(Default)]
pub(super) struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(u32::from(*byte)));
    }

    fn write_u32(&mut self, number: u32) {
        // An odd factor keeps different numbers different; the fold brings the upper bits, which depend on all
        // bits of the number, to where the table looks.
        let product = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ (product >> 32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// How many commits may leave something over before the next preparation frees it.
const LEFTOVERS: usize = 64;

/// The states of all sites that have one.
#[derive(Default)]
pub(super) struct States {
    pub(super) sites: HashMap<SiteKey, SiteState, BuildHasherDefault<KeyHasher>>,
    /// Stubs that no site leads to any more, but into which a callee could still return.
    pub(super) retired: Limbo<Retiree>,
    pub(super) journal: Journal,
    /// What commits have left over.
    leftovers: Vec<Leftover>,
}

impl States {
    pub(super) fn new(journal: usize) -> Self {
        Self {
            journal: Journal::new(journal),
            ..Self::default()
        }
    }

    pub(super) fn insert(&mut self, key: SiteKey, state: SiteState) {
        self.sites.insert(key, state);
    }

    /// The state of a site, which is made from what it held at its registration the first time.
    pub(super) fn of(&mut self, site: &Site) -> Result<&mut SiteState> {
        match self.sites.entry(site.key()) {
            std::collections::hash_map::Entry::Occupied(entry) => Ok(entry.into_mut()),
            std::collections::hash_map::Entry::Vacant(entry) => Ok(entry.insert(SiteState::unchanged(site)?)),
        }
    }

    /// The site one of whose stubs or ramps contains `addr`.
    pub(super) fn site_of_stub(&self, addr: CodeAddr) -> Option<SiteKey> {
        let holds = |state: &SiteState| state.slots().any(|slot| slot.range().contains(addr));
        let mut sites = self.sites.iter();
        sites.find(|(_, state)| holds(state)).map(|(key, _)| *key)
    }

    pub(super) fn get(&self, key: SiteKey) -> Option<&SiteState> {
        self.sites.get(&key)
    }

    /// Makes room, so that a commit of that many sites does not allocate.
    pub(super) fn make_room(&mut self, sites: usize) {
        self.journal.make_room(sites);
        self.retired.make_room(sites);
        self.leftovers.reserve(LEFTOVERS);
    }

    /// Keeps what a commit has left over, where there is room for it, else frees it.
    pub(super) fn leave(&mut self, leftover: Leftover) {
        if self.leftovers.len() < self.leftovers.capacity() {
            self.leftovers.push(leftover);
        }
    }

    /// Frees what commits have left over.
    pub(super) fn free_leftovers(&mut self) {
        self.leftovers.clear();
    }

    pub(super) fn remove(&mut self, key: SiteKey) -> Option<SiteState> {
        self.sites.remove(&key)
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

/// Original bytes that come back must keep the landings as any sequence does, unless a landing is one of
/// their own: then what returned there before may return there again.
pub(super) fn check_keeps_landings(
    site: &Site,
    original: &[u8],
    returns: &[u32],
    landings: &[u32],
) -> Result<()> {
    for landing in landings.iter().filter(|landing| !returns.contains(landing)) {
        let tail = original.get(*landing as usize..).unwrap_or_default();
        let addr = site.addr().plus(Len::new(*landing)).unwrap_or_default();
        let nops = matches!(
            verify::original(site.module().arch(), addr, tail),
            Ok(Original::Nops)
        );
        let boundary = verify::boundaries(site.module().arch(), site.addr(), original).contains(landing);
        if !nops || !boundary {
            return Err(Error::LandingLost {
                site: site.name(),
                landing: *landing,
            });
        }
    }
    Ok(())
}

/// Refuses a change of a site that is lost, and whatever `sticky` refuses of one that is invalidated.
pub(super) fn check_changeable(site: &Site, status: Status) -> Result<()> {
    match status {
        Status::Original | Status::Patched => Ok(()),
        Status::Invalidated => Err(Error::SiteInvalidated { site: site.name() }),
        Status::Lost => Err(Error::SiteLost { site: site.name() }),
    }
}
