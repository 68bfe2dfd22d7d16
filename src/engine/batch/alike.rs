//! The sites of a batch, as whoever makes their exit stubs is told of them.
//!
//! They are told by runs: those that follow each other in a module need one handle of it. Their addresses
//! lie side by side.

use std::ops::Range;

use super::HAS_ALL;
use super::sites::{BatchSites, Part};
use crate::addr::CodeAddr;
use crate::invariant::OrAbort;
use crate::site::{Module, Site};

/// Sites that are alike, in their order: what is asked for them differs in the site only, and in
/// addresses by as much as the site's.
#[derive(Clone)]
pub struct AlikeSites<'a> {
    /// The first of them is in the first of these.
    parts: &'a [Part],
    /// By their numbers among all in these.
    numbers: Range<usize>,
    /// Where all are that have joined their batch.
    addrs: &'a [CodeAddr],
}

impl<'a> AlikeSites<'a> {
    /// Those with these numbers.
    pub(super) fn new(sites: &'a BatchSites, numbers: Range<usize>) -> Self {
        Self::of((sites.parts(), sites.addrs()), numbers)
    }

    fn of((parts, addrs): (&'a [Part], &'a [CodeAddr]), numbers: Range<usize>) -> Self {
        let before = parts.partition_point(|part| part.end() <= numbers.start);
        let parts = parts.get(before..).or_abort(HAS_ALL);
        Self {
            parts,
            numbers,
            addrs,
        }
    }

    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = Site> + use<'a> {
        self.runs()
            .flat_map(|(module, sites)| sites.map(|index| module.handle(index)))
    }

    /// All but so many of the first.
    pub(in crate::engine) fn behind(&self, count: usize) -> Self {
        let numbers = self.numbers.start + count..self.numbers.end;
        Self::of((self.parts, self.addrs), numbers)
    }

    /// So many of the first.
    pub(in crate::engine) fn up_to(&self, count: usize) -> Self {
        let numbers = self.numbers.start..self.numbers.end.min(self.numbers.start + count);
        Self { numbers, ..*self }
    }

    /// Where they are.
    pub(crate) fn addrs(&self) -> &'a [CodeAddr] {
        self.addrs.get(self.numbers.clone()).or_abort(HAS_ALL)
    }

    /// Their modules, each with the numbers of its sites that follow each other.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (&'a Module, Range<u32>)> + use<'a> {
        let Range { start, end } = self.numbers;
        let parts = self.parts.iter().take_while(move |part| part.before < end);
        parts.map(move |part| {
            let (from, to) = (start.max(part.before), end.min(part.end()));
            let index = |number: usize| part.sites.start + (number - part.before) as u32;
            (&part.module, index(from)..index(to))
        })
    }
}

#[cfg(test)]
impl AlikeSites<'_> {
    /// As many sites of a test's own, from that one on.
    pub(in crate::engine) fn with<R>(
        (first, memory): (&Site, &crate::memory::Alias),
        count: u32,
        then: impl FnOnce(AlikeSites<'_>) -> R,
    ) -> R {
        let start = first.index();
        let mut sites = BatchSites::default();
        sites.join((first.module(), memory), start..start + count);
        then(AlikeSites::new(&sites, 0..count as usize))
    }
}
