//! The functions of a module, as long as it is registered: without a string for each, which took more than sites take.

use crate::addr::{CodeAddr, Len};
use crate::error::{Error, Result};
use crate::image::FunctionRange;

/// Functions in ascending address. One takes 16 bytes and its name.
pub(crate) struct Functions {
    all: Box<[Kept]>,
    /// One name after the other.
    names: Box<str>,
    /// What pointers to them hold; empty where that is their addresses.
    pointers: Box<[CodeAddr]>,
}

struct Kept {
    addr: CodeAddr,
    len: Len,
    name_end: u32,
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
    /// [`Error::ImageTooLarge`]: their names take 4 GiB.
    pub(crate) fn new(functions: &[FunctionRange]) -> Result<Self> {
        let size: usize = functions.iter().map(|function| function.name.len()).sum();
        if u32::try_from(size).is_err() {
            return Err(Error::ImageTooLarge {
                size: size as u64,
                limit: u32::MAX.into(),
            });
        }
        let mut names = String::with_capacity(size);
        let keep = |function: &FunctionRange| {
            names.push_str(&function.name);
            Kept {
                addr: function.addr,
                len: function.len,
                name_end: names.len() as u32,
            }
        };
        let all = functions.iter().map(keep).collect();
        let is_plain = |function: &FunctionRange| function.pointer == function.addr;
        let pointers = match functions.iter().all(is_plain) {
            true => Box::default(),
            false => functions.iter().map(|function| function.pointer).collect(),
        };
        Ok(Self {
            all,
            names: names.into(),
            pointers,
        })
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
            name: name.unwrap_or_default(),
            addr: kept.addr,
            len: kept.len,
            pointer: self.pointers.get(index).copied().unwrap_or(kept.addr),
        })
    }

    /// The address of the first byte of one.
    pub(super) fn addr(&self, index: u32) -> Option<CodeAddr> {
        self.all.get(index as usize).map(|kept| kept.addr)
    }

    /// The number of the one with that name, of several the first.
    pub(super) fn named(&self, name: &str) -> Option<u32> {
        let is_it = |index: &u32| self.get(*index).is_some_and(|function| function.name == name);
        (0..self.all.len() as u32).find(is_it)
    }

    /// The number of the one that starts there.
    pub(super) fn starting_at(&self, addr: CodeAddr) -> Option<u32> {
        let found = self.all.binary_search_by_key(&addr, |kept| kept.addr);
        found.ok().map(|index| index as u32)
    }

    /// The number of the one that contains that address.
    pub(super) fn containing(&self, addr: CodeAddr) -> Option<u32> {
        let after = self.all.partition_point(|kept| kept.addr <= addr);
        let index = after.checked_sub(1)?;
        let kept = self.all.get(index)?;
        addr.is_within(kept.addr, kept.len).then_some(index as u32)
    }
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
}
