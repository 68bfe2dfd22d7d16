//! What threads have to be out of while it changes.
//!
//! **Problem.** A stop that looks through a thread's registers and stack sees words, not return addresses. A word that
//! a routine of memory copies has left, or that is a register which some ramp has captured, may be an address in a
//! site to which nobody returns; taken for a return address, it refuses a patch for as long as it stands there.
//!
//! **Approach.** What changes is handed over with the offsets at which a thread can arrive that is elsewhere: the landings
//! of what stands there. A program counter counts everywhere.
//!
//! **Invariant.** Landings are held as offsets, so that no landing's address is a word of the stack of whoever looks.

use smallvec::SmallVec;

use crate::addr::{CodeAddr, CodeRange};

/// Bytes in which no thread may be while they change, and to whose landings none may return.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vacated {
    range: CodeRange,
    landings: Landings,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Landings {
    /// Any address but the first: sites and stubs do not begin behind calls that return.
    Anywhere,
    /// These offsets.
    At(SmallVec<[u32; 4]>),
}

impl Vacated {
    /// Bytes of which is not known where calls inside of them return to: to any address but the first.
    #[must_use]
    pub const fn anywhere(range: CodeRange) -> Self {
        Self {
            range,
            landings: Landings::Anywhere,
        }
    }

    /// Bytes to which calls return at these offsets only.
    #[must_use]
    pub fn landing_at(range: CodeRange, landings: impl IntoIterator<Item = u32>) -> Self {
        Self {
            range,
            landings: Landings::At(landings.into_iter().collect()),
        }
    }

    /// The bytes. No thread's program counter may be there.
    #[must_use]
    pub const fn range(&self) -> CodeRange {
        self.range
    }

    /// Whether a word that is this address may be a return address into the bytes, or the target of a jump that follows one.
    #[must_use]
    pub fn is_landing(&self, at: CodeAddr) -> bool {
        if !self.range.contains(at) {
            return false;
        }
        let offset = at.get().wrapping_sub(self.range.start().get());
        match &self.landings {
            Landings::Anywhere => offset != 0,
            Landings::At(landings) => landings.iter().any(|landing| u64::from(*landing) == offset),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn landings_are_those_that_are_told_or_all_but_the_first_byte() {
        let range = CodeRange::new(CodeAddr::new(0x1000), 8).unwrap();
        let landings = |vacated: &Vacated| -> std::vec::Vec<u64> {
            let all = 0xff0..0x1010_u64;
            all.filter(|at| vacated.is_landing(CodeAddr::new(*at))).collect()
        };
        assert_eq!(
            landings(&Vacated::anywhere(range)),
            (0x1001..0x1008).collect::<std::vec::Vec<_>>()
        );
        assert_eq!(
            landings(&Vacated::landing_at(range, [0, 4, 8])),
            [0x1000, 0x1004],
            "the end is outside"
        );
        assert_eq!(landings(&Vacated::landing_at(range, [])), []);
    }
}
