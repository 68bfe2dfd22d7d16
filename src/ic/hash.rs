//! The hash of words: addresses of sites and numbers of keys, which a miss looks up.
//!
//! The standard library's hash takes some fifty times as long, for words that somebody may choose.
//! Keys are the runtime's numbers, so this one has a secret too.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

/// The golden ratio, as a fraction of 64 bits: odd, and without a pattern.
const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Makes hashers with the same secret.
#[derive(Clone, Copy, Debug)]
pub(super) struct WordHash {
    secret: u64,
}

impl Default for WordHash {
    fn default() -> Self {
        Self {
            secret: RandomState::new().hash_one(0_u64),
        }
    }
}

impl BuildHasher for WordHash {
    type Hasher = WordHasher;

    #[inline]
    fn build_hasher(&self) -> WordHasher {
        WordHasher(self.secret)
    }
}

/// The hash of what was written so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct WordHasher(u64);

impl Hasher for WordHasher {
    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }

    #[inline]
    fn write_u64(&mut self, word: u64) {
        // A product whose halves are laid over each other: each end has a part of every bit.
        let product = u128::from(self.0 ^ word) * u128::from(ODD);
        self.0 = (product >> 64) as u64 ^ product as u64;
    }

    #[inline]
    fn write_u32(&mut self, word: u32) {
        self.write_u64(word.into());
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64((*byte).into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words that differ in few bits, high or low, do not crowd in either end of the hash.
    #[test]
    fn words_are_spread_over_both_ends() {
        for shift in [0, 4, 12, 32, 52] {
            let state = WordHash::default();
            let hashes: Vec<u64> = (0..4096_u64).map(|word| state.hash_one(word << shift)).collect();
            for part in [0, 52] {
                let mut counts = [0_u32; 4096];
                for hash in &hashes {
                    counts[(hash >> part) as usize & 4095] += 1;
                }
                // Thrown at random, 9 in one of 4096 is seen once in a few hundred tries.
                let most = counts.iter().max().unwrap();
                assert!(
                    *most <= 16,
                    "{most} of 4096 shifted by {shift} are alike from bit {part}"
                );
            }
        }
    }

    #[test]
    fn secrets_differ() {
        assert_ne!(
            WordHash::default().hash_one(1_u64),
            WordHash::default().hash_one(1_u64)
        );
    }
}
