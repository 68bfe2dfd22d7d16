//! Taking bytes out of sections, and moving what is behind them: relocations and symbols.
//!
//! Numbers in the bytes that count across what is taken out are the caller's to change. Cost:
//! linear in symbols and bytes, and the logarithm of the cuts for each symbol and edge.

use alloc::vec::Vec;

use crate::graph::{Definition, Graph, Section};

/// Ranges of a section that go, ascending and apart, as offsets before any went.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cuts(Vec<Cut>);

#[derive(Clone, Copy, Debug)]
struct Cut {
    start: u32,
    len: u32,
    /// What goes before it.
    before: u32,
}

impl Cuts {
    /// Adds a range behind those that are there.
    pub(crate) fn push(&mut self, start: u32, len: u32) {
        let before = self.removed();
        self.0.push(Cut { start, len, before });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How much goes in all.
    pub(crate) fn removed(&self) -> u32 {
        self.0.last().map_or(0, |last| last.before + last.len)
    }

    fn before(&self, offset: u32) -> Option<Cut> {
        let count = self.0.partition_point(|cut| cut.start < offset);
        self.0.get(count.checked_sub(1)?).copied()
    }

    /// Where the byte that was at this offset is now; for one that went, where the next one is.
    pub(crate) fn moved(&self, offset: u32) -> u32 {
        self.before(offset).map_or(offset, |cut| {
            offset - cut.before - cut.len.min(offset - cut.start)
        })
    }

    /// Whether the byte at this offset goes.
    fn takes(&self, offset: u32) -> bool {
        let count = self.0.partition_point(|cut| cut.start <= offset);
        let cut = count.checked_sub(1).and_then(|last| self.0.get(last));
        cut.is_some_and(|cut| offset - cut.start < cut.len)
    }
}

impl Graph<'_> {
    /// Carries out the cuts of each section, by its index; of those behind the end of `cuts` there
    /// are none.
    pub(crate) fn cut(&mut self, cuts: &[Cuts]) {
        for (section, cuts) in self.sections.iter_mut().zip(cuts) {
            if !cuts.is_empty() {
                shorten(section, cuts);
            }
        }
        for symbol in &mut self.symbols {
            let Definition::Section(id, offset) = &mut symbol.definition else {
                continue;
            };
            let Some(cuts) = cuts.get(id.index()).filter(|cuts| !cuts.is_empty()) else {
                continue;
            };
            let end = u64::from(*offset).saturating_add(symbol.size);
            *offset = cuts.moved(*offset);
            let end = u32::try_from(end).map_or(end, |end| cuts.moved(end).into());
            symbol.size = end.saturating_sub(u64::from(*offset));
        }
    }
}

const INSIDE: &str = "what is cut out is in the section, each behind the one before";

fn shorten(section: &mut Section<'_>, cuts: &Cuts) {
    let mut kept = Vec::with_capacity(section.bytes.len());
    let mut from = 0;
    for cut in &cuts.0 {
        let before = section.bytes.get(from..cut.start as usize);
        kept.extend_from_slice(before.expect(INSIDE));
        from = (cut.start + cut.len) as usize;
    }
    kept.extend_from_slice(section.bytes.get(from..).expect(INSIDE));
    section.size = section
        .size
        .saturating_sub((section.bytes.len() - kept.len()) as u32);
    section.bytes = kept.into();
    section.edges.retain(|edge| !cuts.takes(edge.offset));
    for edge in &mut section.edges {
        edge.offset = cuts.moved(edge.offset);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_behind_moves_and_what_is_within_goes() {
        let mut cuts = Cuts::default();
        cuts.push(4, 4);
        cuts.push(8, 2);
        cuts.push(20, 10);
        assert_eq!(cuts.removed(), 16);
        let moved = [
            (0, 0),
            (4, 4),
            (5, 4),
            (8, 4),
            (10, 4),
            (11, 5),
            (20, 14),
            (25, 14),
            (30, 14),
            (31, 15),
        ];
        for (offset, expected) in moved {
            assert_eq!(cuts.moved(offset), expected, "{offset}");
        }
        let gone: Vec<_> = (0..32).filter(|offset| cuts.takes(*offset)).collect();
        assert!(gone.into_iter().eq((4..10).chain(20..30)));
    }
}
