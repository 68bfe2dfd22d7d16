//! The shared cache: what megamorphic sites look up by themselves.
//!
//! **Problem.** A site that sees hundreds of classes cannot test them one after the other, and a
//! call of the runtime for each takes hundreds of times as long as a hit. **Approach.** One table
//! for all sites, hashed by the class and the number of the site's [`Probe`]. The site's code computes
//! the slot, finds a record there, compares class and number, and goes on with the record's word.
//!
//! ```text
//!  slots                   record, never changed
//!  | pointer | ----------> | class   8 |
//!  | pointer | --> nobody  | number  4 |  the probe's
//!  | ...     |             | word    8 |
//! ```
//!
//! **Why no thread sees half of an entry.** A slot is one aligned 8-byte pointer, which is stored
//! and loaded whole on each of the five architectures: x86-64 (aligned quadwords), AArch64 and
//! RISC-V (single-copy atomicity of aligned doublewords), POWER (aligned doublewords), SystemZ
//! (doubleword-concurrent on a boundary). What it points to is written before the pointer is stored
//! with release, and not again. The reader's loads of the record get their address from the load of
//! the pointer. x86-64 and SystemZ keep loads in order anyway; AArch64, POWER and RISC-V keep those
//! in order of which one's address depends on the other's value (POWER also across three threads,
//! as the release is a barrier that is cumulative). So whoever sees the pointer sees the record,
//! and never the class of one entry with the word of another, however often a slot changes between
//! two instructions of a probe. Entries of two or three words in the table itself would need a
//! 16-byte load, which RISC-V has not and the sequence language has no registers for, or a second
//! look at a version with barriers between. One dependent load more is the price.
//!
//! **Why no thread sees a record's memory used for something else.** A record that was taken back
//! is freed by [`Caches::reclaim_passed`](super::Caches::reclaim_passed), after every attached
//! thread has reported an epoch that began after its slot was cleared, or by
//! [`Caches::reclaim`](super::Caches::reclaim). A thread has a record's address only between two
//! instructions of a probe, and no report is made there. The table itself lives as long as the
//! engine's exits, which own it.
//!
//! **Invariants.** A record that a slot points to is `known`. What was looked up before a retraction
//! is not there after it: whoever inserts has its cache locked, and has found, after it had filed the
//! cache under the entry's keys, that no retraction was counted since the lookup; a retraction
//! counts, locks the caches that are filed under its keys, and clears slots last.
//!
//! **Memory.** 16 bytes per entry of the size that was asked for, and a record per class and
//! probe that was learnt and holds, whether a slot has room for it or another has displaced it:
//! so two that take turns in a slot allocate nothing.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering, fence};

use parking_lot::Mutex;

use super::entry::Key;
use super::hash::WordHash;
use super::probe::{Kept, Probe};
use crate::addr::{CodeAddr, CodeRange};
use crate::memory::fork::Birth;
use crate::publish::{Epochs, Passed, QuiescentState};
use crate::site::Site;

/// How many bits the class is shifted by for the second of its two terms, so that classes that are
/// addresses differ in low bits too.
pub(super) const CLASS_SHIFT: u8 = 7;
/// The same as bytes of a slot's index.
pub(super) const SLOT_SHIFT: u8 = 3;
/// Where a record has what is compared, and its word.
pub(super) const CLASS_AT: i32 = 0;
pub(super) const NUMBER_AT: i32 = 8;
pub(super) const WORD_AT: i32 = 16;

/// The number that no probe has.
const NOBODY: u32 = 0;

/// Asked for the probe of a site.
pub(super) type ProbeBy = Box<dyn Fn(&Site) -> Option<Probe> + Send + Sync>;

/// What code reads.
#[derive(Debug)]
#[repr(C)]
struct Record {
    class: u64,
    number: u32,
    _unused: u32,
    word: u64,
}

const _: () = {
    assert!(std::mem::offset_of!(Record, class) == CLASS_AT as usize);
    assert!(std::mem::offset_of!(Record, number) == NUMBER_AT as usize);
    assert!(std::mem::offset_of!(Record, word) == WORD_AT as usize);
};

/// A probe, and what its code has to know of the table.
#[derive(Debug)]
pub(super) struct SiteProbe {
    pub(super) probe: Probe,
    /// By which records are told from those of other probes.
    pub(super) number: u32,
    /// The address of the slot of classes whose hash is 0.
    pub(super) slots: u64,
    /// What the class's hash is taken of.
    pub(super) mask: u64,
}

/// Figures of the shared cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SharedStats {
    /// Entries that hold.
    pub entries: usize,
    /// Of those, the ones that a probe finds: the others' slots have another.
    pub found: usize,
    /// How often an entry was displaced by another: many mean that the cache is too small.
    pub displaced: u64,
    /// Entries that were retracted.
    pub retracted: u64,
    /// Of those, the ones whose memory is not free yet.
    pub retired: usize,
}

/// The shared cache.
pub(super) struct SharedCache {
    pub(super) probe_by: ProbeBy,
    /// Twice as many as the mask has values: the class and the number each choose among half.
    slots: Box<[AtomicPtr<Record>]>,
    mask: u64,
    /// What an empty slot points to. Its number is nobody's.
    nobody: Arc<Record>,
    records: Mutex<Records>,
    birth: Birth,
    displaced: AtomicU64,
    /// Whether threads may probe that are not attached: those of modules that are not live.
    has_unattached: AtomicBool,
}

#[derive(Default)]
struct Records {
    numbers: HashMap<Probe, u32>,
    /// By class and number.
    known: HashMap<(u64, u32), Known, WordHash>,
    by_key: HashMap<Key, BTreeSet<(u64, u32)>, WordHash>,
    /// The epochs after which they can be freed, if one has begun since.
    retired: Vec<(Arc<Record>, Option<u64>)>,
    retracted: u64,
}

struct Known {
    record: Arc<Record>,
    keys: Vec<Key>,
}

impl SharedCache {
    /// Room for so many entries, rounded up to a power of two.
    pub(super) fn new(entries: usize, probe_by: ProbeBy) -> Self {
        let half = entries.clamp(16, 1 << 24).next_power_of_two();
        let nobody = Arc::new(Record {
            class: 0,
            number: NOBODY,
            _unused: 0,
            word: 0,
        });
        let empty = || AtomicPtr::new(Arc::as_ptr(&nobody).cast_mut());
        Self {
            probe_by,
            slots: (0..2 * half).map(|_| empty()).collect(),
            mask: half as u64 - 1,
            nobody,
            records: Mutex::default(),
            birth: Birth::here(),
            displaced: AtomicU64::new(0),
            has_unattached: AtomicBool::new(false),
        }
    }

    /// The probe of a site that becomes megamorphic, if it has one.
    pub(super) fn probe_of(&self, site: &Site) -> Option<SiteProbe> {
        let probe = (self.probe_by)(site)?;
        let number = {
            let numbers = &mut self.records.lock().numbers;
            let next = u32::try_from(numbers.len() + 1).ok()?;
            *numbers.entry(probe.clone()).or_insert(next)
        };
        let slots = self.slots.as_ptr() as u64 + 8 * self.of_number(number) as u64;
        // protection: unattached-threads-keep-records
        self.has_unattached
            .fetch_or(!site.module().is_live(), Ordering::SeqCst);
        Some(SiteProbe {
            probe,
            number,
            slots,
            mask: self.mask,
        })
    }

    /// The number's part of a slot's index: numbers that follow each other are far apart.
    fn of_number(&self, number: u32) -> usize {
        (u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 & self.mask) as usize
    }

    /// The slot that the code of a probe computes.
    fn slot(&self, class: u64, number: u32) -> &AtomicPtr<Record> {
        let of_class = class.wrapping_add(class >> CLASS_SHIFT) & self.mask;
        let slot = self.slots.get(of_class as usize + self.of_number(number));
        slot.expect("each part of the index is below half of the slots")
    }

    /// Keeps an entry. The caller has its cache locked, see the module.
    pub(super) fn insert(&self, number: u32, kept: Kept, keys: &[Key]) {
        let mut records = self.records.lock();
        let name = (kept.class, number);
        let same = |known: &&Known| known.record.word == kept.word && known.keys == keys;
        let record = match records.known.get(&name).filter(same) {
            Some(known) => Arc::as_ptr(&known.record),
            None => {
                self.remove(&mut records, name);
                let record = Arc::new(Record {
                    class: kept.class,
                    number,
                    _unused: 0,
                    word: kept.word,
                });
                let at = Arc::as_ptr(&record);
                for key in keys {
                    // protection: shared-entry-is-indexed
                    records.by_key.entry(*key).or_default().insert(name);
                }
                let keys = keys.to_vec();
                records.known.insert(name, Known { record, keys });
                at
            }
        };
        // The record is written before.
        let before = self
            .slot(kept.class, number)
            .swap(record.cast_mut(), Ordering::Release);
        let displaces = before != record.cast_mut() && before != self.empty();
        self.displaced.fetch_add(u64::from(displaces), Ordering::Relaxed);
    }

    fn empty(&self) -> *mut Record {
        Arc::as_ptr(&self.nobody).cast_mut()
    }

    /// Takes an entry out and retires its record.
    fn remove(&self, records: &mut Records, name: (u64, u32)) {
        let Some(known) = records.known.remove(&name) else {
            return;
        };
        let slot = self.slot(name.0, name.1);
        // Another's record stays. Nobody else stores: the lock is held.
        // protection: shared-entries-are-cleared
        if slot.load(Ordering::Relaxed) == Arc::as_ptr(&known.record).cast_mut() {
            slot.store(self.empty(), Ordering::SeqCst);
        }
        records.retracted += 1;
        // protection: shared-records-wait-for-readers
        records.retired.push((known.record, None));
    }

    /// Takes the entries back that depend on one of the keys; how many there were. Who learns that
    /// this has returned, as threads learn of each other, finds none of them any more.
    pub(super) fn retract(&self, keys: &[Key]) -> usize {
        let mut records = self.records.lock();
        let mut count = 0;
        for key in keys {
            for name in records.by_key.remove(key).into_iter().flatten() {
                // Another may have come in its place that depends on other keys.
                if records
                    .known
                    .get(&name)
                    .is_some_and(|known| known.keys.contains(key))
                {
                    self.remove(&mut records, name);
                    count += 1;
                }
            }
        }
        fence(Ordering::SeqCst);
        count
    }

    /// Takes all entries back.
    pub(super) fn clear(&self) -> usize {
        let mut records = self.records.lock();
        let names: Vec<(u64, u32)> = records.known.keys().copied().collect();
        for name in &names {
            self.remove(&mut records, *name);
        }
        records.by_key.clear();
        fence(Ordering::SeqCst);
        names.len()
    }

    /// Frees what every attached thread has left since it was retired.
    pub(super) fn reclaim_passed(&self, epochs: &Epochs) -> usize {
        if self.has_unattached.load(Ordering::SeqCst) {
            return 0;
        }
        let mut records = self.records.lock();
        if records.retired.iter().any(|(_, epoch)| epoch.is_none()) {
            // The slots were cleared before. Of code this epoch says nothing: what the engine retires
            // it stamps with one of its own.
            let now = epochs.advance();
            for (_, epoch) in &mut records.retired {
                epoch.get_or_insert(now);
            }
        }
        let passed: Passed = epochs.passed();
        let has =
            |epoch: Option<u64>| epoch.is_some_and(|epoch| passed.has(epoch, QuiescentState::Checkpoint));
        let before = records.retired.len();
        // protection: shared-records-wait-for-reports
        records.retired.retain(|(_, epoch)| !has(*epoch));
        before - records.retired.len()
    }

    /// Frees all that is retired. No thread is in a probe that began before.
    pub(super) fn reclaim(&self) -> usize {
        std::mem::take(&mut self.records.lock().retired).len()
    }

    /// Where the table is.
    pub(super) fn range(&self) -> CodeRange {
        let (start, len) = (self.slots.as_ptr() as u64, size_of_val(&*self.slots) as u64);
        CodeRange::new(CodeAddr::new(start), len).expect("memory does not end beyond the last address")
    }

    /// The figures; `None` in a fork's child whose parent was changing them.
    pub(super) fn stats(&self) -> Option<SharedStats> {
        let records = self.birth.lock(&self.records)?;
        let found = |((class, number), known): (&(u64, u32), &Known)| {
            self.slot(*class, *number).load(Ordering::Relaxed).cast_const() == Arc::as_ptr(&known.record)
        };
        Some(SharedStats {
            entries: records.known.len(),
            found: records.known.iter().filter(|known| found(*known)).count(),
            displaced: self.displaced.load(Ordering::Relaxed),
            retracted: records.retracted,
            retired: records.retired.len(),
        })
    }
}
