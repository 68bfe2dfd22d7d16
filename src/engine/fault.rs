//! What goes wrong while the world is stopped, without an allocation.
//!
//! A world may stop its threads anywhere, so one of them may hold the allocator's lock. What fails is therefore
//! noted by number, in room that was made before, and told in full when the threads go on.

use super::work::Work;
use crate::addr::CodeAddr;
use crate::error::{Error, SiteName};
use crate::memory::CodeMemory;
use smallvec::SmallVec;

/// Which of its two sides a site is to have in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Old,
    New,
}

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

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

/// Room for the bytes of a site that was found changed.
#[derive(Default)]
pub(super) struct Found {
    /// As long as the longest site.
    bytes: SmallVec<[u8; 64]>,
}

impl Found {
    pub(super) fn of_len(len: usize) -> Self {
        Self {
            bytes: SmallVec::from_elem(0, len),
        }
    }

    /// Compares a site with what one side of its item says, and notes what stands there if that is something else.
    #[inline]
    pub(super) fn compare(
        &mut self,
        memory: &dyn CodeMemory,
        number: usize,
        (addr, expected): (CodeAddr, &[u8]),
        side: Side,
    ) -> Outcome {
        match memory.holds(addr, expected) {
            Ok(true) => Ok(()),
            other => Err(self.note(memory, number, (addr, expected.len()), side, other.err())),
        }
    }

    #[cold]
    fn note(
        &mut self,
        memory: &dyn CodeMemory,
        number: usize,
        (addr, len): (CodeAddr, usize),
        side: Side,
        refused: Option<Error>,
    ) -> Fault {
        let room = self.bytes.get_mut(..len).unwrap_or_default();
        let read = refused.map_or_else(|| memory.read(addr, room), Err);
        read.map_or_else(Fault::Refused, |()| Fault::Changed(number, side))
    }
}

impl Fault {
    /// Tells it, with the sites that taking the transaction back has left in doubt.
    #[cold]
    pub(super) fn explain(self, work: &Work) -> Error {
        let items = &work.items;
        let name = |number: usize| items.get(number).map(|item| item.site.name());
        let cause = match self {
            Self::Refused(error) => Some(error),
            Self::Stale(number) => name(number).map(|site| Error::SiteChanged { site }),
            Self::Lost(number) => name(number).map(|site| Error::SiteLost { site }),
            Self::Changed(number, side) => changed(work, number, side),
        };
        // Numbers are positions in the same list.
        let cause = cause.unwrap_or(Error::ModuleForeign);
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
}

fn changed(work: &Work, number: usize, side: Side) -> Option<Error> {
    let (_, expected) = work.parts.sides().get(number, side)?;
    Some(Error::BytesChanged {
        site: work.items.get(number)?.site.name(),
        expected: expected.to_vec(),
        found: work
            .found
            .bytes
            .get(..expected.len())
            .unwrap_or_default()
            .to_vec(),
    })
}

/// A result that fails without an allocation.
pub(super) type Outcome = core::result::Result<(), Fault>;
