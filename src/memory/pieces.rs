//! Bytes for several addresses at once.

use super::short::{self, Bytes};
use crate::addr::CodeAddr;

/// Bytes for several addresses: what a [`CodeMemory`](super::CodeMemory) is asked to write, or to
/// compare.
#[derive(Clone, Copy, Debug)]
pub struct Pieces<'a> {
    writes: &'a [Write],
    side: Side,
}

impl<'a> Pieces<'a> {
    /// One side of some writes.
    #[inline]
    pub(crate) fn of(writes: &'a [Write], side: Side) -> Self {
        Self { writes, side }
    }

    /// The addresses, each with its bytes.
    #[inline]
    pub fn iter(self) -> impl Iterator<Item = (CodeAddr, &'a [u8])> {
        let side = self.side;
        self.writes.iter().map(move |write| (write.at, write.side(side)))
    }
}

/// Which of two sides a piece of code is to have in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Old,
    New,
}

/// An address with as many bytes before a write as after it. They lie beside each other, so that
/// whoever goes through many of them reads memory in its order.
#[derive(Debug, Default)]
pub(crate) struct Write {
    pub(crate) at: CodeAddr,
    sides: [Bytes; 2],
}

impl Write {
    /// Becomes that of other bytes, in its room.
    #[inline]
    pub(crate) fn become_that(&mut self, at: CodeAddr, old: &[u8], new: &[u8]) {
        self.at = at;
        let [before, after] = &mut self.sides;
        short::assign(before, old);
        short::assign(after, new);
    }

    #[inline]
    pub(crate) fn side(&self, side: Side) -> &[u8] {
        let [old, new] = &self.sides;
        match side {
            Side::Old => old,
            Side::New => new,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn every_piece_has_its_own_bytes() {
        let writes: [(u64, &[u8], &[u8]); 3] = [
            (0x1000, &[1, 2], &[3, 4]),
            (0x2000, &[5; 40], &[6; 40]),
            (0x3000, &[7], &[8]),
        ];
        let made = |(at, old, new): (u64, &[u8], &[u8])| {
            let mut write = Write::default();
            write.become_that(CodeAddr::new(at), old, new);
            write
        };
        let writes: Vec<Write> = writes.map(made).into();
        let found: Vec<_> = Pieces::of(&writes, Side::New).iter().collect();
        let expected: [(u64, &[u8]); 3] = [(0x1000, &[3, 4]), (0x2000, &[6; 40]), (0x3000, &[8])];
        assert_eq!(found, expected.map(|(at, bytes)| (CodeAddr::new(at), bytes)));
        let old = Pieces::of(&writes[1..], Side::Old).iter().next();
        assert_eq!(old, Some((CodeAddr::new(0x2000), &[5; 40][..])));
    }
}
