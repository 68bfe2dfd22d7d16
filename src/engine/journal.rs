//! What was changed, newest last: a bounded ring of the committed changes.
//!
//! What a transaction is to leave here is made when it is prepared, generations included, as a commit refuses sites
//! that have changed since. A commit adds the time, and leaves it with whatever else it has left over; whoever
//! prepares or reads next puts it into the ring. Names are looked up when the journal is read.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::SystemTime;

use smallvec::SmallVec;

use super::state::Status;
use crate::addr::CodeAddr;
use crate::error::SiteName;
use crate::publish::CoarseTime;
use crate::site::SiteKey;

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
    /// When, as of the system's last tick (on Linux one to ten milliseconds ago at most): the same for all sites of a
    /// transaction. What came before what is said by [`number`](Self::number).
    pub time: SystemTime,
}

/// A change of one site, to be made.
pub(super) struct Record {
    pub(super) generation: u64,
    pub(super) site: SiteKey,
    pub(super) addr: CodeAddr,
    pub(super) became: Status,
    pub(super) before: Arc<[u8]>,
    pub(super) after: Arc<[u8]>,
}

/// The changes of a transaction, or as many of its last as the journal can hold.
pub(super) struct Chapter {
    /// The number of the first record, when it is in the journal.
    first: u64,
    time: CoarseTime,
    records: SmallVec<[Record; 1]>,
}

/// The ring.
pub(super) struct Journal {
    chapters: VecDeque<Box<Chapter>>,
    /// How many records these have.
    kept: usize,
    capacity: usize,
    recorded: u64,
}

impl Journal {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            chapters: VecDeque::new(),
            kept: 0,
            capacity,
            recorded: 0,
        }
    }

    /// What will be recorded of these changes; `None` if nothing is.
    pub(super) fn chapter(&self, changes: impl ExactSizeIterator<Item = Record>) -> Option<Box<Chapter>> {
        let over = changes.len().saturating_sub(self.capacity);
        let records: SmallVec<[Record; 1]> = changes.skip(over).collect();
        (!records.is_empty()).then(|| {
            Box::new(Chapter {
                first: 0,
                time: CoarseTime::default(),
                records,
            })
        })
    }

    /// Adds what was made of that many changes then.
    pub(super) fn record(&mut self, changes: usize, time: CoarseTime, chapter: Option<Box<Chapter>>) {
        self.recorded += changes as u64;
        let Some(mut chapter) = chapter else {
            return;
        };
        chapter.time = time;
        chapter.first = self.recorded + 1 - chapter.records.len() as u64;
        self.kept += chapter.records.len();
        self.chapters.push_back(chapter);
        self.drop_old();
    }

    /// Drops what is not shown any more.
    fn drop_old(&mut self) {
        while let Some(oldest) = self.chapters.front().map(|oldest| oldest.records.len()) {
            if self.kept - oldest < self.capacity {
                return;
            }
            self.chapters.pop_front();
            self.kept -= oldest;
        }
    }

    pub(super) fn entries(&self) -> Vec<JournalEntry> {
        let over = self.kept.saturating_sub(self.capacity);
        let all = self.chapters.iter().flat_map(|chapter| chapter.entries());
        all.skip(over).collect()
    }
}

impl Chapter {
    fn entries(&self) -> impl Iterator<Item = JournalEntry> + '_ {
        (self.first..)
            .zip(&self.records)
            .map(|(number, record)| JournalEntry {
                number,
                generation: record.generation,
                site: record.site,
                addr: record.addr,
                name: None,
                became: record.became,
                before: Arc::clone(&record.before),
                after: Arc::clone(&record.after),
                time: self.time.time(),
            })
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

    fn record(addr: u64) -> Record {
        Record {
            generation: 1,
            site: SiteKey {
                module: ModuleId(0),
                index: 0,
            },
            addr: CodeAddr::new(addr),
            became: Status::Patched,
            before: Arc::from([1]),
            after: Arc::from([2]),
        }
    }

    fn change(journal: &mut Journal, addrs: &[u64]) {
        let chapter = journal.chapter(addrs.iter().copied().map(record));
        journal.record(addrs.len(), CoarseTime::now(), chapter);
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
        assert_eq!((journal.chapters.len(), journal.kept), (2, 2));
    }

    #[test]
    fn of_a_transaction_the_last_changes_are_kept() {
        let mut journal = Journal::new(3);
        change(&mut journal, &[1, 2]);
        change(&mut journal, &[3, 4, 5, 6, 7]);
        assert_eq!(kept(&journal), [(5, 5), (6, 6), (7, 7)]);
        change(&mut journal, &[8]);
        assert_eq!(kept(&journal), [(6, 6), (7, 7), (8, 8)]);
        assert_eq!((journal.chapters.len(), journal.kept), (2, 4));
    }

    #[test]
    fn without_capacity_nothing_is_kept() {
        let mut journal = Journal::new(0);
        change(&mut journal, &[1]);
        assert!(journal.entries().is_empty() && journal.recorded == 1);
    }
}
