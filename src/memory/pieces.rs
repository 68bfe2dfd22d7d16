//! Bytes for several addresses at once.

use smallvec::SmallVec;

use crate::addr::CodeAddr;

/// Where some bytes belong, which follow those of the place before.
#[derive(Clone, Copy, Debug)]
struct Place {
    at: CodeAddr,
    len: u32,
}

/// Bytes for several addresses: what a [`CodeMemory`](super::CodeMemory) is asked to write, or to compare.
#[derive(Clone, Copy, Debug)]
pub struct Pieces<'a> {
    places: &'a [Place],
    bytes: &'a [u8],
}

impl<'a> Pieces<'a> {
    /// The addresses, each with its bytes.
    #[inline]
    pub fn iter(self) -> impl Iterator<Item = (CodeAddr, &'a [u8])> {
        let mut rest = self.bytes;
        self.places.iter().map_while(move |place| {
            let (bytes, after) = rest.split_at_checked(place.len as usize)?;
            rest = after;
            Some((place.at, bytes))
        })
    }
}

/// Which of two sides a piece of code is to have in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Old,
    New,
}

/// Both sides of a site of a usual length are no more bytes.
const USUAL: usize = 64;

/// Addresses with the bytes before and after a change. There is room for one of a usual length.
#[derive(Debug, Default)]
pub(crate) struct Sides {
    places: SmallVec<[Place; 1]>,
    /// All old bytes, then as many new ones.
    bytes: SmallVec<[u8; USUAL]>,
}

impl Sides {
    /// Of changes that have as many bytes before as after.
    pub(crate) fn of<'a>(
        changes: impl ExactSizeIterator<Item = (CodeAddr, &'a [u8], &'a [u8])> + Clone,
    ) -> Self {
        if changes.len() == 1 {
            if let Some(sides) = changes.clone().next().and_then(Self::of_one) {
                return sides;
            }
        }
        let mut sides = Self::default();
        sides.places.reserve(changes.len());
        let mut half = 0;
        for (at, old, _) in changes.clone() {
            let len = old.len() as u32;
            sides.places.push(Place { at, len });
            half += old.len();
        }
        sides.bytes.reserve(2 * half);
        changes
            .clone()
            .for_each(|(_, old, _)| sides.bytes.extend_from_slice(old));
        changes.for_each(|(_, _, new)| sides.bytes.extend_from_slice(new));
        debug_assert_eq!(sides.bytes.len(), 2 * half);
        sides
    }

    /// Of one change of a usual length, of which most transactions are.
    #[inline]
    fn of_one((at, old, new): (CodeAddr, &[u8], &[u8])) -> Option<Self> {
        let mut bytes = [0; USUAL];
        let (first, rest) = bytes.split_at_mut_checked(old.len())?;
        first.copy_from_slice(old);
        rest.get_mut(..new.len())?.copy_from_slice(new);
        let len = old.len() as u32;
        Some(Self {
            places: SmallVec::from_buf([Place { at, len }]),
            bytes: SmallVec::from_buf_and_len(bytes, old.len() + new.len()),
        })
    }

    /// One side of all changes.
    #[inline]
    pub(crate) fn pieces(&self, side: Side) -> Pieces<'_> {
        let (old, new) = self.bytes.split_at(self.bytes.len() / 2);
        let bytes = match side {
            Side::Old => old,
            Side::New => new,
        };
        let places = &self.places;
        Pieces { places, bytes }
    }

    /// Both sides of each change, with its address.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (CodeAddr, &[u8], &[u8])> {
        let new = self.pieces(Side::New).iter();
        let both = self.pieces(Side::Old).iter().zip(new);
        both.map(|((at, old), (_, new))| (at, old, new))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_piece_has_its_own_bytes() {
        let changes: [(u64, &[u8], &[u8]); 3] = [
            (0x1000, &[1, 2], &[3, 4]),
            (0x2000, &[5; 40], &[6; 40]),
            (0x3000, &[7], &[8]),
        ];
        let changes = changes.map(|(at, old, new)| (CodeAddr::new(at), old, new));
        for change in changes {
            assert!(Sides::of([change].into_iter()).iter().eq([change]));
        }
        let sides = Sides::of(changes.into_iter());
        assert!(sides.iter().eq(changes));
        let old: Vec<_> = sides.pieces(Side::Old).iter().collect();
        let new: Vec<_> = sides.pieces(Side::New).iter().collect();
        assert_eq!(old, changes.map(|(at, old, _)| (at, old)));
        assert_eq!(new, changes.map(|(at, _, new)| (at, new)));
    }
}
