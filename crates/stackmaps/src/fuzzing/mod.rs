//! Fuzz bodies, and a plain runner for them.
//!
//! A body takes any bytes and panics when something that must hold does not. The targets under
//! `fuzz/` call a body in one line; `cargo test` runs each body over its corpus and over some
//! thousands of mutations of it. [`mutate_and_run`] is deterministic: the same seed gives the same
//! inputs on every machine.

mod flat;
mod metadata;
mod mutate;
mod random;
mod stackmap;

pub use flat::flat;
pub use metadata::metadata;
pub use mutate::{executions, mutate_and_run};
pub use random::Random;
pub use stackmap::stackmap;

/// The inputs that are checked in for a target.
#[cfg(test)]
fn corpus(target: &str) -> std::vec::Vec<std::vec::Vec<u8>> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let files = std::fs::read_dir(folder.join(target)).unwrap();
    let mut inputs: std::vec::Vec<_> = files
        .map(|file| std::fs::read(file.unwrap().path()).unwrap())
        .collect();
    // A folder has its files in no order.
    inputs.sort();
    inputs
}

/// What a body takes its choices from: zeros when it is used up.
pub struct Choices<'a>(&'a [u8]);

impl<'a> Choices<'a> {
    /// Takes them from these bytes.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Whether it is used up.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        match self.0.split_first() {
            Some((first, rest)) => {
                self.0 = rest;
                *first
            }
            None => 0,
        }
    }

    /// A number below a limit, or 0.
    pub fn below(&mut self, limit: u8) -> u8 {
        self.byte().checked_rem(limit).unwrap_or(0)
    }

    /// Yes or no.
    pub fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// Eight bytes.
    pub fn word(&mut self) -> u64 {
        let bytes: [u8; 8] = core::array::from_fn(|_| self.byte());
        u64::from_le_bytes(bytes)
    }

    /// One of several, or the other where there are none.
    pub fn pick<T: Copy>(&mut self, from: &[T], otherwise: T) -> T {
        let index = usize::from(self.byte()).checked_rem(from.len());
        index
            .and_then(|index| from.get(index))
            .copied()
            .unwrap_or(otherwise)
    }
}
