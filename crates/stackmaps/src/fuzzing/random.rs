//! Numbers that look random and are the same on every run.

/// Marsaglia's xorshift with 64 bits (2003): enough for tests and mutations. The state is never 0.
pub struct Random(u64);

impl Random {
    /// A generator whose numbers follow from `seed` alone.
    pub fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    /// The next number.
    #[expect(clippy::should_implement_trait, reason = "it never ends")]
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number less than `limit`, or 0.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 16)
            .checked_rem(limit as u64)
            .and_then(|rest| usize::try_from(rest).ok())
            .unwrap_or(0)
    }

    /// One of them, if there is one.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        from.get(self.below(from.len()))
    }
}
