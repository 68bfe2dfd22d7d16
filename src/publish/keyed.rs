//! A value under two locks, either of which is enough to read it.
//!
//! **Problem.** Any thread looks sites up, under a lock that readers share. Who patches by ID looks
//! them up too, and has the engine's lock anyway: to take the other one as well are two of the eleven
//! locked instructions of a patch. **Approach.** The value is written only by who has both locks, so
//! that nobody writes it while one has the first. That lock has the [`Key`] behind it, of which there
//! is one: whoever shows it needs no lock to read, and whoever writes needs it for itself.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// A value that is read under a lock of its own, or with its key.
pub(crate) struct Keyed<T> {
    number: u64,
    value: RwLock<T>,
}

/// What a lock has behind it that is enough to read a [`Keyed`] value. The default fits none.
#[derive(Debug, Default)]
pub(crate) struct Key {
    number: u64,
}

impl<T> Keyed<T> {
    /// A value, and its only key.
    pub(crate) fn new(value: T) -> (Self, Key) {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        let value = RwLock::new(value);
        (Self { number, value }, Key { number })
    }

    /// To be read while nobody writes it.
    #[inline]
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
        self.value.read()
    }

    /// The same for who has the key.
    ///
    /// # Panics
    /// It is the key of another.
    #[inline]
    pub(crate) fn read_with<'a>(&'a self, key: &'a Key) -> &'a T {
        self.check(key);
        // SAFETY: only `write` makes a reference through which the value is written, and holds the key's only
        // exclusive borrow as long as that lives. The value has one key, with a number that no other has and
        // that nothing copies; it is borrowed here as long as what is returned.
        unsafe { &*self.value.data_ptr() }
    }

    /// To be written: neither does anybody read it now who has taken its lock, nor with its key.
    ///
    /// # Panics
    /// It is the key of another.
    pub(crate) fn write<'a>(&'a self, key: &'a mut Key) -> RwLockWriteGuard<'a, T> {
        self.check(key);
        self.value.write()
    }

    #[inline]
    fn check(&self, key: &Key) {
        // protection: keys-fit-one-value
        assert!(self.number == key.number, "it is not the key of its own table");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_the_key_reads_what_was_written_with_it() {
        let (value, mut key) = Keyed::new(1);
        *value.write(&mut key) += 1;
        let read = value.read();
        assert_eq!((*read, *value.read_with(&key)), (2, 2));
    }

    /// The value of one would be read while another is written.
    #[test]
    #[should_panic(expected = "the key of its own table")]
    fn a_key_fits_no_other_value() {
        let (first, _) = Keyed::new(1);
        let (_second, key) = Keyed::new(2);
        first.read_with(&key);
    }

    #[test]
    #[should_panic(expected = "the key of its own table")]
    fn no_key_is_none() {
        let (value, _) = Keyed::new(1);
        *value.write(&mut Key::default()) = 2;
    }

    /// Each of many values is always read whole, by lock and by key, while it is written.
    #[test]
    fn nobody_reads_what_is_being_written() {
        let (value, key) = Keyed::new([0_u64; 64]);
        let key = parking_lot::Mutex::new(key);
        let are_same = |all: &[u64; 64]| all.iter().all(|one| *one == all[0]);
        let rounds = if cfg!(miri) { 20 } else { 5_000 };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..rounds {
                    let mut key = key.lock();
                    value.write(&mut key).iter_mut().for_each(|one| *one += 1);
                }
            });
            scope.spawn(|| (0..rounds).for_each(|_| assert!(are_same(&value.read()))));
            (0..rounds).for_each(|_| assert!(are_same(value.read_with(&key.lock()))));
        });
        assert_eq!(value.read()[0], rounds);
    }
}
