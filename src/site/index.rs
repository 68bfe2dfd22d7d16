//! From a number to places: the table behind each lookup of a [`SiteTable`](super::SiteTable).
//!
//! Problem: what is looked for is one number of a million, and a lookup does little but wait for memory. Approach: one
//! array of entries with their numbers, in which those of a number stand from its home on, a place that a hash chooses,
//! up to the next vacant entry. Homes are the beginnings of cache lines, so that mostly one line is waited for. Invariant:
//! between the home of an entry and the entry itself none is vacant.
//!
//! Cost: an entry takes 16 bytes, and 3 to 6 more for those that are vacant. The array grows by an eighth, for which
//! entries keep their order: they are moved by one walk along both arrays. Numbers are the runtime's, but what it
//! compiles may choose them, so the hash has a secret.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

/// Where something is: a module, by the place that it has in the table, and a site of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) module: u32,
    pub(super) index: u32,
}

impl Place {
    /// No module has this number.
    const VACANT: Self = Self {
        module: u32::MAX,
        index: 0,
    };
}

#[derive(Clone, Copy)]
struct Entry {
    number: u64,
    place: Place,
}

impl Entry {
    const VACANT: Self = Self {
        number: 0,
        place: Place::VACANT,
    };

    fn is_vacant(&self) -> bool {
        self.place.module == Place::VACANT.module
    }
}

/// The entries of a cache line.
const LINE: usize = 4;

/// Places by their numbers. A number may have several, but each makes a lookup of it longer.
pub(super) struct Index {
    entries: Box<[Entry]>,
    used: usize,
    secret: [u64; 2],
}

impl Default for Index {
    fn default() -> Self {
        let secret = RandomState::new();
        Self {
            entries: Box::default(),
            used: 0,
            secret: [secret.hash_one(0), secret.hash_one(1) | 1],
        }
    }
}

impl Index {
    /// Where the entries of a number start.
    fn home(&self, number: u64) -> usize {
        let [mask, factor] = self.secret;
        let product = u128::from(number ^ mask) * u128::from(factor);
        // Its upper bits depend on all bits of the number, its lower ones on the lower.
        let hash = product as u64 ^ (product >> 64) as u64;
        let lines = (self.entries.len() / LINE) as u128;
        // Less than the number of lines.
        LINE * ((u128::from(hash) * lines) >> 64) as usize
    }

    /// The entries from a number's home up to the next vacant one.
    #[inline]
    fn after_home(&self, number: u64) -> impl Iterator<Item = &Entry> {
        let (before, from) = self
            .entries
            .split_at_checked(self.home(number))
            .unwrap_or_default();
        from.iter().chain(before).take_while(|entry| !entry.is_vacant())
    }

    /// The places of a number.
    #[inline]
    pub(super) fn all(&self, number: u64) -> impl Iterator<Item = Place> {
        let entries = self.after_home(number);
        entries
            .filter(move |entry| entry.number == number)
            .map(|entry| entry.place)
    }

    /// The first place of a number.
    #[inline]
    pub(super) fn get(&self, number: u64) -> Option<Place> {
        self.all(number).next()
    }

    /// The first place of a number, to be changed.
    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut Place> {
        let at = self.position(number, |_| true)?;
        self.entries.get_mut(at).map(|entry| &mut entry.place)
    }

    fn position(&self, number: u64, is_wanted: impl Fn(Place) -> bool) -> Option<usize> {
        let is_it = |entry: &Entry| entry.number == number && is_wanted(entry.place);
        let distance = self.after_home(number).position(is_it)?;
        Some(self.wrapped(self.home(number) + distance))
    }

    /// A position of which the number of entries has been taken, if it is beyond them.
    fn wrapped(&self, at: usize) -> usize {
        match at.checked_sub(self.entries.len()) {
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
        if needed > self.entries.len() / 6 * 5 {
            let eighth = self.entries.len() / 8;
            // A fifth is vacant, then.
            self.resize((self.entries.len() + eighth).max(needed + needed / 4));
        }
    }

    /// Moves all entries into an array of that length or a little more, which they do not fill.
    fn resize(&mut self, len: usize) {
        let len = (len + 1).next_multiple_of(LINE);
        let old = std::mem::replace(&mut self.entries, vec![Entry::VACANT; len].into());
        for entry in old.iter().filter(|entry| !entry.is_vacant()) {
            self.put(*entry);
        }
    }

    fn put(&mut self, entry: Entry) {
        let home = self.home(entry.number);
        let (before, from) = self.entries.split_at_mut_checked(home).unwrap_or_default();
        let mut all = from.iter_mut().chain(before);
        // There is one: it is never full.
        all.find(|entry| entry.is_vacant())
            .into_iter()
            .for_each(|vacant| *vacant = entry);
    }

    /// Adds a place.
    pub(super) fn insert(&mut self, number: u64, place: Place) {
        self.reserve(1);
        self.put(Entry { number, place });
        self.used += 1;
    }

    /// Takes out a place of a number, the first that is wanted.
    pub(super) fn remove(&mut self, number: u64, is_wanted: impl Fn(Place) -> bool) {
        let Some(at) = self.position(number, is_wanted) else {
            return;
        };
        self.close(at);
        self.used -= 1;
        if self.used < self.entries.len() / 4 {
            self.resize(self.used + self.used / 4);
        }
    }

    /// Vacates an entry, to which one behind is moved that may stand there; and so on with that one's.
    fn close(&mut self, at: usize) {
        let (mut gap, mut next) = (at, at);
        loop {
            next = self.wrapped(next + 1);
            let found = self.entries.get(next).copied().filter(|e| !e.is_vacant());
            let Some(entry) = found else {
                break;
            };
            let len = self.entries.len();
            // How far it stands behind its home, and how far behind the gap.
            let behind = |from: usize| self.wrapped(next + len - from);
            if behind(self.home(entry.number)) >= behind(gap) {
                self.set(gap, entry);
                gap = next;
            }
        }
        self.set(gap, Entry::VACANT);
    }

    fn set(&mut self, at: usize, entry: Entry) {
        if let Some(place) = self.entries.get_mut(at) {
            *place = entry;
        }
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

    fn place(index: u32) -> Place {
        Place { module: 7, index }
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
                true => {
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

    #[test]
    fn it_takes_no_more_than_was_said_and_gives_it_back() {
        let mut index = Index::default();
        assert_eq!(index.get(3), None);
        for number in 0..10_000 {
            index.insert(number, place(number as u32));
            assert!(index.used < index.entries.len());
            assert!(index.entries.len() <= index.used * 27 / 20 + 2 * LINE);
        }
        for number in 0..10_000 {
            *index.get_mut(number).unwrap() = place(1);
            assert_eq!(index.get(number), Some(place(1)));
            index.remove(number, |_| true);
            assert_eq!(index.get(number), None);
        }
        assert!(index.entries.len() <= 2 * LINE, "{}", index.entries.len());
    }
}
