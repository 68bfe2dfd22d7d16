//! Short lists of bytes, as most sites hold: a call is most of what comparing or copying them
//! takes.
//!
//! With the copying and comparing of slices instead, a patch of a shape that was seen takes 318 ns
//! for 240, and a commit of a thousand sites 9.1 ns a site for 7.2 (`benches speeds`, medians of 5
//! and 7 runs in turns).
//!
//! Those of 16 to 32 bytes are taken as their first and their last 16, which may overlap. Whoever
//! compares looks at them in the pieces in which copying has written them: a piece that lies across
//! two would wait for both.

use smallvec::SmallVec;

/// The bytes of a site, or to be put there. Most have as many as this, or fewer.
pub(crate) type Bytes = SmallVec<[u8; 32]>;

/// Room for as many bytes as most sites hold, to be copied to where it stays. A constant: what is made on the
/// stack is stored in parts, for all of which a copy waits.
pub(crate) const ROOM: Bytes = Bytes::from_const([0; 32]);

/// A list of these bytes.
#[inline]
pub(crate) fn of(bytes: &[u8]) -> Bytes {
    let mut room = [0; 32];
    match room.get_mut(..bytes.len()) {
        Some(to) => {
            copy(to, bytes);
            Bytes::from_buf_and_len(room, bytes.len())
        }
        None => Bytes::from_slice(bytes),
    }
}

/// Makes a list one of these bytes.
#[inline]
pub(crate) fn assign(list: &mut Bytes, bytes: &[u8]) {
    match list.len() == bytes.len() {
        true => copy(list, bytes),
        false => become_of(list, bytes),
    }
}

/// The same of a list that mostly has another length.
#[inline]
pub(crate) fn become_of(list: &mut Bytes, bytes: &[u8]) {
    match bytes.len() <= 32 {
        true => {
            // Where the list is: what is made apart is copied.
            *list = Bytes::from_buf_and_len([0; 32], bytes.len());
            copy(list, bytes);
        }
        false => *list = Bytes::from_slice(bytes),
    }
}

/// Copies as many bytes.
#[inline]
pub(crate) fn copy(to: &mut [u8], from: &[u8]) {
    match (to.len(), from.len()) {
        (16..=32, 16..=32) => {
            let (first, last) = (from.first_chunk::<16>(), from.last_chunk::<16>());
            if let (Some(to), Some(first)) = (to.first_chunk_mut(), first) {
                *to = *first;
            }
            if let (Some(to), Some(last)) = (to.last_chunk_mut(), last) {
                // protection: every-byte-is-copied
                *to = *last;
            }
        }
        _ => to.copy_from_slice(from),
    }
}

/// Whether as many bytes are the same.
#[inline]
pub(crate) fn same(a: &[u8], b: &[u8]) -> bool {
    match (a.len(), b.len()) {
        // protection: lists-of-other-lengths-differ
        // protection: every-byte-is-compared
        (16..=32, 16..=32) => a.len() == b.len() && have_same_ends(a, b),
        _ => same_longer(a, b),
    }
}

/// The same for others. What it needs of registers, those who mostly compare the usual length can
/// keep.
#[inline(never)]
fn same_longer(a: &[u8], b: &[u8]) -> bool {
    match (a.len(), b.len()) {
        (33..=64, 33..=64) => a.len() == b.len() && have_same_halves(a, b),
        _ => *a == *b,
    }
}

/// Whether the first and the last 16 bytes are the same.
#[inline]
fn have_same_ends(a: &[u8], b: &[u8]) -> bool {
    let [first, last] = [[a, b].map(<[u8]>::first_chunk), [a, b].map(<[u8]>::last_chunk)];
    let ([Some(a), Some(b)], [Some(a_last), Some(b_last)]) = (first, last) else {
        return false;
    };
    let differ = |a: &[u8; 16], b: &[u8; 16]| u128::from_ne_bytes(*a) ^ u128::from_ne_bytes(*b);
    differ(a, b) | differ(a_last, b_last) == 0
}

/// The same of the ends of the first and the last 32 bytes.
#[inline]
fn have_same_halves(a: &[u8], b: &[u8]) -> bool {
    let [first, last] = [
        [a, b].map(<[u8]>::first_chunk::<32>),
        [a, b].map(<[u8]>::last_chunk::<32>),
    ];
    let ([Some(a), Some(b)], [Some(a_last), Some(b_last)]) = (first, last) else {
        return false;
    };
    have_same_ends(a, b) && have_same_ends(a_last, b_last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    /// Of every length around those that are treated apart, from and to every other.
    #[test]
    fn lists_become_others_whole() {
        for len in 0..=70_u8 {
            let bytes: Vec<u8> = (1..=len).collect();
            assert_eq!(of(&bytes)[..], bytes[..]);
            for before in [0, 1, 15, 16, 24, 32, 33, 70, len] {
                let mut list = of(&std::vec![0xff; before.into()]);
                assign(&mut list, &bytes);
                assert_eq!(list[..], bytes[..], "{before} to {len}");
            }
        }
    }

    #[test]
    fn every_byte_is_compared() {
        for len in 0..=100_usize {
            let bytes: Vec<u8> = (0..len as u8).collect();
            assert!(same(&bytes, &bytes.clone()));
            for other in 0..len {
                let mut damaged = bytes.clone();
                damaged[other] ^= 0x80;
                assert!(!same(&bytes, &damaged), "byte {other} of {len}");
            }
            // They begin alike, and end alike.
            let (shorter, longer) = (std::vec![7; len], std::vec![7; len + 1]);
            assert!(!same(&shorter, &longer) && !same(&longer, &shorter), "{len}");
        }
    }
}
