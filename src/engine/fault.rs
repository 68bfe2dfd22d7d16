//! What goes wrong while the world is stopped, without an allocation.
//!
//! A world may stop its threads anywhere, so one of them may hold the allocator's lock. What fails
//! is therefore noted by number, in room that was made before, and told in full when the threads go
//! on.

use super::change::{ChangeSet, Side, SiteChange};
use crate::Error;
use crate::error::SiteName;
use crate::invariant::OrAbort;
use crate::memory;

/// What went wrong.
pub(super) enum Fault {
    /// A call was refused.
    Refused(Error),
    /// The site of that change was changed since it was prepared.
    Stale(usize),
    /// And has been lost.
    Lost(usize),
    /// The site of that change does not hold that side of it; what it does is in [`FirstFault`].
    Changed(usize, Side),
}

/// Says that it has been noted: a result that fails without an allocation, and takes no room where
/// it does not.
#[derive(Debug)]
pub(super) struct Noted(());

pub(super) type Outcome = core::result::Result<(), Noted>;

/// What went wrong first, with room for the bytes of a site that was found changed.
#[derive(Default)]
pub(super) struct FirstFault {
    fault: Option<Fault>,
    /// As long as the longest site, at least.
    bytes: Vec<u8>,
}

impl FirstFault {
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

    /// Notes what a site of so many bytes holds that does not hold this side of the change of that
    /// number; the sites of batches come behind the others.
    #[cold]
    pub(super) fn note_changed(
        &mut self,
        (number, side): (usize, Side),
        len: usize,
        read: impl FnOnce(&mut [u8]) -> memory::Result<()>,
    ) -> Noted {
        let room = self.bytes.get_mut(..len);
        let room = room.or_abort("there is room for the longest site");
        let read = read(room);
        let changed = |()| Fault::Changed(number, side);
        self.note(read.map_or_else(|error| Fault::Refused(error.into()), changed))
    }
}

/// Tells what went wrong, with the sites that taking the transaction back has left in doubt. Bytes
/// may have been written: who cannot tell of them must not go on.
#[cold]
pub(super) fn explain(set: &mut ChangeSet) -> Error {
    let fault = set.found.fault.take().or_abort("whoever fails notes why");
    let change = |number: usize| set.changes.get(number).or_abort(ONE_OF_CHANGES);
    let name = |number| set.site(change(number)).name();
    let cause = match fault {
        Fault::Refused(error) => error,
        Fault::Stale(number) => Error::SiteChanged { site: name(number) },
        Fault::Lost(number) => Error::SiteLost { site: name(number) },
        Fault::Changed(number, side) => changed(set, number, side),
    };
    let in_doubt = |change: &SiteChange| Some((*set.site(change).name(), change.fate?));
    let sites: Vec<(SiteName, _)> = set.changes.iter().filter_map(in_doubt).collect();
    if sites.is_empty() {
        return cause;
    }
    Error::RollBackFailed {
        cause: Box::new(cause),
        sites,
    }
}

const ONE_OF_CHANGES: &str = "a fault is noted of one of the changes";

fn changed(set: &ChangeSet, number: usize, side: Side) -> Error {
    let both = set.changes.get(number).zip(set.writes.get(number));
    let (change, write) = both.or_abort(ONE_OF_CHANGES);
    let expected = write.side(side);
    let found = set.found.bytes.get(..expected.len());
    Error::BytesChanged {
        site: set.site(change).name(),
        expected: expected.to_vec(),
        found: found.or_abort("there is room for the longest site").to_vec(),
    }
}
