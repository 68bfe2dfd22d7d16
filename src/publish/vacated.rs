//! What threads have to be out of while it changes.
//!
//! **Problem.** A stop that looks through a thread's registers and stack sees words, not return
//! addresses. A word that a routine of memory copies has left, or that is a register which some
//! exit stub has captured, may be an address in a site to which nobody returns; taken for a return
//! address, it refuses a patch for as long as it is there.
//!
//! **Approach.** What changes is handed over with the offsets to which a thread can return whose
//! program counter is in other code: the return offsets of what is there. A program counter counts
//! at every address.
//!
//! **Invariant.** Return offsets are held as offsets, so that no return offset's address is a word
//! of the stack of whoever looks.

use smallvec::SmallVec;

use crate::addr::{CodeAddr, CodeRange};

/// Bytes in which no thread may be while they change, and to whose return offsets none may return.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vacated {
    range: CodeRange,
    return_offsets: ReturnOffsets,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ReturnOffsets {
    /// Any address but the first: sites and stubs do not begin behind calls that return.
    Anywhere,
    /// These offsets.
    At(SmallVec<[u32; 4]>),
}

impl Vacated {
    /// Bytes of which is not known where calls inside of them return to: to any address but the
    /// first.
    #[must_use]
    pub const fn anywhere(range: CodeRange) -> Self {
        Self {
            range,
            return_offsets: ReturnOffsets::Anywhere,
        }
    }

    /// Bytes to which calls return at these offsets only.
    #[must_use]
    pub fn return_offset_at(range: CodeRange, return_offsets: impl IntoIterator<Item = u32>) -> Self {
        Self {
            range,
            return_offsets: ReturnOffsets::At(return_offsets.into_iter().collect()),
        }
    }

    /// The bytes. No thread's program counter may be there.
    #[must_use]
    pub const fn range(&self) -> CodeRange {
        self.range
    }

    /// Whether a word that is this address may be a return address into the bytes, or the target of
    /// a jump that follows one.
    #[must_use]
    pub fn is_return_offset(&self, at: CodeAddr) -> bool {
        if !self.range.contains(at) {
            return false;
        }
        let offset = at.get().wrapping_sub(self.range.start().get());
        match &self.return_offsets {
            ReturnOffsets::Anywhere => offset != 0,
            ReturnOffsets::At(return_offsets) => return_offsets
                .iter()
                .any(|return_offset| u64::from(*return_offset) == offset),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn return_offsets_are_those_that_are_told_or_all_but_the_first_byte() {
        let range = CodeRange::new(CodeAddr::new(0x1000), 8).unwrap();
        let return_offsets = |vacated: &Vacated| -> std::vec::Vec<u64> {
            let all = 0xff0..0x1010_u64;
            all.filter(|at| vacated.is_return_offset(CodeAddr::new(*at)))
                .collect()
        };
        assert_eq!(
            return_offsets(&Vacated::anywhere(range)),
            (0x1001..0x1008).collect::<std::vec::Vec<_>>()
        );
        assert_eq!(
            return_offsets(&Vacated::return_offset_at(range, [0, 4, 8])),
            [0x1000, 0x1004],
            "the end is outside"
        );
        assert_eq!(return_offsets(&Vacated::return_offset_at(range, [])), []);
    }
}
