//! Branches into the middle of sites, which no patch survives.
//!
//! Problem: a patch replaces all bytes of a site, and control may come to the first of them only.
//! In a shadow there are instructions of the function; where LLVM counts too many bytes for it, the
//! head of a loop is among them. A patch then makes the loop continue in the middle of some other
//! instruction. Approach: once all sites are known, every function of the module is looked through
//! for direct branches into one of them, behind its first byte, and such a site is refused. A
//! function reaches another one's sites, too, where a compiler has split a function in two.
//! Invariant: the bytes of the sites that remain are entered at the first one, by any branch that
//! names its target. Cost: linear in the size of the code and in the number of sites. Nothing is
//! decoded on x86-64 unless a branch into a site may be there. Patchpoints are passed over: what
//! is in them has been audited, and is LLVM's call and nops. In code that consists of little
//! else this is most of the bytes.

use std::ops::Range;

use super::code::count;
use super::details::ModuleParts;
use super::found::SiteEntry;
use super::functions::FunctionView;
use crate::addr::CodeAddr;
use crate::arch::SiteKind;
use crate::memory::CodeArea;
use crate::verify::{DirectBranch, branches_to};

/// The branches of the module's functions into these sites, by target. The sites ascend by their
/// starts.
pub(super) fn into_sites(parts: &ModuleParts, sites: &[SiteEntry]) -> Vec<DirectBranch> {
    let mut found = Vec::new();
    let behind = Behind::the_first_bytes(sites.iter().map(SiteEntry::bytes));
    if behind.is_nothing() {
        return found;
    }
    // Functions may overlap: each byte is looked at once, from the last start before it, where an
    // instruction begins.
    let functions = (0..parts.functions.len() as u32).filter_map(|index| parts.functions.get(index));
    let mut functions = functions
        // protection: other-functions-branch-into-no-site
        .filter_map(|function| part_of(parts, &function))
        .peekable();
    let patchpoints = sites.iter().filter(|site| site.kind == SiteKind::Patchpoint);
    let mut patchpoints = patchpoints.map(SiteEntry::bytes).peekable();
    let (mut code, mut end) = (Window::default(), 0);
    while let Some(function) = functions.next() {
        end = function.end.max(end);
        let next = functions.peek().map_or(end, |next| next.start.min(end));
        let mut at = function.start;
        loop {
            let patchpoint = patchpoints.next_if(|patchpoint| patchpoint.end <= next);
            let part = at..patchpoint.as_ref().map_or(next, |patchpoint| patchpoint.start);
            let start = CodeAddr::new(part.start);
            if let Some(code) = code.read(parts, part, next) {
                branches_to(parts.arch, start, code, |to| behind.contains(to), &mut found);
            }
            let Some(patchpoint) = patchpoint else {
                break;
            };
            at = patchpoint.end.max(at);
        }
    }
    found.sort_unstable_by_key(|branch| (branch.to, branch.from));
    found
}

/// The first of these branches, which are sorted by target, that goes into a site behind its first
/// byte.
pub(super) fn first_into(branches: &[DirectBranch], site: &Range<u64>) -> Option<DirectBranch> {
    let after = branches.partition_point(|branch| branch.to.get() <= site.start);
    let branch = branches.get(after)?;
    // protection: sites-hold-no-branch-target
    (branch.to.get() < site.end).then_some(*branch)
}

/// The addresses of a function, if it is in the module's code: that the functions with sites are
/// was found out before.
fn part_of(parts: &ModuleParts, function: &FunctionView<'_>) -> Option<Range<u64>> {
    let len = function.len.get().into();
    let area = CodeArea::containing(&parts.areas, function.addr)?;
    let start = function.addr.get();
    area.range()
        .contains_bytes(function.addr, len)
        .then(|| start..start.saturating_add(len))
}

/// Code that has been read. What lies between sites is short, and a read for each would take longer
/// than looking at it; all of a module at once would be written to memory, and fetched from there
/// again.
#[derive(Default)]
struct Window {
    bytes: Vec<u8>,
    start: u64,
}

impl Window {
    /// How many bytes are read at once, unless one piece of code has more.
    const LEN: u64 = 1 << 14;

    /// Some of a function that ends there and is in the module's code; `None` if there is nothing.
    fn read(&mut self, parts: &ModuleParts, part: Range<u64>, end: u64) -> Option<&[u8]> {
        if part.is_empty() {
            return None;
        }
        let len = (part.end - part.start) as usize;
        let known = part.start.checked_sub(self.start).map(|skip| skip as usize);
        let known = known.filter(|skip| self.bytes.len().saturating_sub(*skip) >= len);
        let skip = match known {
            Some(skip) => skip,
            None => {
                self.start = part.start;
                let until = part.end.max(end.min(part.start.saturating_add(Self::LEN)));
                read(parts, part.start..until, &mut self.bytes)?;
                0
            }
        };
        self.bytes.get(skip..)?.get(..len)
    }
}

/// Reads bytes of functions that are in the module's code. Where that fails there are none.
fn read(parts: &ModuleParts, part: Range<u64>, into: &mut Vec<u8>) -> Option<()> {
    into.clear();
    let start = CodeAddr::new(part.start);
    let area = CodeArea::containing(&parts.areas, start)?;
    into.resize((part.end - part.start) as usize, 0);
    // Read, and looked through.
    count(2 * into.len());
    if area.memory().read(start, into).is_err() {
        into.clear();
        return None;
    }
    Some(())
}

/// The bytes of sites but the first of each.
enum Behind {
    /// One bit for each byte from an address on: a look at it costs next to nothing, and there is
    /// one for each branch.
    Bits { start: u64, bits: Vec<u64> },
    /// Ascending, none of which overlap: for sites that are far apart.
    Ranges(Vec<Range<u64>>),
}

/// The most bytes of bits for one site: a function of a kilobyte has a site, or more.
const BITS_PER_SITE: u64 = 128;

impl Behind {
    /// For sites that ascend by their starts, and may overlap.
    fn the_first_bytes(sites: impl Iterator<Item = Range<u64>> + Clone) -> Self {
        let behind = sites.map(|site| site.start.saturating_add(1)..site.end);
        let behind = behind.filter(|behind| !behind.is_empty());
        let (mut count, mut start, mut end) = (0, u64::MAX, 0);
        for behind in behind.clone() {
            count += 1;
            start = behind.start.min(start);
            end = behind.end.max(end);
        }
        if end.saturating_sub(start) / 8 > BITS_PER_SITE * count {
            return Self::Ranges(merged(behind));
        }
        let mut bits = vec![0; end.saturating_sub(start).div_ceil(64) as usize];
        for behind in behind {
            let (mut at, end) = (behind.start - start, behind.end - start);
            // A word at a time: at least one bit, at most all.
            while at < end {
                let next = end.min((at / 64 + 1) * 64);
                if let Some(word) = bits.get_mut((at / 64) as usize) {
                    *word |= u64::MAX >> (64 - (next - at)) << (at % 64);
                }
                at = next;
            }
        }
        Self::Bits { start, bits }
    }

    fn is_nothing(&self) -> bool {
        match self {
            Self::Bits { bits, .. } => bits.is_empty(),
            Self::Ranges(ranges) => ranges.is_empty(),
        }
    }

    #[inline]
    fn contains(&self, addr: u64) -> bool {
        match self {
            Self::Bits { start, bits } => {
                let at = addr.wrapping_sub(*start);
                let word = usize::try_from(at / 64).ok().and_then(|word| bits.get(word));
                word.is_some_and(|word| word >> (at % 64) & 1 != 0)
            }
            Self::Ranges(ranges) => {
                let after = ranges.partition_point(|range| range.start <= addr);
                let before = after.checked_sub(1).and_then(|before| ranges.get(before));
                before.is_some_and(|range| addr < range.end)
            }
        }
    }
}

/// Ranges that ascend by their starts, those that touch as one.
fn merged(ranges: impl Iterator<Item = Range<u64>>) -> Vec<Range<u64>> {
    let mut merged: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_say_the_same() {
        let near = [
            0x1000..0x1010,
            0x1010..0x1011,
            0x1020..0x1028,
            0x1024..0x1030,
            0x1031..0x1032,
            0x1040..0x10c1,
        ];
        let mut far = near.to_vec();
        far.push(0x10_0000_0000..0x10_0000_0004);
        let (near, far) = (
            Behind::the_first_bytes(near.into_iter()),
            Behind::the_first_bytes(far.into_iter()),
        );
        assert!(matches!((&near, &far), (Behind::Bits { .. }, Behind::Ranges(_))));
        for at in (0xfc0..0x1140).chain([0, u64::MAX]) {
            let expected = matches!(at, 0x1001..=0x100f | 0x1021..=0x102f | 0x1041..=0x10c0);
            assert_eq!(
                (near.contains(at), far.contains(at)),
                (expected, expected),
                "{at:#x}"
            );
        }
        assert!(far.contains(0x10_0000_0003) && !far.contains(0x10_0000_0000));
        assert!(Behind::the_first_bytes([].into_iter()).is_nothing());
        assert!(Behind::the_first_bytes([5..6, 8..9].into_iter()).is_nothing());
    }

    #[test]
    fn the_first_branch_into_a_site_is_found() {
        let branch = |from, to| DirectBranch {
            from: CodeAddr::new(from),
            to: CodeAddr::new(to),
        };
        let branches = [branch(9, 0x10), branch(1, 0x14), branch(2, 0x14), branch(3, 0x18)];
        assert_eq!(first_into(&branches, &(0x10..0x18)), Some(branch(1, 0x14)));
        assert_eq!(first_into(&branches, &(0x14..0x18)), None);
        assert_eq!(first_into(&branches, &(0x18..0x28)), None);
        assert_eq!(first_into(&branches, &(0x0..0x11)), Some(branch(9, 0x10)));
    }
}
