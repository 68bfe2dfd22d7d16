//! Free address ranges: sorted, never adjacent, taken first fit.

use crate::addr::{CodeAddr, CodeRange};
use std::vec::Vec;

/// Free ranges.
#[derive(Clone, Debug, Default)]
pub(super) struct Spans {
    /// Sorted; neither overlapping nor touching nor empty.
    free: Vec<CodeRange>,
}

fn between(start: u64, end: u64) -> Option<CodeRange> {
    let len = end.checked_sub(start).filter(|len| *len > 0)?;
    CodeRange::new(CodeAddr::new(start), len)
}

impl Spans {
    /// All of one range.
    pub(super) fn of(range: CodeRange) -> Self {
        let mut spans = Self::default();
        spans.give(range);
        spans
    }

    /// Takes `len` bytes at a multiple of `align`, a power of two, from the lowest range that has
    /// them there.
    pub(super) fn take(&mut self, len: u64, align: u64, within: CodeRange) -> Option<CodeRange> {
        let fit = |span: &CodeRange| {
            let start = span.start().max(within.start());
            let start = start.get().checked_next_multiple_of(align)?;
            let taken = CodeRange::new(CodeAddr::new(start), len)?;
            (taken.end() <= span.end().min(within.end())).then_some(taken)
        };
        let (index, taken) = self
            .free
            .iter()
            .enumerate()
            .find_map(|(i, span)| Some((i, fit(span)?)))?;
        self.cut(index, taken);
        Some(taken)
    }

    /// Takes at least so many bytes, and at most so many, of the lowest range that has the least of
    /// them at a multiple of `align`.
    pub(super) fn take_up_to(&mut self, (least, most): (u64, u64), align: u64) -> Option<CodeRange> {
        let fit = |span: &CodeRange| {
            let start = span.start().get().checked_next_multiple_of(align)?;
            let there = span.end().get().checked_sub(start)?;
            // protection: no-more-is-taken-than-is-free
            let len = most.min(there) & !(align - 1);
            (len >= least).then(|| CodeRange::new(CodeAddr::new(start), len))?
        };
        let mut spans = self.free.iter().enumerate();
        let (index, taken) = spans.find_map(|(i, span)| Some((i, fit(span)?)))?;
        self.cut(index, taken);
        Some(taken)
    }

    /// The same from the highest range that has them, at its end.
    pub(super) fn take_last(&mut self, len: u64, align: u64) -> Option<CodeRange> {
        let fit = |span: &CodeRange| {
            let start = span.end().get().checked_sub(len)? & !(align - 1);
            let taken = CodeRange::new(CodeAddr::new(start), len)?;
            (taken.start() >= span.start()).then_some(taken)
        };
        let mut spans = self.free.iter().enumerate().rev();
        let (index, taken) = spans.find_map(|(i, span)| Some((i, fit(span)?)))?;
        self.cut(index, taken);
        Some(taken)
    }

    /// Takes a range out of the free one at `index`.
    fn cut(&mut self, index: usize, taken: CodeRange) {
        let span = self
            .free
            .get_mut(index)
            .expect("what is taken lies in a free range");
        let after = between(taken.end().get(), span.end().get());
        let before = between(span.start().get(), taken.start().get());
        match (before, after) {
            (Some(rest), None) | (None, Some(rest)) => *span = rest,
            (Some(before), Some(after)) => {
                *span = before;
                self.free.insert(index + 1, after);
            }
            (None, None) => {
                self.free.remove(index);
            }
        }
    }

    /// Frees a range that was taken.
    pub(super) fn give(&mut self, range: CodeRange) {
        if range.is_empty() {
            return;
        }
        let mut index = self.free.partition_point(|span| span.end() < range.start());
        let (mut start, mut end) = (range.start().get(), range.end().get());
        while let Some(span) = self.free.get(index).filter(|span| span.start().get() <= end) {
            start = start.min(span.start().get());
            end = end.max(span.end().get());
            self.free.remove(index);
        }
        index = index.min(self.free.len());
        let joined = between(start, end);
        let joined = joined.expect("it has the bytes that are given, at least");
        self.free.insert(index, joined);
    }

    /// How many bytes are free.
    #[cfg(test)]
    pub(super) fn len(&self) -> u64 {
        self.free.iter().map(|span| span.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANYWHERE: CodeRange = match CodeRange::new(CodeAddr::new(0), u64::MAX) {
        Some(all) => all,
        None => panic!(),
    };

    fn range(start: u64, len: u64) -> CodeRange {
        CodeRange::new(CodeAddr::new(start), len).unwrap()
    }

    #[test]
    fn what_is_freed_joins_its_neighbours() {
        let mut spans = Spans::of(range(0x1000, 0x100));
        let a = spans.take(16, 16, ANYWHERE).unwrap();
        let b = spans.take(16, 16, ANYWHERE).unwrap();
        let c = spans.take(16, 16, ANYWHERE).unwrap();
        assert_eq!(
            (a, b, c),
            (range(0x1000, 16), range(0x1010, 16), range(0x1020, 16))
        );
        spans.give(a);
        spans.give(c);
        assert_eq!(spans.free, [range(0x1000, 16), range(0x1020, 0xe0)]);
        spans.give(b);
        assert_eq!(spans.free, [range(0x1000, 0x100)]);
    }

    #[test]
    fn alignment_leaves_the_bytes_before_free() {
        let mut spans = Spans::of(range(0x1008, 0x100));
        assert_eq!(spans.take(8, 64, ANYWHERE), Some(range(0x1040, 8)));
        assert_eq!(spans.len(), 0xf8);
        assert_eq!(spans.take(0x38, 8, ANYWHERE), Some(range(0x1008, 0x38)));
        assert_eq!(spans.take(0x100, 1, ANYWHERE), None);
    }

    #[test]
    fn what_is_taken_lies_in_the_window() {
        let mut spans = Spans::of(range(0x1000, 0x1000));
        let window = range(0x1234, 0x100);
        assert_eq!(spans.take(0x80, 64, window), Some(range(0x1240, 0x80)));
        assert_eq!(spans.take(0x80, 64, window), None);
        assert_eq!(spans.take(0x40, 64, window), Some(range(0x12c0, 0x40)));
        assert_eq!(spans.take(0x34, 1, window), Some(range(0x1300, 0x34)));
        assert_eq!(spans.take(0x40, 64, range(0, 0x1000)), None);
    }

    #[test]
    fn as_much_is_taken_as_there_is_up_to_the_most() {
        let mut spans = Spans::of(range(0x1000, 0x108));
        assert_eq!(spans.take_up_to((32, 96), 16), Some(range(0x1000, 96)));
        assert_eq!(spans.take_up_to((32, 32), 16), Some(range(0x1060, 32)));
        assert_eq!(spans.take_up_to((160, 512), 16), None);
        assert_eq!(spans.take_up_to((128, 512), 16), Some(range(0x1080, 128)));
        assert_eq!(spans.free, [range(0x1100, 8)]);
        spans.give(range(0x1000, 48));
        assert_eq!(spans.take_up_to((64, 512), 16), None);
        assert_eq!(spans.take_up_to((16, 512), 16), Some(range(0x1000, 48)));
    }

    #[test]
    fn what_is_taken_last_is_at_the_end() {
        let mut spans = Spans::of(range(0x1000, 0x100));
        assert_eq!(spans.take_last(0x18, 16), Some(range(0x10e0, 0x18)));
        assert_eq!(spans.free, [range(0x1000, 0xe0), range(0x10f8, 8)]);
        assert_eq!(spans.take_last(0xe1, 16), None);
        assert_eq!(spans.take_last(0xe0, 16), Some(range(0x1000, 0xe0)));
        assert_eq!(spans.free, [range(0x10f8, 8)]);
    }

    #[test]
    fn random_takes_and_gives_lose_nothing_and_never_overlap() {
        let mut spans = Spans::of(range(0x10_0000, 0x1_0000));
        let mut held: Vec<CodeRange> = Vec::new();
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..20_000 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            if state % 3 == 0 && !held.is_empty() {
                spans.give(held.swap_remove(state as usize / 3 % held.len()));
                continue;
            }
            let (len, align) = (1 + state % 300, 1 << ((state >> 20) % 8));
            let taken = match state >> 40 & 1 {
                0 => spans.take(len, align, ANYWHERE),
                _ => spans.take_last(len, align),
            };
            if let Some(taken) = taken {
                assert!(held.iter().all(|other| !other.overlaps(taken)));
                held.push(taken);
            }
            assert_eq!(spans.len() + held.iter().map(|h| h.len()).sum::<u64>(), 0x1_0000);
        }
        held.drain(..).for_each(|h| spans.give(h));
        assert_eq!(spans.free, [range(0x10_0000, 0x1_0000)]);
    }
}
