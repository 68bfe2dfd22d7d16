//! Bytes for several addresses at once.

use std::ops::Range;
use std::vec::Vec;

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

/// Addresses with as many bytes before a change as after it.
#[derive(Debug, Default)]
pub(crate) struct Sides {
    places: Vec<Place>,
    old: Vec<u8>,
    new: Vec<u8>,
}

/// Some of the changes that follow each other: their numbers, and those of their bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stretch {
    pub(crate) places: Range<usize>,
    bytes: Range<usize>,
}

impl Sides {
    /// Forgets all changes, and keeps their room.
    pub(crate) fn clear(&mut self) {
        self.places.clear();
        self.old.clear();
        self.new.clear();
    }

    /// Adds changes.
    pub(crate) fn add<'a>(&mut self, changes: impl Iterator<Item = (CodeAddr, &'a [u8], &'a [u8])>) {
        for (at, old, new) in changes {
            let len = old.len() as u32;
            self.places.push(Place { at, len });
            self.old.extend_from_slice(old);
            self.new.extend_from_slice(new);
        }
        debug_assert_eq!(self.old.len(), self.new.len());
    }

    /// Those that follow a stretch.
    #[inline]
    pub(crate) fn after(&self, stretch: &Stretch) -> Stretch {
        Stretch {
            places: stretch.places.end..self.places.len(),
            bytes: stretch.bytes.end..self.old.len(),
        }
    }

    /// One side of some changes.
    #[inline]
    pub(crate) fn pieces(&self, side: Side, stretch: &Stretch) -> Pieces<'_> {
        let bytes = match side {
            Side::Old => &self.old,
            Side::New => &self.new,
        };
        Pieces {
            places: self.places.get(stretch.places.clone()).unwrap_or_default(),
            bytes: bytes.get(stretch.bytes.clone()).unwrap_or_default(),
        }
    }

    /// Both sides of some changes, each with its address.
    pub(crate) fn iter<'a>(
        &'a self,
        stretch: &Stretch,
    ) -> impl Iterator<Item = (CodeAddr, &'a [u8], &'a [u8])> + use<'a> {
        let new = self.pieces(Side::New, stretch).iter();
        let both = self.pieces(Side::Old, stretch).iter().zip(new);
        both.map(|((at, old), (_, new))| (at, old, new))
    }

    /// The same of all.
    pub(crate) fn all(&self) -> impl Iterator<Item = (CodeAddr, &[u8], &[u8])> {
        self.iter(&self.after(&Stretch::default()))
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
        let mut sides = Sides::default();
        for _ in 0..2 {
            sides.clear();
            sides.add(changes[..1].iter().copied());
            let first = sides.after(&Stretch::default());
            sides.add(changes[1..].iter().copied());
            let rest = sides.after(&first);
            assert!(sides.iter(&first).eq(changes[..1].iter().copied()));
            assert!(sides.iter(&rest).eq(changes[1..].iter().copied()));
            assert!(sides.all().eq(changes));
            assert_eq!((first.places, rest.places.clone()), (0..1, 1..3));
            let new: Vec<_> = sides.pieces(Side::New, &rest).iter().collect();
            assert_eq!(new, [changes[1], changes[2]].map(|(at, _, new)| (at, new)));
        }
    }
}
