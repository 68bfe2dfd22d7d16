//! What a site holds: bytes, and what is known of them.
//!
//! Problem: a commit has no time to build what becomes the state of a site, and most sites of a
//! large transaction have never been changed and hold the same. Approach: all that changes with a
//! site's bytes is one [`Installed`], made when the change is prepared; the commit exchanges the
//! pointer to it. Sites that have not been changed share one (see [`super::originals`]).
//!
//! Invariants: what is shared is never changed; a site whose state changes where it is, as one that is
//! settled or lost, gets its own first.

use core::ops::Deref;
use std::sync::{Arc, OnceLock};

use smallvec::SmallVec;

use super::change::MANY;
use super::observe::CodeOwner;
use super::originals::{OriginalIndex, Originals};
use super::state::Status;
use crate::addr::{CodeRange, Len};
use crate::memory::StubSlot;
use crate::memory::short::{self, Bytes};
use crate::sequence::Sequence;

/// Offsets in a site to which return addresses may point, ascending. Most sites have none, and pay a
/// word.
#[derive(Clone, Default)]
pub(super) struct ReturnOffsets(Option<Box<SmallVec<[u32; 6]>>>);

impl ReturnOffsets {
    /// None.
    pub(super) const fn new() -> Self {
        Self(None)
    }

    /// Makes them those, in the room that they have.
    #[inline]
    pub(super) fn assign(&mut self, offsets: &[u32]) {
        if self.0.is_some() || !offsets.is_empty() {
            self.assign_some(offsets);
        }
    }

    fn assign_some(&mut self, offsets: &[u32]) {
        match &mut self.0 {
            None => *self = Self::from(offsets),
            Some(kept) => {
                kept.clear();
                kept.extend_from_slice(offsets);
            }
        }
    }
}

impl Deref for ReturnOffsets {
    type Target = [u32];

    #[inline]
    fn deref(&self) -> &[u32] {
        self.0.as_deref().map_or(&[], SmallVec::as_slice)
    }
}

impl From<&[u32]> for ReturnOffsets {
    fn from(offsets: &[u32]) -> Self {
        match offsets.is_empty() {
            true => Self::new(),
            false => Self(Some(Box::new(offsets.into()))),
        }
    }
}

/// What is installed in a site, and what is known of it.
pub(super) struct Installed {
    pub(super) status: Status,
    pub(super) bytes: Bytes,
    /// Offsets to which return addresses may point, from bytes that have been replaced. Ascending.
    pub(super) return_offsets: ReturnOffsets,
    /// Offsets to which calls of the bytes return. Ascending.
    pub(super) returns: ReturnOffsets,
    /// The sequence that is installed now, or was when the site was invalidated.
    pub(super) sequence: Option<Sequence>,
    pub(super) stub: Option<Box<Stub>>,
    /// Counts the changes.
    pub(super) generation: u64,
}

impl Default for Installed {
    #[inline]
    fn default() -> Self {
        Self::original(&[], &[])
    }
}

impl Installed {
    /// Says what its bytes are, and of which sequence.
    #[inline]
    pub(super) fn describe(&mut self, status: Status, sequence: Option<Sequence>) {
        self.status = status;
        self.sequence = sequence;
    }

    /// What is installed in a site that has not been changed.
    #[inline]
    pub(super) fn original(bytes: &[u8], returns: &[u32]) -> Self {
        Self {
            status: Status::Original,
            bytes: short::of(bytes),
            return_offsets: ReturnOffsets::new(),
            returns: returns.into(),
            sequence: None,
            stub: None,
            generation: 0,
        }
    }

    /// The same in a site that is like its, with these bytes and without a stub.
    pub(super) fn of_like(&self, bytes: &[u8]) -> Self {
        Self {
            status: self.status,
            bytes: short::of(bytes),
            return_offsets: self.return_offsets.clone(),
            returns: self.returns.clone(),
            sequence: self.sequence.clone(),
            stub: None,
            generation: self.generation,
        }
    }

    /// Whether both are patched in place and differ only in their sequence, and in what of it is at another address.
    pub(super) fn is_patched_like(&self, other: &Self) -> bool {
        (self.status, other.status) == (Status::Patched, Status::Patched)
            && self.generation == other.generation
            && *self.returns == *other.returns
            && *self.return_offsets == *other.return_offsets
            && self.stub.is_none()
            && other.stub.is_none()
    }

    /// Whether return addresses may point into it once its code has been run.
    #[inline]
    pub(super) fn has_return_offsets(&self) -> bool {
        !(self.return_offsets.is_empty() && self.returns.is_empty())
    }

    /// Offsets to which return addresses may point then.
    pub(super) fn all_return_offsets(&self) -> ReturnOffsets {
        let both = self.return_offsets.iter().chain(&*self.returns);
        let mut both: SmallVec<[u32; 6]> = both.copied().collect();
        both.sort_unstable();
        both.dedup();
        ReturnOffsets::from(&*both)
    }
}

/// Where that is what is installed in a site: what a commit exchanges.
pub(super) enum Held {
    /// It is the site's own.
    Own(Box<Installed>),
    /// The site holds what sites like it held when they were registered. Of a site that has been changed
    /// since, this only says that it had not been.
    Original(OriginalIndex),
}

impl Held {
    /// To be changed in place: what is shared is not.
    #[inline]
    pub(super) fn own(&mut self, originals: &mut Originals) -> &mut Installed {
        if let Self::Original(index) = *self {
            let shared = originals.get(index);
            *self = Self::Own(Box::new(Installed::original(&shared.bytes, &shared.returns)));
            originals.lose_user(index);
        }
        match self {
            Self::Own(own) => own,
            Self::Original(_) => unreachable!("it has just been made its own"),
        }
    }

    /// What is installed.
    #[inline]
    pub(super) fn get<'h>(&'h self, originals: &'h Originals) -> &'h Installed {
        match self {
            Self::Own(own) => own,
            Self::Original(index) => originals.get(*index),
        }
    }

    /// How often the site had been changed.
    #[inline]
    pub(super) fn generation(&self) -> u64 {
        match self {
            Self::Own(own) => own.generation,
            Self::Original(_) => 0,
        }
    }

    /// Takes out its stub. What is shared has none.
    #[inline]
    pub(super) fn take_stub(&mut self) -> Option<Box<Stub>> {
        match self {
            Self::Own(own) => own.stub.take(),
            Self::Original(_) => None,
        }
    }
}

/// What was installed in sites once: room for what is to be installed in others. Allocated for each site, it
/// is a fifteenth of an invalidation.
#[derive(Default)]
pub(super) struct InstalledRoom(
    #[allow(clippy::vec_box, reason = "the boxes are the room")] Vec<Box<Installed>>,
);

impl InstalledRoom {
    /// Room for what is to be installed in a site.
    #[inline]
    #[expect(
        clippy::disallowed_methods,
        reason = "without room of an earlier change it is made"
    )]
    pub(super) fn take(&mut self) -> Box<Installed> {
        self.0.pop().unwrap_or_default()
    }

    /// Keeps what a site had of its own and does not have any more.
    #[inline]
    pub(super) fn keep_of(&mut self, held: &mut Held) {
        if let Held::Own(own) = std::mem::replace(held, Held::Original(OriginalIndex::default())) {
            self.keep(own);
        }
    }

    /// Keeps room, that of as many sites as a transaction's lists are kept for: some 130 KiB.
    #[inline]
    pub(super) fn keep(&mut self, mut room: Box<Installed>) {
        if self.0.len() < MANY {
            // Who has let go of a sequence frees it.
            // protection: room-has-no-sequence
            room.sequence = None;
            self.0.push(room);
        }
    }

    /// How many sites it is for.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

/// Out-of-line code of a sequence.
pub(super) struct Stub {
    pub(super) slot: StubSlot,
    pub(super) owner: CodeOwner,
    /// How many bytes of the slot are code.
    pub(super) len: Len,
    /// Whether a callee of it could return into it.
    pub(super) calls: bool,
    /// One more than there are exits that resume in it, if there ever was one.
    pub(super) exits: OnceLock<StubReference>,
}

/// Held by an exit that resumes in a stub, which is not freed before.
pub(super) type StubReference = Arc<()>;

impl Stub {
    /// One whose code is not there yet.
    pub(super) fn empty(slot: StubSlot, owner: CodeOwner) -> Box<Self> {
        Self::new(slot, owner, Len::default())
    }

    /// One with so many bytes of code.
    pub(super) fn new(slot: StubSlot, owner: CodeOwner, len: Len) -> Box<Self> {
        Box::new(Self {
            slot,
            owner,
            len,
            calls: true,
            exits: OnceLock::new(),
        })
    }

    /// Its bytes of code.
    pub(super) fn code(&self) -> CodeRange {
        let code = CodeRange::new(self.slot.addr(), u64::from(self.len.get()));
        code.expect("a stub's code lies in its slot")
    }

    /// For an exit that resumes in it.
    pub(super) fn reference(&self) -> StubReference {
        Arc::clone(self.exits.get_or_init(StubReference::default))
    }

    /// Whether there is an exit that resumes in it.
    #[inline]
    pub(super) fn is_referenced(&self) -> bool {
        let exits = self.exits.get();
        exits.is_some_and(|exits| Arc::strong_count(exits) > 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patched(sequence: &Sequence) -> Held {
        let mut installed = Box::new(Installed::original(&[1; 5], &[]));
        installed.describe(Status::Patched, Some(sequence.clone()));
        Held::Own(installed)
    }

    #[test]
    fn room_of_many_sites_is_kept_without_their_sequences() {
        let (mut room, sequence) = (InstalledRoom::default(), Sequence::new());
        let mut held: Vec<Held> = (0..MANY + 8).map(|_| patched(&sequence)).collect();
        held.iter_mut().for_each(|held| room.keep_of(held));
        assert!(held.iter().all(|held| matches!(held, Held::Original(_))));
        assert_eq!(room.len(), MANY);
        assert!((0..MANY).all(|_| room.take().sequence.is_none()));
        assert_eq!(room.len(), 0);
        assert_eq!(room.take().status, Status::Original);
    }

    #[test]
    fn what_sites_share_is_no_room() {
        let mut room = InstalledRoom::default();
        room.keep_of(&mut Held::Original(OriginalIndex::default()));
        assert_eq!(room.len(), 0);
    }
}
