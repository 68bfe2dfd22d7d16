//! What was changed, newest last: a bounded ring of the committed changes.
//!
//! Problem: the journal is to say of every change what a site held before and after, and copying
//! that takes as long as writing it. Approach: a commit leaves what it was made of. A patch, and a
//! transaction that is prepared and committed at once, then put it into the ring, where it takes
//! the room of what is dropped. After a commit of what was [prepared](super::Prepared) before, which
//! is to take no longer than its stores, whoever prepares or reads next does: with the journal, one
//! of a thousand sites takes 15.1 ns a site for 7.2, and one of a single site 92 ns for 84
//! (`benches speeds`, medians of 7 runs in turns). Nobody can tell the difference: all hold the
//! engine's lock. Handing over the lists themselves takes longer still, 108 ns, as the room of the
//! oldest, which comes back, is in no cache. Names are looked up when the journal is read.
//!
//! What is committed of a batch is kept as it lies there, side by side: an entry of the ring for each
//! site is a twentieth of invalidating a thousand functions. Such lists may hold as many changes as the
//! ring, and as many again that are too old, until the next list comes.

use std::sync::Arc;
use std::time::SystemTime;

use super::state::Status;
use crate::addr::CodeAddr;
use crate::error::SiteName;
use crate::memory::short::{self, Bytes};
use crate::publish::CoarseTime;
use crate::site::{ModuleId, SiteKey};

/// How many changes are kept where nothing else is asked for.
pub(super) const CAPACITY: usize = 1024;

/// One change of one site.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct JournalEntry {
    /// Counts the changes of the engine from 1, so that a gap shows what was dropped.
    pub number: u64,
    /// Counts the changes of the site from 1.
    pub generation: u64,
    /// The site's key.
    pub site: SiteKey,
    /// Its address.
    pub addr: CodeAddr,
    /// Its name, as long as its module is registered.
    pub name: Option<Box<SiteName>>,
    /// What it became: restored ([`Status::Original`]), patched, invalidated or redirected.
    pub became: Status,
    /// Its bytes before.
    pub before: Arc<[u8]>,
    /// Its bytes after.
    pub after: Arc<[u8]>,
    /// When its bytes were written, as of the system's last tick (on Linux one to ten milliseconds
    /// ago at most): the same for all sites of a transaction. What came before what is said by
    /// [`number`](Self::number).
    pub time: SystemTime,
}

/// A change of one site that was made.
pub(super) struct Record<'a> {
    pub(super) generation: u64,
    pub(super) site: SiteKey,
    pub(super) addr: CodeAddr,
    pub(super) became: Status,
    pub(super) before: &'a [u8],
    pub(super) after: &'a [u8],
}

/// The same in the ring.
struct RingEntry {
    number: u64,
    generation: u64,
    site: SiteKey,
    addr: CodeAddr,
    became: Status,
    before: Bytes,
    after: Bytes,
    time: CoarseTime,
}

/// Changes of sites that are alike, made together.
pub(super) struct AlikeRecords {
    pub(super) generation: u64,
    pub(super) became: Status,
    /// The first of the sites that follow each other in a module, and how many these are.
    pub(super) sites: Vec<(SiteKey, u32)>,
    pub(super) addrs: Vec<CodeAddr>,
    pub(super) before: BytesBefore,
    /// Of all, side by side.
    pub(super) after: Vec<u8>,
}

/// What sites that are alike held.
pub(super) enum BytesBefore {
    Same(Bytes),
    /// Each its own, side by side.
    Each(Vec<u8>),
}

/// The same in the journal.
struct AlikeEntries {
    /// The number of the last.
    last: u64,
    time: CoarseTime,
    records: AlikeRecords,
}

/// The ring, and what came of batches.
pub(super) struct Journal {
    /// Those before `oldest` are newer than the others.
    ring: Vec<RingEntry>,
    oldest: usize,
    capacity: usize,
    recorded: u64,
    alike: Vec<AlikeEntries>,
}

impl Journal {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            ring: Vec::new(),
            oldest: 0,
            capacity,
            recorded: 0,
            alike: Vec::new(),
        }
    }

    /// Adds the changes of a transaction, which were made then: of many, as many of the last as the
    /// ring can hold.
    #[inline(always)] // Called, it takes 19 instructions of a patch.
    pub(super) fn add<'r>(
        &mut self,
        time: CoarseTime,
        mut changes: impl ExactSizeIterator<Item = Record<'r>>,
    ) {
        let mut number = self.recorded;
        self.recorded += changes.len() as u64;
        if let Some(too_many) = changes.len().checked_sub(self.capacity).filter(|many| *many > 0) {
            number += too_many as u64;
            changes.nth(too_many - 1);
        }
        for record in changes {
            number += 1;
            // protection: journal-is-bounded
            if self.ring.len() < self.capacity {
                if self.ring.is_empty() {
                    // A ring that grows copies what it has, again and again: a twentieth of the first patches of
                    // 64 sites.
                    self.ring.reserve(self.capacity.min(CAPACITY));
                }
                self.ring.push(RingEntry::ROOM);
                let last = self.ring.last_mut();
                last.expect("one has just been added")
                    .become_that_of(number, time, &record);
                continue;
            }
            // Of a ring that can hold none, all changes are too many.
            let oldest = self.ring.get_mut(self.oldest);
            let oldest = oldest.expect("a full ring has an oldest change");
            oldest.become_that_of(number, time, &record);
            self.oldest = match self.oldest + 1 {
                end if end >= self.capacity => 0,
                next => next,
            };
        }
    }

    /// Adds so many changes of sites that are alike, which were made then, of which as many of the last are asked
    /// for as are kept if as many are added next as that.
    pub(super) fn add_alike(
        &mut self,
        time: CoarseTime,
        (count, next): (usize, usize),
        last_of_them: impl FnOnce(usize) -> AlikeRecords,
    ) {
        self.recorded += count as u64;
        let kept = count.min(self.capacity.saturating_sub(next));
        let oldest = self.oldest_kept(next as u64);
        // protection: journal-is-bounded (2)
        self.alike.retain(|entries| entries.last >= oldest);
        if kept > 0 {
            self.alike.push(AlikeEntries {
                last: self.recorded,
                time,
                records: last_of_them(kept),
            });
        }
    }

    /// The number of the oldest change that is kept when so many more are added.
    fn oldest_kept(&self, next: u64) -> u64 {
        (self.recorded + next).saturating_sub(self.capacity as u64) + 1
    }

    pub(super) fn entries(&self) -> Vec<JournalEntry> {
        let both = self.ring.split_at_checked(self.oldest);
        let (newer, older) = both.expect("the oldest change is in the ring");
        let mut entries: Vec<_> = older.iter().chain(newer).map(RingEntry::entry).collect();
        if !self.alike.is_empty() {
            entries.extend(self.alike.iter().flat_map(AlikeEntries::entries));
            // protection: journal-is-bounded (3)
            entries.retain(|entry| entry.number >= self.oldest_kept(0));
            entries.sort_by_key(|entry| entry.number);
        }
        entries
    }
}

impl AlikeEntries {
    fn entries(&self) -> impl Iterator<Item = JournalEntry> {
        let (records, count) = (&self.records, self.records.addrs.len());
        let key = |(first, count): &(SiteKey, u32)| {
            let SiteKey { module, index } = *first;
            (index..index + count).map(move |index| SiteKey { module, index })
        };
        let sites = records.sites.iter().flat_map(key).zip(&records.addrs);
        sites.zip(0..).map(move |((site, addr), at)| JournalEntry {
            number: self.last + 1 - count as u64 + at as u64,
            generation: records.generation,
            site,
            addr: *addr,
            name: None,
            became: records.became,
            before: match &records.before {
                BytesBefore::Same(bytes) => bytes.as_slice().into(),
                BytesBefore::Each(all) => one_of(all, (at, count)).into(),
            },
            after: one_of(&records.after, (at, count)).into(),
            time: self.time.time(),
        })
    }
}

/// Those of one of so many, of bytes that lie side by side.
fn one_of(all: &[u8], (at, count): (usize, usize)) -> &[u8] {
    let len = all.len() / count;
    let own = all.get(at * len..(at + 1) * len);
    own.expect("each change has its bytes")
}

impl RingEntry {
    /// Room for one. A constant, which is copied without waiting for its parts to be stored.
    const ROOM: Self = Self {
        number: 0,
        generation: 0,
        site: SiteKey {
            module: ModuleId(0),
            index: 0,
        },
        addr: CodeAddr::new(0),
        became: Status::Original,
        before: short::ROOM,
        after: short::ROOM,
        time: CoarseTime::EPOCH,
    };

    /// Becomes that of another change.
    #[inline]
    fn become_that_of(&mut self, number: u64, time: CoarseTime, record: &Record<'_>) {
        self.number = number;
        self.time = time;
        self.generation = record.generation;
        self.site = record.site;
        self.addr = record.addr;
        self.became = record.became;
        short::assign(&mut self.before, record.before);
        short::assign(&mut self.after, record.after);
    }

    fn entry(&self) -> JournalEntry {
        JournalEntry {
            number: self.number,
            generation: self.generation,
            site: self.site,
            addr: self.addr,
            name: None,
            became: self.became,
            before: self.before.as_slice().into(),
            after: self.after.as_slice().into(),
            time: self.time.time(),
        }
    }
}

impl Default for Journal {
    fn default() -> Self {
        Self::new(CAPACITY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site::ModuleId;

    fn record(addr: u64) -> Record<'static> {
        Record {
            generation: 1,
            site: SiteKey {
                module: ModuleId(0),
                index: 0,
            },
            addr: CodeAddr::new(addr),
            became: Status::Patched,
            before: &[1],
            after: &[2],
        }
    }

    fn change(journal: &mut Journal, addrs: &[u64]) {
        journal.add(CoarseTime::now(), addrs.iter().map(|addr| record(*addr)));
    }

    fn kept(journal: &Journal) -> Vec<(u64, u64)> {
        journal
            .entries()
            .iter()
            .map(|entry| (entry.number, entry.addr.get()))
            .collect()
    }

    #[test]
    fn the_oldest_is_dropped_and_its_number_missing() {
        let mut journal = Journal::new(2);
        (1..=3).for_each(|addr| change(&mut journal, &[addr]));
        assert_eq!(kept(&journal), [(2, 2), (3, 3)]);
        (4..=100).for_each(|addr| change(&mut journal, &[addr]));
        assert_eq!(kept(&journal), [(99, 99), (100, 100)]);
        assert_eq!(journal.ring.len(), 2);
    }

    #[test]
    fn of_a_transaction_the_last_changes_are_kept() {
        let mut journal = Journal::new(3);
        change(&mut journal, &[1, 2]);
        change(&mut journal, &[3, 4, 5, 6, 7]);
        assert_eq!(kept(&journal), [(5, 5), (6, 6), (7, 7)]);
        change(&mut journal, &[8]);
        assert_eq!(kept(&journal), [(6, 6), (7, 7), (8, 8)]);
        assert_eq!(journal.ring.len(), 3);
    }

    /// Changes of sites that follow each other, and are at these addresses.
    fn alike(addrs: &[u64]) -> AlikeRecords {
        AlikeRecords {
            generation: 1,
            became: Status::Patched,
            sites: vec![(record(0).site, addrs.len() as u32)],
            addrs: addrs.iter().copied().map(CodeAddr::new).collect(),
            before: BytesBefore::Each(vec![1; addrs.len()]),
            after: vec![2; addrs.len()],
        }
    }

    /// Each of these lists is of sites that are alike, or of others: nobody can tell the difference.
    #[test]
    fn changes_of_sites_that_are_alike_are_kept_as_others_are() {
        const LISTS: [&[usize]; 6] = [&[2], &[2, 3, 1, 4], &[0, 5], &[1], &[1, 1], &[0, 1]];
        for (capacity, choice) in
            (0..12).flat_map(|capacity| (0..1 << 6).map(move |choice| (capacity, choice)))
        {
            let [mut singly, mut together] = [(); 2].map(|()| Journal::new(capacity));
            let mut addrs = 0..;
            for (number, lists) in LISTS.iter().enumerate() {
                let mut next: usize = lists.iter().sum();
                for len in *lists {
                    next -= len;
                    let list: Vec<u64> = addrs.by_ref().take(*len).collect();
                    change(&mut singly, &list);
                    match choice & 1 << number {
                        0 => change(&mut together, &list),
                        _ => together
                            .add_alike(CoarseTime::now(), (*len, next), |kept| alike(&list[len - kept..])),
                    }
                }
                assert_eq!(kept(&together), kept(&singly), "of {capacity}, {choice:b}");
                let held: usize = together.alike.iter().map(|one| one.records.addrs.len()).sum();
                assert!(held <= 2 * capacity, "{held} of {capacity}");
            }
        }
    }

    #[test]
    fn sites_that_are_alike_have_their_own_names_and_bytes() {
        let mut journal = Journal::new(3);
        let key = |module, index| SiteKey {
            module: ModuleId(module),
            index,
        };
        let records = |kept: usize| {
            assert_eq!(kept, 3);
            AlikeRecords {
                generation: 7,
                sites: vec![(key(4, 9), 2), (key(5, 0), 1)],
                before: BytesBefore::Same(short::of(&[1, 2])),
                after: vec![3, 4, 5, 6, 7, 8],
                ..alike(&[16, 32, 8])
            }
        };
        journal.add_alike(CoarseTime::now(), (5, 0), records);
        let entries = journal.entries();
        let sites: Vec<_> = entries
            .iter()
            .map(|one| (one.number, one.site, one.addr.get()))
            .collect();
        assert_eq!(
            sites,
            [(3, key(4, 9), 16), (4, key(4, 10), 32), (5, key(5, 0), 8)]
        );
        let after: Vec<&[u8]> = entries.iter().map(|one| &*one.after).collect();
        assert_eq!(after, [[3, 4], [5, 6], [7, 8]]);
        assert!(
            entries
                .iter()
                .all(|one| *one.before == [1, 2] && one.generation == 7)
        );
    }

    #[test]
    fn what_is_kept_in_the_room_of_another_is_whole() {
        let mut journal = Journal::new(1);
        let both: [(&[u8], &[u8]); 3] = [(&[1; 40], &[2; 40]), (&[3], &[4]), (&[5; 50], &[6; 50])];
        for (before, after) in both {
            let one = Record {
                generation: before.len() as u64,
                before,
                after,
                ..record(before.len() as u64)
            };
            journal.add(CoarseTime::now(), std::iter::once(one));
            let entry = journal.entries().remove(0);
            assert_eq!((&*entry.before, &*entry.after), (before, after));
            assert_eq!(entry.generation, entry.addr.get());
        }
    }

    #[test]
    fn without_capacity_nothing_is_kept() {
        let mut journal = Journal::new(0);
        change(&mut journal, &[1]);
        assert!(journal.entries().is_empty() && journal.recorded == 1);
    }
}
