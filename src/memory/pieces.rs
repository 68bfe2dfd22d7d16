//! Bytes for several addresses at once.

use std::ops::Range;

use smallvec::SmallVec;

use crate::addr::CodeAddr;

/// Where some bytes belong.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    at: CodeAddr,
    /// Where they begin among those of all places.
    start: usize,
    len: u32,
}

impl Place {
    #[inline]
    fn bytes<'a>(&self, all: &'a [u8]) -> &'a [u8] {
        let end = self.start + self.len as usize;
        all.get(self.start..end).unwrap_or_default()
    }
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
        let bytes = self.bytes;
        self.places
            .iter()
            .map(move |place| (place.at, place.bytes(bytes)))
    }
}

/// Which of two sides a piece of code is to have in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Old,
    New,
}

/// Addresses with the bytes before and after a change. There is room for a change of 32 bytes.
#[derive(Debug, Default)]
pub(crate) struct Sides {
    places: SmallVec<[Place; 1]>,
    old: SmallVec<[u8; 32]>,
    new: SmallVec<[u8; 32]>,
}

impl Sides {
    /// Adds a change: as many bytes before as after.
    pub(crate) fn add(&mut self, at: CodeAddr, old: &[u8], new: &[u8]) {
        debug_assert_eq!(old.len(), new.len());
        self.places.push(Place {
            at,
            start: self.old.len(),
            len: old.len() as u32,
        });
        self.old.extend_from_slice(old);
        self.new.extend_from_slice(new);
    }

    /// All of them, to be read.
    #[inline]
    pub(crate) fn view(&self) -> SidesView<'_> {
        SidesView {
            places: &self.places,
            old: &self.old,
            new: &self.new,
        }
    }

    /// The length of the longest.
    pub(crate) fn longest(&self) -> usize {
        let lens = self.places.iter().map(|place| place.len as usize);
        lens.max().unwrap_or(0)
    }
}

/// Addresses with the bytes before and after a change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SidesView<'a> {
    places: &'a [Place],
    old: &'a [u8],
    new: &'a [u8],
}

impl<'a> SidesView<'a> {
    #[inline]
    fn bytes(self, side: Side) -> &'a [u8] {
        match side {
            Side::Old => self.old,
            Side::New => self.new,
        }
    }

    /// One side of the change of that number.
    #[inline]
    pub(crate) fn get(self, number: usize, side: Side) -> Option<(CodeAddr, &'a [u8])> {
        let place = self.places.get(number)?;
        Some((place.at, place.bytes(self.bytes(side))))
    }

    /// One side of the changes of these numbers.
    #[inline]
    pub(crate) fn pieces(self, numbers: &Range<usize>, side: Side) -> Pieces<'a> {
        Pieces {
            places: self.places.get(numbers.clone()).unwrap_or_default(),
            bytes: self.bytes(side),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_piece_has_its_own_bytes() {
        let mut sides = Sides::default();
        sides.add(CodeAddr::new(0x1000), &[1, 2], &[3, 4]);
        sides.add(CodeAddr::new(0x2000), &[5; 40], &[6; 40]);
        sides.add(CodeAddr::new(0x3000), &[7], &[8]);
        let view = sides.view();
        let all = |numbers, side| -> Vec<_> { view.pieces(&numbers, side).iter().collect() };
        assert_eq!(
            all(0..3, Side::Old),
            [
                (CodeAddr::new(0x1000), &[1, 2][..]),
                (CodeAddr::new(0x2000), &[5; 40]),
                (CodeAddr::new(0x3000), &[7])
            ]
        );
        assert_eq!(all(2..3, Side::New), [(CodeAddr::new(0x3000), &[8][..])]);
        assert_eq!(
            view.get(1, Side::New),
            Some((CodeAddr::new(0x2000), &[6; 40][..]))
        );
        assert_eq!((view.get(3, Side::New), all(2..4, Side::Old).len()), (None, 0));
        assert_eq!(sides.longest(), 40);
    }
}
