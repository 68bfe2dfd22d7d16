//! Instructions that were moved, and are copied for others like them.
//!
//! Problem: to relocate the instructions of a site takes some 2,000 machine instructions, and thousands of sites
//! that are alike have the same bytes. Approach: moved from one place to another, these differ in their
//! distances to what stays, and all by the same amount. So they are relocated once, and each copy gets its
//! distances.

use alloc::vec::Vec;

use smallvec::SmallVec;

/// Instructions as they are executed at an address, and a jump to what followed them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relocated {
    code: Vec<u8>,
    /// Where in the code there are distances of four bytes, the lowest first, to what was not moved. `None`
    /// where more than these depends on the address.
    distances: Option<SmallVec<[usize; 4]>>,
}

impl Relocated {
    /// Of which nothing is known.
    pub(crate) fn fixed(code: Vec<u8>) -> Self {
        let distances = None;
        Self { code, distances }
    }

    /// Of which nothing else depends on the address than what is at these offsets.
    pub(crate) fn with_distances(code: Vec<u8>, distances: SmallVec<[usize; 4]>) -> Self {
        let distances = Some(distances);
        Self { code, distances }
    }

    /// The code, at the address for which it was relocated or [shifted](Self::shift).
    #[must_use]
    pub fn code(&self) -> &[u8] {
        &self.code
    }

    /// The same, taken out.
    #[must_use]
    pub fn into_code(self) -> Vec<u8> {
        self.code
    }

    /// Makes it the code of the same bytes that were at another place, and are executed at another: `by` is
    /// how much farther all that stays is from there, in bytes. Whether it is; otherwise it is as before:
    /// they have to be relocated by themselves.
    #[must_use]
    pub fn shift(&mut self, by: i64) -> bool {
        let (Some(distances), code) = (&self.distances, &mut self.code) else {
            return false;
        };
        // protection: copies-reach-what-the-relocated-code-does
        let reaches = |at: &usize| {
            let distance = i64::from(i32::from_le_bytes(*four(code, *at))).checked_add(by);
            distance.is_some_and(|distance| i32::try_from(distance).is_ok())
        };
        if !distances.iter().all(reaches) {
            return false;
        }
        for at in distances {
            // Each fits, so its low bits are all of it.
            let distance = i32::from_le_bytes(*four(code, *at)).wrapping_add(by as i32);
            *four(code, *at) = distance.to_le_bytes();
        }
        true
    }
}

fn four(code: &mut [u8], at: usize) -> &mut [u8; 4] {
    let four = code.get_mut(at..).and_then(<[u8]>::first_chunk_mut);
    four.expect("a distance lies in the code")
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn code() -> Relocated {
        // jmp -16; jmp 32
        let code = vec![0xe9, 0xf0, 0xff, 0xff, 0xff, 0xe9, 32, 0, 0, 0];
        Relocated::with_distances(code, [1, 6].into_iter().collect())
    }

    #[test]
    fn all_distances_change_by_the_same() {
        let mut shifted = code();
        assert!(shifted.shift(0x100) && shifted.shift(-0x300));
        assert_eq!(
            shifted.code(),
            [0xe9, 0xf0, 0xfd, 0xff, 0xff, 0xe9, 0x20, 0xfe, 0xff, 0xff]
        );
    }

    /// Of none of them if one is too far.
    #[test]
    fn what_is_too_far_leaves_the_code_as_it_is() {
        let most = i64::from(i32::MAX);
        for by in [most - 31, -most + 14, i64::MAX, i64::MIN] {
            let mut shifted = code();
            assert!(!shifted.shift(by), "{by:#x}");
            assert_eq!(shifted, code());
        }
        assert!(code().shift(most - 32) && code().shift(-most + 15));
    }

    #[test]
    fn code_of_which_nothing_is_known_is_not_shifted() {
        assert!(!Relocated::fixed(vec![0xe9, 0, 0, 0, 0]).shift(0));
    }
}
