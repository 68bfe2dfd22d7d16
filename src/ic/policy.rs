//! Who decides what a cache becomes.

use super::CacheState;

/// What a policy knows of a cache when a lookup hands over an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct History {
    /// The state it is in.
    pub state: CacheState,
    /// How many entries it has.
    pub entries: usize,
    /// Misses since the state last changed, this one included.
    pub misses: u64,
    /// Misses since the cache was made, this one included.
    pub all_misses: u64,
    /// How often entries have been retracted since the cache was made.
    pub retractions: u64,
    /// How often it has become megamorphic.
    pub megamorphic: u64,
}

/// What becomes of the entry that a lookup handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Decision {
    /// It is installed beside the others.
    Install,
    /// It is installed in place of all others.
    Replace,
    /// Nothing changes.
    Ignore,
    /// The cache becomes megamorphic, without entries.
    GoMegamorphic,
}

/// Decides at each miss.
pub trait Policy: Send + Sync {
    /// What becomes of the entry. Called with the cache locked: it must neither miss nor change
    /// caches.
    fn decide(&self, history: &History) -> Decision;

    /// Whether a chain is put in the order of its entries' hits: `hits` are those since it was last
    /// put in order, in the order in which the entries are tested now. Called by
    /// [`Caches::reorder`](super::Caches::reorder), with the cache locked, for chains that count.
    ///
    /// If nothing is said: where at least 256 hits have been counted, and every fourth of them would
    /// have needed a test less.
    fn reorders(&self, hits: &[u64]) -> bool {
        const ENOUGH: u64 = 256;
        let all = hits.iter().fold(0_u64, |sum, hits| sum.saturating_add(*hits));
        all >= ENOUGH && tests_saved(hits) >= all / 4
    }
}

/// How many fewer tests the hits would have needed in their order.
fn tests_saved(hits: &[u64]) -> u64 {
    let tests = |hits: &[u64]| {
        let each = (1..)
            .zip(hits)
            .map(|(tests, hits): (u64, &u64)| hits.saturating_mul(tests));
        each.fold(0_u64, u64::saturating_add)
    };
    let mut ordered = hits.to_vec();
    ordered.sort_by_key(|hits| std::cmp::Reverse(*hits));
    tests(hits).saturating_sub(tests(&ordered))
}

/// The usual policy: a chain up to a limit, then megamorphic for a while.
///
/// A cache whose entries keep being retracted backs off: after each retraction it ignores twice as
/// many misses as the time before, up to a limit, before it learns again. A megamorphic cache that
/// still misses (because the runtime gave no generic path, or its classes are not in the shared
/// cache) starts again after a number of misses, which doubles each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    /// The most entries of a chain.
    pub limit: usize,
    /// Misses that are ignored after the first retraction; doubles with each further one.
    pub back_off: u64,
    /// Misses after which a megamorphic cache starts again; 0 for never. Doubles with each time.
    pub cool_down: u64,
}

impl Default for Chain {
    /// Four entries; no back-off after the first retraction, then 2, 4, 8 and so on misses; 1024
    /// misses until a megamorphic cache starts again.
    fn default() -> Self {
        Self {
            limit: 4,
            back_off: 1,
            cool_down: 1024,
        }
    }
}

/// No wait is doubled more often than this.
const DOUBLINGS: u64 = 16;

impl Chain {
    /// The misses to be ignored after so many retractions.
    fn patience(&self, retractions: u64) -> u64 {
        match retractions.checked_sub(1) {
            None => 0,
            Some(before) => (self.back_off << before.min(DOUBLINGS)).saturating_sub(1),
        }
    }
}

impl Policy for Chain {
    fn decide(&self, history: &History) -> Decision {
        match history.state {
            CacheState::Megamorphic => {
                let wait = self.cool_down << history.megamorphic.saturating_sub(1).min(DOUBLINGS);
                match self.cool_down > 0 && history.misses > wait {
                    true => Decision::Replace,
                    false => Decision::Ignore,
                }
            }
            CacheState::Uninitialized if history.misses <= self.patience(history.retractions) => {
                Decision::Ignore
            }
            _ if history.entries < self.limit => Decision::Install,
            _ => Decision::GoMegamorphic,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_is_reordered_where_that_saves_tests() {
        let policy = Chain::default();
        assert_eq!(tests_saved(&[1, 2, 10]), 18);
        assert_eq!(tests_saved(&[10, 2, 1]), 0);
        assert!(policy.reorders(&[0, 256]) && policy.reorders(&[100, 300]));
        assert!(!policy.reorders(&[0, 255]), "too few to say");
        assert!(!policy.reorders(&[490, 510]), "it is not worth a patch");
        assert!(!policy.reorders(&[1000, 10, 1]));
    }
}
