//! Finding free address space where code must lie.
//!
//! Addresses are tried one after the other with a call that never replaces a mapping, so that no
//! list of mappings has to be parsed and no other thread's mapping can be hit in between.

use crate::addr::{CodeAddr, CodeRange};
use crate::memory::{Error, Result};

use super::{Reach, sys};

/// How far apart the tried addresses are, where there are many.
const STEP: u64 = 1 << 20;
/// The widest window that is searched: 4 GiB on either side. No branch and no displacement of any
/// architecture reaches further, and each address that is tried is a system call.
const MOST_WITHIN: u64 = 1 << 32;
/// Below lies what systems keep unmapped.
const LOWEST: u64 = 1 << 16;
/// The end of the symbols of the small code model.
const LOW_END: u64 = (1 << 31) - (1 << 24);

/// Where a reservation may lie.
pub(super) fn window(reach: Reach) -> CodeRange {
    let (start, end) = match reach {
        Reach::Anywhere => (0, u64::MAX),
        Reach::Low2GiB => (LOWEST, LOW_END),
        Reach::Near { code, within } => {
            // protection: searches-end
            let within = within.min(MOST_WITHIN);
            (
                code.end().get().saturating_sub(within).max(LOWEST),
                code.start().get().saturating_add(within),
            )
        }
    };
    // None, if all that is in reach is too low.
    let len = end.saturating_sub(start);
    CodeRange::new(CodeAddr::new(start), len).expect("the range ends at `end`, or is empty")
}

/// Whether memory at `range` is where it may be.
pub(super) fn allows(reach: Reach, range: CodeRange) -> bool {
    window(reach).contains_bytes(range.start(), range.len())
}

/// Reserves `len` bytes, a multiple of a page, where `reach` allows.
pub(super) fn reserve(len: u64, reach: Reach) -> Result<CodeRange> {
    let refused = |at: CodeAddr, errno| Error::SystemCall {
        call: "mmap of address space",
        at,
        len,
        errno,
        mend: "raise the limit on address space (RLIMIT_AS) or on mappings (vm.max_map_count)",
    };
    let within = window(reach);
    if reach == Reach::Anywhere {
        let start = sys::reserve(None, len).map_err(|errno| refused(CodeAddr::default(), errno))?;
        return CodeRange::new(CodeAddr::new(start), len).ok_or(Error::NoAddressSpace { len, within });
    }
    for at in candidates(reach, len) {
        match sys::reserve(Some(at.get()), len) {
            Ok(_) => return CodeRange::new(at, len).ok_or(Error::NoAddressSpace { len, within }),
            Err(errno) if sys::place_is_taken(errno) => {}
            Err(errno) => return Err(refused(at, errno)),
        }
    }
    Err(Error::NoAddressSpace { len, within })
}

/// The addresses to try: for the low part upwards, near other code outwards from it.
fn candidates(reach: Reach, len: u64) -> impl Iterator<Item = CodeAddr> {
    let within = window(reach);
    let page = sys::page_size();
    let (below, above) = match reach {
        Reach::Near { code, .. } => (code.start().get().saturating_sub(len), code.end().get()),
        Reach::Anywhere | Reach::Low2GiB => (0, within.start().get()),
    };
    // Nothing is above code in the last page of all addresses.
    let (below, above) = (below & !(page - 1), above.checked_next_multiple_of(page));
    let step = STEP.min(within.len() / 512).max(1).next_multiple_of(page);
    let steps = within.len() / step + 1;
    (0..steps)
        .flat_map(move |k| {
            [
                above.and_then(|above| above.checked_add(k * step)),
                below.checked_sub(k * step),
            ]
        })
        .flatten()
        .map(CodeAddr::new)
        // protection: placed-in-the-window
        .filter(move |at| within.contains_bytes(*at, len))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(code: CodeRange) -> Reach {
        let within = (1 << 31) - (1 << 16);
        Reach::Near { code, within }
    }

    #[test]
    fn candidates_stay_in_reach_of_both_ends() {
        let code = CodeRange::new(CodeAddr::new(0x7000_0000_0000), 0x4000_0000).unwrap();
        let len = 1 << 21;
        let mut tried = 0;
        for at in candidates(near(code), len) {
            tried += 1;
            for mine in [at.get(), at.get() + len] {
                for theirs in [code.start().get(), code.end().get()] {
                    assert!(i32::try_from(mine.wrapping_sub(theirs) as i64).is_ok());
                }
            }
        }
        assert!(tried > 1000, "only {tried} places tried");
    }

    #[test]
    fn a_small_window_has_many_candidates() {
        let code = CodeRange::new(CodeAddr::new(0x7000_0000_0000), 0x1000).unwrap();
        let (within, len) = ((1 << 20) - (1 << 16), 1 << 17);
        let tried: Vec<_> = candidates(Reach::Near { code, within }, len).collect();
        assert!(tried.len() > 16, "only {} places tried", tried.len());
        for at in tried {
            let low = at.min(code.start()).get();
            let high = code.end().get().max(at.get() + len);
            assert!(high - low <= within, "{at}");
        }
    }

    #[test]
    fn code_at_the_end_of_all_addresses_has_candidates_below_it() {
        let code = CodeRange::new(CodeAddr::new(u64::MAX - 0x10), 8).unwrap();
        let tried: Vec<_> = candidates(near(code), 0x1000).collect();
        assert!(!tried.is_empty());
        assert!(tried.iter().all(|at| *at < code.start()), "{tried:x?}");
    }

    #[test]
    fn a_search_ends_however_far_code_is_said_to_reach() {
        let code = CodeRange::new(CodeAddr::new(0x7000_0000_0000), 0x1000).unwrap();
        for within in [MOST_WITHIN, 1 << 47, u64::MAX] {
            let tried = candidates(Reach::Near { code, within }, 0x1000)
                .take(10_000)
                .count();
            assert!((8000..9000).contains(&tried), "{tried} places for {within:#x}");
        }
    }

    #[test]
    fn near_the_bottom_of_the_address_space_nothing_wraps() {
        let code = CodeRange::new(CodeAddr::new(0x40_0000), 0x1000).unwrap();
        assert!(candidates(near(code), 1 << 21).all(|at| at.get() >= LOWEST));
        assert!(candidates(Reach::Low2GiB, 1 << 21).all(|at| at.get() + (1 << 21) <= LOW_END));
    }

    #[test]
    fn what_cannot_fit_is_refused() {
        let code = CodeRange::new(CodeAddr::new(0x7000_0000_0000), 0x1000).unwrap();
        let refused = reserve(1 << 33, near(code));
        assert!(
            matches!(refused, Err(Error::NoAddressSpace { .. })),
            "{refused:?}"
        );
    }
}
