//! The sites of a module, as it keeps them.
//!
//! A site takes 16 bytes. Those that a lookup by address waits for lie apart, so that a few sites
//! are in one cache line. Its ID and its locations stay in its record; what many sites of a module
//! have in common, what they held and how they are called, is their form, which is kept once.

use core::iter;
use core::mem;
use core::num::NonZeroU32;
use core::ops::Range;
use std::collections::HashMap;
use std::sync::Arc;

use smallvec::SmallVec;

use super::found::SiteEntry;
use crate::addr::{CodeAddr, CodeRange, Len, RecordId};
use crate::arch::CallShape;

/// A site, as it is found by its address.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct KeptSite {
    /// From the base that holds for it.
    offset: u32,
    form: u32,
}

/// Where a site comes from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    /// Where in the stack maps its record is; of an entry site, the number of its ID.
    pub(super) at: u32,
    /// The number of its function.
    pub(super) function: u32,
}

/// Who tells of the values at a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum RecordedBy {
    /// There is no record.
    Nobody,
    StackMap,
    /// The record was made of what was told.
    Runtime,
}

/// What a site has in common with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct SiteForm {
    /// Where its bytes start among those of the module's sites.
    pub(super) original: u32,
    pub(super) reserved: Len,
    pub(super) shape: u16,
    /// How many bytes the last instruction of a shadow extends beyond it.
    pub(super) overhang: u8,
    /// Which record it has.
    pub(super) recorded: RecordedBy,
    /// That of all forms that are known to be alike, of other modules too.
    pub(super) number: Option<FormNumber>,
}

/// No two of a process are the same unless the forms are alike.
pub(crate) type FormNumber = NonZeroU32;

impl SiteForm {
    /// How a site is called, among what its module's are.
    pub(super) fn shape_of(&self, shapes: &[CallShape]) -> CallShape {
        let shape = shapes.get(usize::from(self.shape));
        *shape.expect("a site's shape is one of its module's")
    }

    /// What a site held when it was audited, with the rest of its last instruction, among what its module's did.
    pub(super) fn displaced<'o>(&self, originals: &'o [u8]) -> &'o [u8] {
        let start = Len::new(self.original).as_usize();
        let end = start + self.reserved.as_usize() + usize::from(self.overhang);
        let displaced = originals.get(start..end);
        displaced.expect("registration has kept what the site held")
    }

    /// Whether it has a record: LLVM's, or one that was made of what was told.
    pub(super) fn is_recorded(&self) -> bool {
        self.recorded != RecordedBy::Nobody
    }
}

/// So many sites are looked at together: as many as a cache line has.
const AT_ONCE: usize = 8;

/// The sites of a module, in ascending address.
///
/// In this order, so that what a lookup needs is in the first two lines, with the count of the
/// module's handles and the way to what else it keeps.
#[derive(Default)]
#[repr(C)]
pub(super) struct Sites {
    /// The table of sites has a handle, too.
    pub(super) all: Arc<[KeptSite]>,
    /// From where the offsets of the first sites count.
    base: CodeAddr,
    /// Of a module that is spread over more than 4 GiB: further bases, each with the number of the
    /// first site for which it holds.
    bases: Box<[(u32, CodeAddr)]>,
    /// Most modules have one or two, which are inline.
    forms: SmallVec<[SiteForm; 2]>,
    origins: Box<[Origin]>,
    /// The IDs of entry sites.
    pub(super) entry_ids: Box<[RecordId]>,
}

impl Sites {
    /// Keeps sites that are sorted by address, in room for as many.
    pub(super) fn new(entries: &[SiteEntry], mut all: Arc<[KeptSite]>) -> Self {
        let mut base = entries.first().map_or(CodeAddr::default(), |first| first.addr);
        let (mut bases, mut entry_ids) = (Vec::new(), Vec::new());
        let mut forms = SiteForms::default();
        let first = base;
        let room = Arc::get_mut(&mut all).expect("nobody else has what is to be filled");
        assert_eq!(room.len(), entries.len(), "every site has its room");
        let mut origins = Vec::with_capacity(entries.len());
        for ((index, entry), kept) in (0..).zip(entries).zip(room) {
            let offset = u32::try_from(entry.addr.distance_from(base)).unwrap_or_else(|_| {
                base = entry.addr;
                bases.push((index, base));
                0
            });
            let at = match entry.recorded {
                RecordedBy::Nobody => {
                    entry_ids.push(entry.id);
                    entry_ids.len() as u32 - 1
                }
                RecordedBy::StackMap | RecordedBy::Runtime => entry.record,
            };
            origins.push(Origin {
                at,
                function: entry.function,
            });
            *kept = KeptSite {
                offset,
                form: forms.number(SiteForm {
                    original: entry.original,
                    reserved: entry.reserved,
                    shape: entry.shape,
                    overhang: entry.overhang,
                    recorded: entry.recorded,
                    number: None,
                }),
            };
        }
        forms.all.shrink_to_fit();
        Self {
            all,
            origins: origins.into(),
            base: first,
            bases: bases.into(),
            forms: forms.all,
            entry_ids: entry_ids.into(),
        }
    }

    /// Numbers the forms, if they are few: of code that no other is like there may be as many as sites.
    pub(super) fn number_forms(&mut self, mut number: impl FnMut(&SiteForm) -> Option<FormNumber>) {
        if self.forms.len() <= AT_ONCE {
            self.forms.iter_mut().for_each(|form| form.number = number(form));
        }
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn get(&self, index: u32) -> Option<&KeptSite> {
        self.all.get(index as usize)
    }

    /// The site with a number that one has.
    #[inline]
    fn known(&self, index: u32) -> &KeptSite {
        self.get(index).expect("a site's number is one of its module's")
    }

    /// Where a site comes from.
    pub(super) fn origin(&self, index: u32) -> &Origin {
        let origin = self.origins.get(index as usize);
        origin.expect("every site has an origin")
    }

    /// What a site has in common with others.
    #[inline]
    pub(super) fn form_of(&self, index: u32) -> &SiteForm {
        self.form(self.known(index))
    }

    /// The number of what a site has in common with others.
    #[inline]
    pub(super) fn form_number(&self, index: u32) -> u32 {
        self.known(index).form
    }

    /// How many of these sites, from the first on, have as much in common with another as can be.
    pub(super) fn alike(&self, other: u32, sites: Range<u32>) -> u32 {
        let form = self.form_number(other);
        let end = (sites.end as usize).min(self.len());
        let sites = self.all.get(sites.start as usize..end);
        let sites = sites.expect("these are numbers of the module's sites");
        sites.iter().take_while(|site| site.form == form).count() as u32
    }

    #[inline]
    fn form(&self, site: &KeptSite) -> &SiteForm {
        let form = self.forms.get(site.form as usize);
        form.expect("every site has a form")
    }

    /// The address of a site.
    #[inline]
    pub(super) fn addr(&self, index: u32) -> CodeAddr {
        self.start(index, self.known(index))
    }

    /// The addresses of these sites.
    #[inline]
    pub(super) fn addrs(&self, sites: Range<u32>) -> impl Iterator<Item = CodeAddr> {
        // The base that holds for the next, and until which: it is not asked for again for each site of a batch.
        let until = if self.bases.is_empty() { u32::MAX } else { 0 };
        let (mut next, mut holding) = (sites.start, (self.base, until));
        let sites = self.all.get(sites.start as usize..sites.end as usize);
        let sites = sites.expect("these are numbers of the module's sites");
        sites.iter().map(move |site| {
            if next >= holding.1 {
                holding = self.next_span(next);
            }
            next += 1;
            at_base(holding.0, site)
        })
    }

    #[inline]
    fn start(&self, index: u32, site: &KeptSite) -> CodeAddr {
        at_base(self.base(index), site)
    }

    /// All bytes of a site.
    #[inline]
    pub(super) fn range(&self, index: u32) -> CodeRange {
        let reserved = self.form_of(index).reserved;
        let range = CodeRange::new(self.addr(index), reserved.get().into());
        range.expect("registration has checked that the site lies in code")
    }

    /// From where the offset of a site counts.
    #[inline]
    fn base(&self, index: u32) -> CodeAddr {
        self.span(index).0
    }

    /// The same, and the number of the first site behind for which another base holds.
    #[inline]
    fn span(&self, index: u32) -> (CodeAddr, u32) {
        if self.bases.is_empty() {
            return (self.base, u32::MAX);
        }
        let holding = self.bases.partition_point(|(first, _)| *first <= index);
        let last = holding.checked_sub(1).and_then(|last| self.bases.get(last));
        let next = self.bases.get(holding).map_or(u32::MAX, |(first, _)| *first);
        (last.map_or(self.base, |(_, base)| *base), next)
    }

    /// The same. Apart, it leaves who goes through many sites short enough to be inlined.
    #[inline(never)]
    fn next_span(&self, index: u32) -> (CodeAddr, u32) {
        self.span(index)
    }

    /// Those of these sites that have a record, by those that follow each other.
    pub(super) fn recorded(&self, of: Range<u32>) -> impl Iterator<Item = Range<u32>> + '_ {
        let mut left = of;
        let has_record = |index: &u32| self.form_of(*index).is_recorded();
        // Of most modules: then there is nothing to look for.
        let have_all = self.forms.iter().all(SiteForm::is_recorded);
        iter::from_fn(move || {
            if have_all {
                let all = mem::take(&mut left);
                return (!all.is_empty()).then_some(all);
            }
            let (first, end) = (left.find(has_record)?, left.end);
            // protection: only-recorded-sites-are-invalidated
            let next = left.find(|index| !has_record(index));
            Some(first..next.unwrap_or(end))
        })
    }

    /// How many sites are before an address.
    pub(super) fn before(&self, addr: CodeAddr) -> u32 {
        self.before_within(0..self.all.len() as u32, addr)
    }

    /// Whether as many as that are before an address, and no more.
    #[inline]
    pub(super) fn are_before(&self, count: u32, addr: CodeAddr) -> bool {
        let starts = |index: u32| self.get(index).map(|site| self.start(index, site));
        let last = count.checked_sub(1).map(starts);
        // protection: guessed-sites-are-looked-at
        last.is_none_or(|last| last.is_some_and(|last| last < addr))
            && starts(count).is_none_or(|next| next >= addr)
    }

    /// The same where at least so many are, and few more: it looks at these.
    #[inline]
    pub(super) fn before_from(&self, first: u32, addr: CodeAddr) -> u32 {
        let last = addr.get().checked_sub(1).map(CodeAddr::new);
        first + last.map_or(0, |last| self.starting_from(&self.all, first, last))
    }

    /// The same where it is one of these numbers, or the next.
    fn before_within(&self, numbers: Range<u32>, addr: CodeAddr) -> u32 {
        let Range {
            start: mut low,
            end: mut high,
        } = numbers;
        if self.bases.is_empty() {
            let some = self.all.get(low as usize..high as usize);
            let some = some.expect("these are numbers of the module's sites");
            let distance = addr.get().saturating_sub(self.base.get());
            return low + some.partition_point(|site| u64::from(site.offset) < distance) as u32;
        }
        while low < high {
            let middle = low + (high - low) / 2;
            match self.addr(middle) < addr {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }

    /// The site of `all` that contains an address; it is the one with number `first` or behind. It
    /// is quick where there are few between them.
    #[inline]
    pub(super) fn containing(&self, all: &[KeptSite], first: u32, addr: CodeAddr) -> Option<u32> {
        let index = self.starting_from(all, first, addr).checked_sub(1)? + first;
        let site = all.get(index as usize)?;
        let start = self.start(index, site);
        addr.is_within(start, self.form(site).reserved).then_some(index)
    }

    /// How many sites of `all`, from number `first` on, start at an address or before. It is quick where
    /// these are few.
    #[inline]
    fn starting_from(&self, all: &[KeptSite], first: u32, addr: CodeAddr) -> u32 {
        match self.bases.is_empty() {
            true => starting_by(behind(all, first), self.base, addr),
            // protection: sites-count-from-their-own-base
            false => self.starting_by(all, first, addr),
        }
    }

    /// The same where there are several bases.
    #[inline(never)]
    fn starting_by(&self, all: &[KeptSite], first: u32, addr: CodeAddr) -> u32 {
        let mut next = first;
        loop {
            let (base, end) = self.span(next);
            let end = (end as usize).min(all.len());
            let some = all.get(next as usize..end);
            let some = some.expect("the next base is that of a site behind");
            let before = starting_by(some, base, addr);
            next += before;
            if (before as usize) < some.len() || end == all.len() {
                return next - first;
            }
        }
    }
}

/// The address of a site for which a base holds.
#[inline]
fn at_base(base: CodeAddr, site: &KeptSite) -> CodeAddr {
    let start = base.at(site.offset.into());
    start.expect("the offset was counted from there")
}

/// All sites from that number on, which one of them has.
#[inline]
fn behind(all: &[KeptSite], first: u32) -> &[KeptSite] {
    let behind = all.get(first as usize..);
    behind.expect("a granule names one of its module's sites")
}

/// How many of these sites, which are in ascending order and count from `base`, start at an address
/// or before.
#[inline]
fn starting_by(sites: &[KeptSite], base: CodeAddr, addr: CodeAddr) -> u32 {
    let Some(distance) = addr.get().checked_sub(base.get()) else {
        return 0;
    };
    let distance = distance.min(u32::MAX.into());
    let by = |sites: &[KeptSite]| {
        // The upper bit of a difference: of comparisons, compilers make more than ten instructions
        // each to count them.
        let behind = |site: &KeptSite| distance.wrapping_sub(site.offset.into()) >> 63;
        sites.len() as u32 - sites.iter().map(behind).sum::<u64>() as u32
    };
    let (mut sites, mut count) = (sites, 0);
    // A processor guesses badly which is the last one, so some are looked at in any case.
    while let Some((some, rest)) = sites.split_first_chunk::<AT_ONCE>() {
        let before = by(some);
        count += before;
        if (before as usize) < AT_ONCE {
            return count;
        }
        sites = rest;
    }
    count + by(sites)
}

/// Numbers forms.
#[derive(Default)]
struct SiteForms {
    all: SmallVec<[SiteForm; 2]>,
    numbers: HashMap<SiteForm, u32>,
    last: Option<(SiteForm, u32)>,
}

impl SiteForms {
    fn number(&mut self, form: SiteForm) -> u32 {
        // Mostly that of the last one.
        if let Some((_, number)) = self.last.as_ref().filter(|(last, _)| *last == form) {
            return *number;
        }
        let next = self.all.len() as u32;
        let number = *self.numbers.entry(form).or_insert(next);
        if number == next {
            self.all.push(form);
        }
        self.last = Some((form, number));
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site::unused::Unused;

    /// A module can be spread over all of memory.
    #[test]
    fn sites_are_found_however_far_they_are_from_each_other() {
        const STARTS: [u64; 7] = [
            0x1000,
            0x1008,
            0xffff_ffff,
            0x1_0000_1000,
            0x1_0000_1008,
            0x7fff_0000_0000,
            0xffff_ffff_ffff_fff0,
        ];
        let entry = |(index, start): (usize, u64)| {
            let mut entry = SiteEntry::new(RecordId::new(start), CodeAddr::new(start), None, 0, 0);
            (entry.shape, entry.reserved) = match index % 2 {
                0 => (0, Len::new(4)),
                _ => (1, Len::new(8)),
            };
            entry
        };
        let entries: Vec<SiteEntry> = STARTS.into_iter().enumerate().map(entry).collect();
        let sites = Sites::new(&entries, Unused::default().sites(entries.len()));
        assert_eq!((sites.len(), sites.forms.len()), (STARTS.len(), 2));
        for (index, start) in (0..).zip(STARTS) {
            assert_eq!(sites.addr(index).get(), start);
            assert_eq!(sites.before(CodeAddr::new(start)), index);
            assert_eq!(sites.before(CodeAddr::new(start + 1)), index + 1);
            for count in 0..=sites.len() as u32 + 1 {
                let are_before = |addr| sites.are_before(count, CodeAddr::new(addr));
                assert_eq!(are_before(start), count == index);
                assert_eq!(are_before(start + 1), count == index + 1);
            }
            for first in 0..=index {
                assert_eq!(sites.before_from(first, CodeAddr::new(start)), index);
                assert_eq!(sites.before_from(first, CodeAddr::new(start + 1)), index + 1);
            }
            let reserved = if index % 2 == 0 { 4 } else { 8 };
            for first in 0..=index {
                let containing = |addr| sites.containing(&sites.all, first, CodeAddr::new(addr));
                assert_eq!(containing(start), Some(index));
                assert_eq!(containing(start + reserved - 1), Some(index));
                assert_ne!(containing(start + reserved), Some(index));
                assert_ne!(containing(start - 1), Some(index));
            }
            let origin = sites.origin(index);
            assert_eq!(sites.entry_ids[origin.at as usize].get(), start);
        }
        assert_eq!(sites.containing(&sites.all, 0, CodeAddr::new(0xfff)), None);
    }

    #[test]
    fn sites_with_records_are_those_between_the_others() {
        let (without, with) = (RecordedBy::Nobody, [RecordedBy::StackMap, RecordedBy::Runtime]);
        let records = [
            without, with[0], with[1], without, without, with[1], without, with[0],
        ];
        let entry = |(start, recorded): (u64, RecordedBy)| {
            let mut entry = SiteEntry::new(RecordId::new(start), CodeAddr::new(start), None, 0, 0);
            entry.recorded = recorded;
            entry
        };
        let entries: Vec<SiteEntry> = (0x1000..).zip(records).map(entry).collect();
        let sites = Sites::new(&entries, Unused::default().sites(entries.len()));
        let recorded = |of| sites.recorded(of).collect::<Vec<_>>();
        assert_eq!(recorded(0..8), [1..3, 5..6, 7..8]);
        assert_eq!(recorded(2..6), [2..3, 5..6]);
        assert_eq!(recorded(3..5), []);
    }

    #[test]
    #[should_panic(expected = "a site's number is one of its module's")]
    fn a_site_that_there_is_not_has_no_address() {
        let entry = SiteEntry::new(RecordId::new(1), CodeAddr::new(0x1000), None, 0, 0);
        Sites::new(&[entry], Unused::default().sites(1)).addr(1);
    }
}
