//! What goes wrong while the world is stopped, without an allocation.
//!
//! A world may stop its threads anywhere, so one of them may hold the allocator's lock. What fails is therefore
//! noted by number, in room that was made before, and told in full when the threads go on.

use super::prepare::Item;
use crate::error::{Error, SiteName};
use crate::memory::CodeMemory;
use smallvec::SmallVec;

/// Which of its two sides a site is to have in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Old,
    New,
}

impl Side {
    pub(super) fn of(self, item: &Item) -> &[u8] {
        match self {
            Self::Old => &item.old,
            Self::New => &item.new,
        }
    }
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
    pub(super) fn for_items(items: &[Item]) -> Self {
        let longest = items.iter().map(|item| item.old.len()).max();
        Self {
            bytes: SmallVec::from_elem(0, longest.unwrap_or(0)),
        }
    }

    /// Compares a site with one side of its item, and notes what stands there if that is something else.
    #[inline]
    pub(super) fn compare(
        &mut self,
        memory: &dyn CodeMemory,
        number: usize,
        item: &Item,
        side: Side,
    ) -> Outcome {
        let expected = side.of(item);
        if memory.holds(item.addr, expected)? {
            return Ok(());
        }
        if let Some(room) = self.bytes.get_mut(..expected.len()) {
            memory.read(item.addr, room)?;
        }
        Err(Fault::Changed(number, side))
    }
}

impl Fault {
    /// Tells it, with the sites that taking the transaction back has left in doubt.
    #[cold]
    pub(super) fn explain(self, items: &[Item], found: &Found) -> Error {
        let name = |number: usize| items.get(number).map(|item| item.site.name());
        let cause = match self {
            Self::Refused(error) => Some(error),
            Self::Stale(number) => name(number).map(|site| Error::SiteChanged { site }),
            Self::Lost(number) => name(number).map(|site| Error::SiteLost { site }),
            Self::Changed(number, side) => items.get(number).map(|item| changed(item, side, found)),
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

fn changed(item: &Item, side: Side, found: &Found) -> Error {
    let expected = side.of(item);
    Error::BytesChanged {
        site: item.site.name(),
        expected: expected.to_vec(),
        found: found.bytes.get(..expected.len()).unwrap_or_default().to_vec(),
    }
}

/// A result that fails without an allocation.
pub(super) type Outcome = core::result::Result<(), Fault>;
