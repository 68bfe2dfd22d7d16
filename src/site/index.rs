//! From a number to places: the table behind each lookup of a [`SiteTable`](super::SiteTable).
//!
//! Problem: what is looked for is one number of a million, and a lookup does little but wait for
//! memory. Approach: one array of entries with their numbers, in which those of a number are from
//! its home on, a place that a hash chooses, up to the next vacant entry. Homes are the beginnings
//! of cache lines, so that mostly one line is waited for. Invariant: between the home of an entry
//! and the entry itself none is vacant, so that those of a line which are vacant are its last.
//!
//! Cost: an entry takes 16 bytes, and 3 to 6 more for those that are vacant. The array grows by an
//! eighth, for which entries keep their order: they are moved by one walk along both arrays.
//! Numbers are the runtime's, but what it compiles may choose them, so the hash has a secret.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::hint::black_box;

/// Where something is: a module, by the place that it has in the table, and a site of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SitePlace {
    pub(super) module: u32,
    pub(super) index: u32,
}

impl SitePlace {
    /// No module has this number.
    const VACANT: Self = Self {
        module: u32::MAX,
        index: 0,
    };

    fn is_vacant(self) -> bool {
        self.module == Self::VACANT.module
    }
}

#[derive(Clone, Copy)]
struct IndexEntry {
    number: u64,
    place: SitePlace,
}

impl IndexEntry {
    const VACANT: Self = Self {
        number: 0,
        place: SitePlace::VACANT,
    };

    fn is_vacant(&self) -> bool {
        self.place.is_vacant()
    }
}

/// How many entries a line has.
const LINE: usize = 4;

/// Entries that share a cache line.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct IndexLine {
    numbers: [u64; LINE],
    places: [SitePlace; LINE],
}

impl IndexLine {
    const VACANT: Self = Self {
        numbers: [0; LINE],
        places: [SitePlace::VACANT; LINE],
    };

    /// The entries with a number: a bit for each. A processor guesses badly where a number is,
    /// so none is asked for before all have been looked at. Vacant ones have a number, too.
    #[inline]
    fn with(&self, number: u64) -> u32 {
        let bits = self.numbers.iter().zip(0..);
        bits.map(|(other, bit)| u32::from(*other == number) << bit).sum()
    }

    /// How many entries are not vacant: the first ones. A processor guesses badly how many, so
    /// all are looked at.
    #[inline]
    fn used(&self) -> usize {
        let places = self.places.iter();
        places.map(|place| usize::from(!place.is_vacant())).sum()
    }

    /// Fills the first vacant entry of a line that has so many others.
    #[inline]
    fn put(&mut self, used: usize, entry: IndexEntry) {
        let slot = self.numbers.get_mut(used).zip(self.places.get_mut(used));
        let (number, place) = slot.expect("the line has a vacant entry");
        (*number, *place) = (entry.number, entry.place);
    }

    /// Whether the search for a number ends here: vacant entries are behind the others.
    #[inline]
    fn has_vacant(&self) -> bool {
        self.places.last().is_some_and(|last| last.is_vacant())
    }
}

/// Places by their numbers. A number may have several, but each makes a lookup of it longer.
pub(super) struct Index {
    lines: Box<[IndexLine]>,
    used: usize,
    secret: [u64; 2],
}

impl Default for Index {
    fn default() -> Self {
        let secret = RandomState::new();
        Self {
            lines: Box::default(),
            used: 0,
            secret: [secret.hash_one(0), secret.hash_one(1) | 1],
        }
    }
}

/// A product whose halves are laid over each other: its upper bits depend on all bits of the
/// number, its lower ones on the lower.
fn folded_product(number: u64, factor: u64) -> u64 {
    let product = u128::from(number) * u128::from(factor);
    product as u64 ^ (product >> 64) as u64
}

impl Index {
    /// The line where the entries of a number start.
    fn home(&self, number: u64) -> usize {
        let [mask, factor] = self.secret;
        // Numbers at equal distances still are so after the first time, by some factors in a few crowds.
        // protection: numbers-form-no-clusters
        let hash = folded_product(folded_product(number ^ mask, factor), 0x9e37_79b9_7f4a_7c15);
        // Less than the number of lines.
        ((u128::from(hash) * self.lines.len() as u128) >> 64) as usize
    }

    /// The places of a number.
    #[inline]
    pub(super) fn all(&self, number: u64) -> impl Iterator<Item = SitePlace> {
        self.positions(number).map(|(_, place)| place)
    }

    /// The same, each with the position of its entry.
    #[inline]
    fn positions(&self, number: u64) -> impl Iterator<Item = (usize, SitePlace)> {
        let mut at = self.home(number);
        let look = move |at: usize| self.lines.get(at).map(|line| (line, line.with(number)));
        let mut seen = look(at);
        std::iter::from_fn(move || {
            loop {
                let (line, found) = seen.as_mut()?;
                while *found != 0 {
                    let slot = found.trailing_zeros() as usize;
                    *found &= *found - 1;
                    let place = *line.places.get(slot)?;
                    // protection: vacant-entries-have-no-number
                    if !place.is_vacant() {
                        return Some((at * LINE + slot, place));
                    }
                }
                if line.has_vacant() {
                    return None;
                }
                at = if at + 1 == self.lines.len() { 0 } else { at + 1 };
                seen = look(at);
            }
        })
    }

    /// The first place of a number.
    #[inline]
    pub(super) fn get(&self, number: u64) -> Option<SitePlace> {
        self.all(number).next()
    }

    /// Reads where the entries of a number start. Of many numbers one right after the other, before
    /// they are looked for: the processor fetches what is in no cache of several at a time.
    #[inline]
    pub(super) fn warm(&self, number: u64) {
        black_box(self.lines.get(self.home(number)).map(IndexLine::has_vacant));
    }

    /// The first place of a number, to be changed; where it has none, this one is added. In one walk:
    /// of many numbers, most of the time goes into waiting for their lines.
    pub(super) fn find_or_insert(&mut self, number: u64, new: SitePlace) -> Option<&mut SitePlace> {
        self.reserve(1);
        let mut at = self.home(number);
        loop {
            let line = self.lines.get(at).expect("homes and what follows are lines");
            let used = line.used();
            // Vacant entries have a number, too.
            let found = line.with(number) & ((1 << used) - 1);
            if found == 0 && used == LINE {
                at = if at + 1 == self.lines.len() { 0 } else { at + 1 };
                continue;
            }
            let line = self.lines.get_mut(at).expect("that one was looked at");
            if found != 0 {
                return line.places.get_mut(found.trailing_zeros() as usize);
            }
            line.put(used, IndexEntry { number, place: new });
            self.used += 1;
            return None;
        }
    }

    /// How many entries there are, with the vacant ones.
    fn capacity(&self) -> usize {
        self.lines.len() * LINE
    }

    fn entry(&self, at: usize) -> Option<IndexEntry> {
        let (line, slot) = (self.lines.get(at / LINE)?, at % LINE);
        Some(IndexEntry {
            number: *line.numbers.get(slot)?,
            place: *line.places.get(slot)?,
        })
    }

    fn set(&mut self, at: usize, entry: IndexEntry) {
        let line = self.lines.get_mut(at / LINE);
        let slot = line.and_then(|line| {
            let place = line.places.get_mut(at % LINE)?;
            Some((line.numbers.get_mut(at % LINE)?, place))
        });
        if let Some((number, place)) = slot {
            (*number, *place) = (entry.number, entry.place);
        }
    }

    /// A position of which the number of entries has been taken, if it is beyond them.
    fn wrapped(&self, at: usize) -> usize {
        match at.checked_sub(self.capacity()) {
            Some(beyond) => beyond,
            None => at,
        }
    }

    /// How many places there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.used
    }

    /// Makes room for so many more.
    pub(super) fn reserve(&mut self, more: usize) {
        let needed = self.used + more;
        if needed > self.capacity() / 6 * 5 {
            let eighth = self.capacity() / 8;
            // A fifth is vacant, then.
            self.resize((self.capacity() + eighth).max(needed + needed / 4));
        }
    }

    /// Moves all entries into that many or a few more, which they do not fill.
    fn resize(&mut self, capacity: usize) {
        let lines = vec![IndexLine::VACANT; (capacity + 1).div_ceil(LINE)];
        let old = Self {
            lines: std::mem::replace(&mut self.lines, lines.into()),
            ..*self
        };
        let entries = (0..old.capacity()).filter_map(|at| old.entry(at));
        for entry in entries.filter(|entry| !entry.is_vacant()) {
            self.put(entry);
        }
    }

    fn put(&mut self, entry: IndexEntry) {
        let from = self.home(entry.number);
        let (before, behind) = self.lines.split_at_mut(from);
        let mut lines = behind.iter_mut().chain(before);
        let line = lines.find(|line| line.has_vacant());
        let line = line.expect("an index is never full");
        line.put(line.used(), entry);
    }

    /// Adds a place.
    pub(super) fn insert(&mut self, number: u64, place: SitePlace) {
        self.reserve(1);
        self.put(IndexEntry { number, place });
        self.used += 1;
    }

    /// Takes out a place of a number, the first that is wanted.
    pub(super) fn remove(&mut self, number: u64, is_wanted: impl Fn(SitePlace) -> bool) {
        let found = self.positions(number).find(|(_, place)| is_wanted(*place));
        let Some((at, _)) = found else {
            return;
        };
        self.close(at);
        self.used -= 1;
        if self.used < self.capacity() / 4 {
            self.resize(self.used + self.used / 4);
        }
    }

    /// Vacates an entry, to which one behind is moved that may be there; and so on with that
    /// one's.
    fn close(&mut self, at: usize) {
        let (mut gap, mut next) = (at, at);
        loop {
            next = self.wrapped(next + 1);
            let Some(entry) = self.entry(next).filter(|entry| !entry.is_vacant()) else {
                break;
            };
            // How far it is behind its home, and how far behind the gap.
            let behind = |from: usize| self.wrapped(next + self.capacity() - from);
            // protection: indexes-have-no-gaps
            if behind(self.home(entry.number) * LINE) >= behind(gap) {
                self.set(gap, entry);
                gap = next;
            }
        }
        self.set(gap, IndexEntry::VACANT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    /// Numbers that look random, the same in each run.
    fn numbers() -> impl FnMut(u64) -> u64 {
        let mut state = 88_172_645_463_325_252_u64;
        move |end| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % end
        }
    }

    fn place(index: u32) -> SitePlace {
        SitePlace { module: 7, index }
    }

    fn found(index: &Index, number: u64) -> Vec<u32> {
        let mut found: Vec<u32> = index.all(number).map(|place| place.index).collect();
        found.sort_unstable();
        found
    }

    #[test]
    fn it_holds_what_a_map_of_lists_holds() {
        let (mut index, mut model) = (Index::default(), HashMap::<u64, Vec<u32>>::new());
        let mut number = numbers();
        for step in 0..30_000_u32 {
            // It grows for a while, and then it shrinks.
            let (key, adds) = (number(700), number(100) < if step < 15_000 { 60 } else { 40 });
            let list = model.entry(key).or_default();
            match adds {
                true if list.is_empty() => {
                    // By either way.
                    match step % 2 {
                        0 => index.insert(key, place(step)),
                        _ => assert_eq!(index.find_or_insert(key, place(step)), None),
                    }
                    list.push(step);
                }
                true => {
                    let known = index.find_or_insert(key, place(step)).unwrap();
                    assert!(list.contains(&known.index), "after {step} steps");
                    index.insert(key, place(step));
                    list.push(step);
                }
                false if list.is_empty() => index.remove(key, |_| true),
                false => {
                    let gone = list.remove(number(list.len() as u64) as usize);
                    index.remove(key, |place| place.index == gone);
                }
            }
            assert_eq!(found(&index, key), *list, "after {step} steps");
        }
        assert_eq!(index.len(), model.values().map(Vec::len).sum::<usize>());
        (0..700).for_each(|key| assert_eq!(found(&index, key), model[&key]));
    }

    /// Numbers mostly follow each other, in steps of one size.
    #[test]
    fn entries_are_near_their_homes_whatever_the_secret_is() {
        // By the whole parts of 2^64 numbers that follow each other would form a few clusters.
        let factors = [2, 3, 5, 7].map(|parts| (u64::MAX / parts + (1 << 44)) | 1);
        let steps = [1, 8, 12, 4096, 1 << 33];
        for (factor, step) in factors
            .iter()
            .flat_map(|factor| steps.map(|step| (*factor, step)))
        {
            let mut index = Index {
                secret: [0x0123_4567_89ab_cdef, factor],
                ..Index::default()
            };
            index.reserve(20_000);
            let numbers = || (0..20_000).map(|number| number * step);
            numbers().for_each(|number| index.insert(number, place(1)));
            let lines = numbers().map(|number| {
                let (at, _) = index.positions(number).next().unwrap();
                let home = index.home(number);
                (at / LINE + index.lines.len() - home) % index.lines.len()
            });
            let behind = lines.sum::<usize>() as f64 / 20_000.0;
            assert!(behind < 0.5, "{behind} lines behind, by {factor:#x} and {step}");
        }
    }

    #[test]
    fn it_takes_no_more_than_was_said_and_frees_it() {
        let mut index = Index::default();
        assert_eq!(index.get(3), None);
        for number in 0..10_000 {
            // Vacant entries have the number 0, too.
            match number % 2 {
                0 => assert_eq!(index.find_or_insert(number, place(number as u32)), None),
                _ => index.insert(number, place(number as u32)),
            }
            assert!(index.used < index.capacity());
            assert!(index.capacity() <= index.used * 27 / 20 + 2 * LINE);
        }
        for number in 0..10_000 {
            *index.find_or_insert(number, place(2)).unwrap() = place(1);
            assert_eq!(index.get(number), Some(place(1)));
            index.remove(number, |_| true);
            assert_eq!(index.get(number), None);
        }
        assert!(index.capacity() <= 2 * LINE, "{}", index.capacity());
    }
}
