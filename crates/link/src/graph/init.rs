//! Functions that an object wants called before its others, and after them: constructors and
//! destructors.
//!
//! Problem: objects list such functions in sections of their own, by priorities, in several ways;
//! who calls them must know the order. Approach: the sections are placed as others are, and when
//! the image is linked their entries are read and brought into the order of calls. Nothing here
//! calls them: when code may run is for the runtime to say.
//!
//! | section | its functions are called |
//! |---|---|
//! | `.preinit_array` | before all others |
//! | `.init_array.N` | before the other functions, those of smaller N first; N is a priority of up to 65535 |
//! | `.init_array` | behind all of them |
//! | `.ctors.N`, `.ctors` | as the same with 65535 - N for N, but from the last entry to the first |
//! | `.fini_array` and the like | after the other functions: where the list above ends |
//! | `.dtors` and the like | as `.fini_array`, but from the first entry to the last |
//!
//! Of sections of one priority, those of the file that was added first come first; destructors run
//! in the order that is the reverse of all this.
//!
//! Sources: System V gABI, "Initialization and Termination Functions"; GNU ld's default script,
//! which puts `.ctors` and `.init_array` into one list.

use alloc::vec::Vec;

use llvm_stackmaps::Endian;
use llvm_stackmaps::addr::CodeAddr;

use crate::error::{Error, Result};
use crate::graph::Section;

/// What a section's functions are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Time {
    Before,
    After,
}

/// How the functions that a section lists are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FunctionList {
    time: Time,
    /// Those of smaller ones are called first.
    rank: u32,
    /// From the last to the first.
    backwards: bool,
}

/// The size of an entry, which is an address.
const ENTRY: usize = 8;

/// The priority behind all that may be given.
const NO_PRIORITY: u32 = 65536;

impl FunctionList {
    /// What the name of a section says.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        let named = |start: &str| {
            name.strip_prefix(start)
                .filter(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let list = |time, priority: u32, backwards| Self {
            time,
            // `.preinit_array` comes first.
            rank: priority + 1,
            backwards,
        };
        if named(".preinit_array").is_some() {
            return Some(Self {
                rank: 0,
                ..list(Time::Before, 0, false)
            });
        }
        for (start, time) in [(".init_array", Time::Before), (".fini_array", Time::After)] {
            if let Some(rest) = named(start) {
                return Some(list(time, priority(rest).unwrap_or(NO_PRIORITY), false));
            }
        }
        for (start, time) in [(".ctors", Time::Before), (".dtors", Time::After)] {
            if let Some(rest) = named(start) {
                let rank = priority(rest).map_or(NO_PRIORITY, |priority| 65535 - priority);
                return Some(list(time, rank, true));
            }
        }
        None
    }
}

fn priority(rest: &str) -> Option<u32> {
    let number = rest.strip_prefix('.')?.parse().ok()?;
    (number <= 65535).then_some(number)
}

/// Refuses a list that does not consist of addresses.
pub(crate) fn check(section: &Section<'_>) -> Result<()> {
    let whole = section.list.is_none()
        || section.bytes.len() % ENTRY == 0 && section.size as usize == section.bytes.len();
    if whole {
        return Ok(());
    }
    Err(Error::SectionRefused {
        section: section.name.clone().into_owned(),
        reason: "it lists functions, but its size is not that of addresses",
    })
}

/// The lists of a graph, as they are found.
#[derive(Default)]
pub(crate) struct Lists(Vec<(FunctionList, Vec<u64>)>);

impl Lists {
    /// Adds the list that a section holds, if it does.
    pub(crate) fn add(&mut self, section: &Section<'_>, relocated: &[u8], endian: Endian) {
        let Some(list) = section.list else { return };
        let words = relocated.chunks_exact(ENTRY).map(|entry| {
            let entry = entry.try_into().expect("each chunk has as many bytes");
            match endian {
                Endian::Little => u64::from_le_bytes(entry),
                Endian::Big => u64::from_be_bytes(entry),
            }
        });
        // 0 and -1 are at the ends of `.ctors`, and 0 for functions that are undefined.
        let mut functions: Vec<u64> = words.filter(|word| !matches!(*word, 0 | u64::MAX)).collect();
        // protection: old-constructors-backwards
        if list.backwards {
            functions.reverse();
        }
        self.0.push((list, functions));
    }

    /// All constructors and all destructors, each in the order in which to call them.
    pub(crate) fn in_order(mut self) -> (Vec<CodeAddr>, Vec<CodeAddr>) {
        // Those of one rank stay as they are.
        // protection: constructors-by-priority
        self.0.sort_by_key(|(list, _)| list.rank);
        let of = |time| -> Vec<CodeAddr> {
            let lists = self.0.iter().filter(|(list, _)| list.time == time);
            lists
                .flat_map(|(_, functions)| functions.iter().copied().map(CodeAddr::new))
                .collect()
        };
        let mut after = of(Time::After);
        // protection: destructors-backwards
        after.reverse();
        (of(Time::Before), after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_when() {
        let list = |time, rank, backwards| {
            Some(FunctionList {
                time,
                rank,
                backwards,
            })
        };
        let cases = [
            (".preinit_array", list(Time::Before, 0, false)),
            (".init_array", list(Time::Before, 65537, false)),
            (".init_array.101", list(Time::Before, 102, false)),
            (".init_array.00101", list(Time::Before, 102, false)),
            (".init_array.65535", list(Time::Before, 65536, false)),
            (".init_array.65536", list(Time::Before, 65537, false)),
            (".init_array.name", list(Time::Before, 65537, false)),
            (".fini_array.7", list(Time::After, 8, false)),
            (".ctors", list(Time::Before, 65537, true)),
            (".ctors.65434", list(Time::Before, 102, true)),
            (".dtors.65535", list(Time::After, 1, true)),
            (".init_arrays", None),
            (".init", None),
            (".data", None),
        ];
        for (name, expected) in cases {
            assert_eq!(FunctionList::of_name(name), expected, "{name}");
        }
    }
}
