//! What goes wrong while the world is stopped, without an allocation.
//!
//! A world may stop its threads anywhere, so one of them may hold the allocator's lock. What fails
//! is therefore noted by number, in room that was made before, and told in full when the threads go
//! on.

use super::group::{Group, Held};
use super::work::Work;
use crate::Error;
use crate::error::SiteName;
use crate::invariant::OrAbort;
use crate::memory::{CodeMemory, Pieces, Side, Write};

/// What went wrong.
pub(super) enum Fault {
    /// A call was refused.
    Refused(Error),
    /// The site of that item was changed since it was prepared.
    Stale(usize),
    /// And has been lost.
    Lost(usize),
    /// The site of that item does not hold that side of it; what it does is in [`Found`].
    Changed(usize, Side),
}

/// Says that it has been noted: a result that fails without an allocation, and takes no room where
/// it does not.
#[derive(Debug)]
pub(super) struct Noted(());

pub(super) type Outcome = core::result::Result<(), Noted>;

/// What went wrong first, with room for the bytes of a site that was found changed.
#[derive(Default)]
pub(super) struct Found {
    fault: Option<Fault>,
    /// As long as the longest site, at least.
    bytes: Vec<u8>,
}

impl Found {
    /// Makes room for sites of that length.
    #[inline]
    pub(super) fn make_room(&mut self, len: usize) {
        if len > self.bytes.len() {
            self.bytes.resize(len, 0);
        }
    }

    /// Forgets what was found.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.fault = None;
    }

    /// Notes a fault, unless another was before.
    #[cold]
    pub(super) fn note(&mut self, fault: Fault) -> Noted {
        self.fault.get_or_insert(fault);
        Noted(())
    }

    /// Notes what was refused.
    #[inline]
    pub(super) fn check<E: Into<Error>>(&mut self, result: core::result::Result<(), E>) -> Outcome {
        match result {
            Ok(()) => Ok(()),
            Err(error) => Err(self.note(Fault::Refused(error.into()))),
        }
    }

    /// Compares the sites of a group with one of their sides, and notes what stands in the first
    /// that has something else.
    #[inline]
    pub(super) fn compare<M: Held>(&mut self, group: &Group<M>, writes: &[Write], side: Side) -> Outcome {
        match group.memory().first_unlike(group.pieces(writes, side)) {
            Ok(None) => Ok(()),
            Ok(Some(at)) => Err(self.changed(group, at, writes, side)),
            Err(error) => Err(self.note(Fault::Refused(error.into()))),
        }
    }

    // What it is told is what its caller has anyway, and need not keep.
    #[cold]
    fn changed<M: Held>(&mut self, group: &Group<M>, at: usize, writes: &[Write], side: Side) -> Noted {
        let mut pieces = group.pieces(writes, side).iter();
        let (addr, expected) = pieces.nth(at).or_abort("it is one of these that is unlike");
        let room = self.bytes.get_mut(..expected.len());
        let room = room.or_abort("there is room for the longest site");
        let read = group.memory().read(addr, room);
        let changed = |()| Fault::Changed(group.numbers.start + at, side);
        self.note(read.map_or_else(|error| Fault::Refused(error.into()), changed))
    }
}

/// Tells what went wrong, with the sites that taking the transaction back has left in doubt. Bytes
/// may have been written: who cannot tell of them must not go on.
#[cold]
pub(super) fn explain(work: &mut Work) -> Error {
    let fault = work.found.fault.take().or_abort("whoever fails notes why");
    let items = &work.items;
    let name = |number: usize| items.get(number).or_abort(ONE_OF_ITEMS).site.name();
    let cause = match fault {
        Fault::Refused(error) => error,
        Fault::Stale(number) => Error::SiteChanged { site: name(number) },
        Fault::Lost(number) => Error::SiteLost { site: name(number) },
        Fault::Changed(number, side) => changed(work, number, side),
    };
    let sites: Vec<(SiteName, _)> = items
        .iter()
        .filter_map(|item| Some((*item.site.name(), item.fate?)))
        .collect();
    if sites.is_empty() {
        return cause;
    }
    Error::RollBackFailed {
        cause: Box::new(cause),
        sites,
    }
}

const ONE_OF_ITEMS: &str = "a fault is noted of one of the items";

fn changed(work: &Work, number: usize, side: Side) -> Error {
    let item = work.items.get(number).or_abort(ONE_OF_ITEMS);
    let mut pieces = Pieces::of(work.groups.writes(), side).iter();
    let (_, expected) = pieces.nth(number).or_abort("every item has a write");
    let found = work.found.bytes.get(..expected.len());
    Error::BytesChanged {
        site: item.site.name(),
        expected: expected.to_vec(),
        found: found.or_abort("there is room for the longest site").to_vec(),
    }
}
