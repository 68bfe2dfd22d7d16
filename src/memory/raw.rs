//! Reading and writing mapped code through plain addresses.
//!
//! The words of one address are never written by two threads at once: the engine holds a lock per
//! memory. Instruction fetch is not a memory access that Rust knows, so it takes no part in its
//! data races.

#![allow(unsafe_code)]

use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use super::short;

/// Copies `bytes` to `at`. Bytes inside one aligned quadword are written by one store.
///
/// # Safety
///
/// The bytes at `at`, and the aligned quadwords in which they lie, are mapped readable and
/// writable, no reference to them exists, and no other thread writes them during the call.
#[inline]
pub(super) unsafe fn store(at: u64, bytes: &[u8]) {
    if bytes.is_empty() {
        // Perhaps at the end of a mapping, where there is no quadword to merge into.
        return;
    }
    // protection: small-write-is-one-store
    if (at & 7) as usize + bytes.len() <= 8 {
        // SAFETY: the caller's promise.
        return unsafe { merge(at, bytes) };
    }
    let to = ptr::with_exposed_provenance_mut::<u8>(at as usize);
    if let Ok(bytes) = <&[u8; 32]>::try_from(bytes) {
        // As many as most sites have, for which a call is most of what copying them takes.
        // SAFETY: as below.
        return unsafe { to.cast::<[u8; 32]>().write_unaligned(*bytes) };
    }
    // SAFETY: mapped and unaliased by the caller's promise; a slice cannot overlap memory without references.
    unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
}

/// Writes bytes inside one aligned quadword by one store.
///
/// # Safety
///
/// As for [`store`].
#[inline(never)]
unsafe fn merge(at: u64, bytes: &[u8]) {
    // SAFETY: the caller's promise covers the quadword.
    let word = unsafe { word(at & !7) };
    let mut merged = word.load(Ordering::Relaxed).to_ne_bytes();
    for (to, from) in merged.iter_mut().skip((at & 7) as usize).zip(bytes) {
        *to = *from;
    }
    word.store(u64::from_ne_bytes(merged), Ordering::Release);
}

/// Copies the bytes at `at`.
///
/// # Safety
///
/// The bytes at `at` are mapped readable, and no other thread of Rust's writes them during the
/// call.
#[inline]
pub(super) unsafe fn load(at: u64, into: &mut [u8]) {
    let from = ptr::with_exposed_provenance::<u8>(at as usize);
    // SAFETY: mapped by the caller's promise; an exclusive slice cannot overlap code memory.
    unsafe { ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len()) };
}

/// The bytes at `at`.
///
/// # Safety
///
/// As long as they are referred to, they are mapped readable and writable, no other reference to them exists, and nobody else
/// reads or writes them.
#[inline]
pub(super) unsafe fn bytes_mut<'b>(at: u64, len: usize) -> &'b mut [u8] {
    let at = ptr::with_exposed_provenance_mut::<u8>(at as usize);
    // SAFETY: the caller's promise.
    unsafe { core::slice::from_raw_parts_mut(at, len) }
}

/// Whether the bytes at `at` are these.
///
/// # Safety
///
/// As for [`load`].
#[inline]
pub(super) unsafe fn holds(at: u64, expected: &[u8]) -> bool {
    let from = ptr::with_exposed_provenance::<u8>(at as usize);
    // SAFETY: mapped by the caller's promise, and not written while the slice lives, which is during the comparison.
    let found = unsafe { core::slice::from_raw_parts(from, expected.len()) };
    short::same(found, expected)
}

/// Exchanges an aligned quadword if it holds `old`; otherwise returns what it holds.
///
/// # Safety
///
/// `at` is a multiple of 8, mapped readable and writable, and no reference to it exists.
#[inline]
pub(super) unsafe fn exchange(at: u64, old: [u8; 8], new: [u8; 8]) -> Result<(), [u8; 8]> {
    // SAFETY: the caller's promise.
    let word = unsafe { word(at) };
    let (old, new) = (u64::from_ne_bytes(old), u64::from_ne_bytes(new));
    // AcqRel: what the new patchable jump branches to was written before, and must be seen before.
    match word.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Ok(()),
        // protection: exchange-compares
        Err(found) => Err(found.to_ne_bytes()),
    }
}

/// The quadword at an address.
///
/// # Safety
///
/// `at` is a multiple of 8, mapped readable and writable as long as the reference is used.
#[inline]
unsafe fn word<'a>(at: u64) -> &'a AtomicU64 {
    let word = ptr::with_exposed_provenance::<AtomicU64>(at as usize);
    // SAFETY: aligned and mapped by the caller's promise; atomics may be shared.
    unsafe { &*word }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of lengths that are compared and copied at once, and of others.
    #[test]
    fn every_byte_counts_and_none_behind_is_touched() {
        for len in [0, 1, 8, 15, 16, 17, 31, 32, 33, 48, 64, 80, 100] {
            let bytes: std::vec::Vec<u8> = (1..=len as u8).collect();
            let mut memory = [u64::MAX; 16];
            let at = memory.as_mut_ptr().expose_provenance() as u64;
            // SAFETY: in the array, whose quadwords are aligned, and of which there is no reference now.
            unsafe { store(at, &bytes) };
            let found = memory.map(u64::to_ne_bytes).concat();
            assert_eq!(found[..len], bytes[..]);
            assert!(found[len..].iter().all(|byte| *byte == 0xff), "{len}");
            let at = memory.as_mut_ptr().expose_provenance() as u64;
            // SAFETY: as above.
            assert!(unsafe { holds(at, &bytes) });
            for other in 0..len {
                let mut damaged = bytes.clone();
                damaged[other] ^= 0x80;
                // SAFETY: as above.
                assert!(!unsafe { holds(at, &damaged) }, "byte {other} of {len}");
            }
        }
    }
}
