//! The functions of a module, as long as it is registered: without a string for each, which took
//! more than sites take.
//!
//! Functions may overlap, by aliases and by entries in the middle of others. Of those that contain
//! an address the one that starts last is its function. Cost: each lookup is logarithmic in the
//! functions; the first one by name, or of an address in no function that starts last before it,
//! sorts them.

use std::sync::OnceLock;

use crate::addr::{CodeAddr, Len};
use crate::image::{self, FunctionRange};
use crate::site::{Error, Result};

/// Functions in ascending address. One takes 16 bytes and its name.
pub(crate) struct Functions {
    all: Box<[KeptFunction]>,
    /// One name after the other.
    names: Box<str>,
    /// What pointers to them hold; empty where that is their addresses.
    pointers: Box<[CodeAddr]>,
    /// Boxed, and made when it is first asked for: most modules are never asked.
    sorted: OnceLock<Box<Sorted>>,
}

/// What lookups need that are not by the start of a function.
struct Sorted {
    /// Where functions end that reach beyond later ones; empty where none does.
    ends: LatestEnds,
    /// Their numbers in the order of their names.
    by_name: Box<[u32]>,
}

/// A tree of the greatest ends of functions, over their numbers: each node is the greater of its
/// two children, which are at twice its index and behind that; the leaves are the last half.
#[derive(Default)]
struct LatestEnds(Box<[u64]>);

impl LatestEnds {
    /// None are needed where a function never ends before one that starts before it: the last one
    /// that starts before an address contains it then, if any does.
    fn of(functions: &[KeptFunction]) -> Self {
        let ends = || functions.iter().map(KeptFunction::end);
        if ends().is_sorted() {
            return Self::default();
        }
        let leaves = functions.len().next_power_of_two();
        let mut tree = vec![0; 2 * leaves];
        for (leaf, end) in tree.iter_mut().skip(leaves).zip(ends()) {
            *leaf = end;
        }
        for node in (1..leaves).rev() {
            let two = tree.get(2 * node..2 * node + 2);
            let greater = two.and_then(|two| two.iter().max().copied());
            let node = tree.get_mut(node).zip(greater);
            let (node, greater) = node.expect("a node that is no leaf has two below it");
            *node = greater;
        }
        Self(tree.into())
    }

    fn reaches(&self, node: usize, addr: u64) -> bool {
        step();
        self.0.get(node).is_some_and(|end| *end > addr)
    }

    /// The last function before this number that ends behind the address.
    fn last_before(&self, number: usize, addr: u64) -> Option<usize> {
        let leaves = self.0.len() / 2;
        // Up, to the last subtree on the left that has one.
        let mut node = leaves + number;
        loop {
            if node <= 1 {
                return None;
            }
            if node % 2 == 1 && self.reaches(node - 1, addr) {
                node -= 1;
                break;
            }
            node /= 2;
        }
        // Down, to the last one in it.
        while node < leaves {
            node = 2 * node + usize::from(self.reaches(2 * node + 1, addr));
        }
        Some(node - leaves)
    }
}

struct KeptFunction {
    addr: CodeAddr,
    len: Len,
    name_end: u32,
}

impl KeptFunction {
    fn end(&self) -> u64 {
        self.addr.get().saturating_add(self.len.get().into())
    }
}

/// One of them.
#[derive(Clone, Copy)]
pub(crate) struct FunctionView<'a> {
    pub(crate) name: &'a str,
    pub(crate) addr: CodeAddr,
    pub(crate) len: Len,
    /// What a pointer to it holds.
    pub(crate) pointer: CodeAddr,
}

impl Functions {
    /// Keeps functions that are sorted by address.
    ///
    /// # Errors
    /// [`ImageTooLarge`](image::Error::ImageTooLarge): their names take 4 GiB.
    pub(crate) fn new(functions: &[FunctionRange]) -> Result<Self> {
        let size: usize = functions.iter().map(|function| function.name.len()).sum();
        if u32::try_from(size).is_err() {
            return Err(Error::from(image::Error::ImageTooLarge {
                size: size as u64,
                limit: u32::MAX.into(),
            }));
        }
        let mut names = String::with_capacity(size);
        let keep = |function: &FunctionRange| {
            names.push_str(&function.name);
            KeptFunction {
                addr: function.addr,
                len: function.len,
                name_end: names.len() as u32,
            }
        };
        let all: Box<[KeptFunction]> = functions.iter().map(keep).collect();
        let is_plain = |function: &FunctionRange| function.pointer == function.addr;
        let pointers = match functions.iter().all(is_plain) {
            true => Box::default(),
            false => functions.iter().map(|function| function.pointer).collect(),
        };
        Ok(Self {
            all,
            names: names.into(),
            pointers,
            sorted: OnceLock::new(),
        })
    }

    fn sorted(&self) -> &Sorted {
        self.sorted.get_or_init(|| {
            let mut numbers: Box<[u32]> = (0..self.all.len() as u32).collect();
            // Stable: of those of one name the first stays first.
            numbers.sort_by(|a, b| self.name(*a).cmp(self.name(*b)));
            Box::new(Sorted {
                ends: LatestEnds::of(&self.all),
                by_name: numbers,
            })
        })
    }

    /// The name of one, for a lookup.
    fn name(&self, index: u32) -> &str {
        step();
        self.get(index).map_or("", |function| function.name)
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn get(&self, index: u32) -> Option<FunctionView<'_>> {
        let index = index as usize;
        let kept = self.all.get(index)?;
        let before = index.checked_sub(1).and_then(|before| self.all.get(before));
        let start = before.map_or(0, |before| before.name_end);
        let name = self.names.get(start as usize..kept.name_end as usize);
        Some(FunctionView {
            name: name.expect("a name begins where the one before it ends"),
            addr: kept.addr,
            len: kept.len,
            // They are kept where one is not its function's address.
            pointer: self.pointers.get(index).copied().unwrap_or(kept.addr),
        })
    }

    /// The address of the first byte of one.
    pub(super) fn addr(&self, index: u32) -> Option<CodeAddr> {
        self.place(index).map(|(addr, _)| addr)
    }

    /// The same, and its length.
    pub(super) fn place(&self, index: u32) -> Option<(CodeAddr, Len)> {
        self.all.get(index as usize).map(|kept| (kept.addr, kept.len))
    }

    /// The number of the one with that name, of several the first.
    pub(super) fn named(&self, name: &str) -> Option<u32> {
        let by_name = &self.sorted().by_name;
        let first = by_name.partition_point(|index| self.name(*index) < name);
        let found = *by_name.get(first)?;
        (self.name(found) == name).then_some(found)
    }

    /// The number of the one that starts there.
    pub(super) fn starting_at(&self, addr: CodeAddr) -> Option<u32> {
        let found = self.all.binary_search_by_key(&addr, |kept| kept.addr);
        found.ok().map(|index| index as u32)
    }

    /// The number of the one that contains that address, of several the last.
    pub(super) fn containing(&self, addr: CodeAddr) -> Option<u32> {
        let after = self.all.partition_point(|kept| kept.addr <= addr);
        let last = after.checked_sub(1)?;
        let index = match self
            .all
            .get(last)
            .filter(|kept| addr.is_within(kept.addr, kept.len))
        {
            Some(_) => last,
            // protection: the-function-of-an-address-may-start-earlier
            None => self.sorted().ends.last_before(last, addr.get())?,
        };
        Some(index as u32)
    }

    /// The addresses at which functions start between two addresses, ascending, without the second
    /// one.
    pub(super) fn starts_between(&self, start: u64, end: u64) -> Vec<CodeAddr> {
        let first = self.all.partition_point(|kept| kept.addr.get() < start);
        let starts = self.all.iter().skip(first).map(|kept| kept.addr);
        let mut starts: Vec<CodeAddr> = starts.take_while(|addr| addr.get() < end).collect();
        starts.dedup();
        starts
    }
}

#[cfg(test)]
thread_local! {
    /// How many functions, or nodes of the tree, this thread has looked at.
    static STEPS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

#[cfg(test)]
fn step() {
    STEPS.set(STEPS.get() + 1);
}

#[cfg(not(test))]
const fn step() {}

/// How many functions this thread's lookups have looked at.
#[cfg(test)]
pub(super) fn steps() -> u64 {
    STEPS.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(name: &str, addr: u64, pointer: u64) -> FunctionRange {
        FunctionRange {
            name: name.into(),
            addr: CodeAddr::new(addr),
            len: Len::new(8),
            pointer: CodeAddr::new(pointer),
        }
    }

    #[test]
    fn what_is_kept_is_what_was_given() {
        for descriptors in [0, 0x1000] {
            let given = [
                function("first", 0x10, 0x10 + descriptors),
                function("", 0x20, 0x20 + descriptors),
                function("last", 0x30, 0x30 + descriptors),
            ];
            let kept = Functions::new(&given).unwrap();
            assert_eq!(kept.len(), given.len());
            for (index, given) in (0..).zip(&given) {
                let found = kept.get(index).unwrap();
                assert_eq!(
                    (found.name, found.addr, found.len, found.pointer),
                    (given.name.as_str(), given.addr, given.len, given.pointer)
                );
                assert_eq!(kept.addr(index), Some(given.addr));
                assert_eq!(kept.named(&given.name), Some(index));
                assert_eq!(kept.starting_at(given.addr), Some(index));
                let last = CodeAddr::new(given.addr.get() + 7);
                assert_eq!(kept.containing(last), Some(index));
                assert_eq!(kept.containing(CodeAddr::new(given.addr.get() + 8)), None);
            }
            assert!(kept.get(3).is_none() && kept.named("none").is_none());
            assert_eq!(kept.starting_at(CodeAddr::new(0x11)), None);
        }
    }

    fn ranges(of: &[(u64, u32)]) -> Vec<FunctionRange> {
        let range = |(addr, len): &(u64, u32)| FunctionRange {
            len: Len::new(*len),
            ..function("f", *addr, *addr)
        };
        let mut ranges: Vec<_> = of.iter().map(range).collect();
        ranges.sort_by_key(|range| range.addr);
        ranges
    }

    /// Of functions that contain each other: as somebody finds it who looks at all.
    #[test]
    fn of_functions_that_overlap_the_last_that_contains_an_address_is_found() {
        let cases: [&[(u64, u32)]; 6] = [
            &[(0x10, 0x40), (0x18, 8), (0x30, 0x10), (0x60, 4)],
            &[(0x10, 0x40), (0x10, 8), (0x10, 0x40), (0x20, 0)],
            &[(0x10, 0x40), (0x11, 0x3e), (0x12, 0x3c), (0x13, 1), (0x14, 1)],
            &[
                (0x10, 1),
                (0x11, 0x20),
                (0x12, 1),
                (0x13, 1),
                (0x40, 8),
                (0x41, 1),
            ],
            &[(0x10, 4), (0x20, 4), (0x22, 4)],
            &[(0x10, 0x50)],
        ];
        for case in cases {
            let given = ranges(case);
            let kept = Functions::new(&given).unwrap();
            for addr in (0..0x70).map(CodeAddr::new) {
                let contains = |range: &FunctionRange| addr.is_within(range.addr, range.len);
                let last = given.iter().rposition(contains).map(|index| index as u32);
                assert_eq!(kept.containing(addr), last, "{addr} in {case:?}");
            }
        }
    }

    /// Work, not time: a lookup looks at a logarithm of what is there, also where every function
    /// contains every later one.
    #[test]
    fn lookups_do_not_look_at_all_functions() {
        const COUNT: u64 = 1 << 14;
        let nested: Vec<_> = (0..COUNT)
            .map(|index| (index, (2 * (COUNT - index)) as u32))
            .collect();
        let mut given = ranges(&nested);
        for (index, function) in given.iter_mut().enumerate() {
            function.name = format!("f{index}");
        }
        let kept = Functions::new(&given).unwrap();
        let before = steps();
        for addr in 0..2 * COUNT {
            let last = if addr < COUNT { addr } else { 2 * COUNT - addr - 1 };
            assert_eq!(
                kept.containing(CodeAddr::new(addr)),
                Some(last.min(COUNT - 1) as u32)
            );
        }
        assert!(steps() - before <= 2 * COUNT * 64, "{}", steps() - before);
        let before = steps();
        for (index, function) in (0..).zip(&given) {
            assert_eq!(kept.named(&function.name), Some(index));
        }
        assert!(steps() - before <= COUNT * 64, "{}", steps() - before);
    }
}
