//! What was changed, newest last: a bounded ring of the committed changes.
//!
//! Recording moves two references to bytes that the change has made anyway, and reads the clock once per
//! transaction. Names are looked up when the journal is read.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::SystemTime;

use super::state::Status;
use crate::addr::CodeAddr;
use crate::error::SiteName;
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
    /// What it became: restored ([`Status::Original`]), patched or invalidated.
    pub became: Status,
    /// Its bytes before.
    pub before: Arc<[u8]>,
    /// Its bytes after.
    pub after: Arc<[u8]>,
    /// When: the same for all sites of a transaction.
    pub time: SystemTime,
}

/// The ring.
pub(super) struct Journal {
    entries: VecDeque<JournalEntry>,
    capacity: usize,
    recorded: u64,
}

impl Journal {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            entries: VecDeque::with_capacity(capacity),
            capacity,
            recorded: 0,
        }
    }

    /// The time of the changes that follow; the epoch if nobody will read it.
    pub(super) fn now(&self) -> SystemTime {
        match self.capacity {
            0 => SystemTime::UNIX_EPOCH,
            _ => SystemTime::now(),
        }
    }

    /// Makes room for changes to come, so that recording them neither allocates nor frees. Entries beyond the
    /// capacity are not shown, and go here.
    pub(super) fn make_room(&mut self, changes: usize) {
        if self.capacity == 0 {
            return;
        }
        let over = self.entries.len().saturating_sub(self.capacity);
        self.entries.drain(..over);
        // More than the capacity would be dropped before it is read.
        self.entries.reserve(changes.min(self.capacity));
    }

    /// Adds a change, in the place of the oldest if there is no room.
    pub(super) fn record(&mut self, mut entry: JournalEntry) {
        self.recorded += 1;
        if self.capacity == 0 {
            return;
        }
        if self.entries.len() >= self.entries.capacity() {
            self.entries.pop_front();
        }
        entry.number = self.recorded;
        self.entries.push_back(entry);
    }

    pub(super) fn entries(&self) -> Vec<JournalEntry> {
        let over = self.entries.len().saturating_sub(self.capacity);
        self.entries.iter().skip(over).cloned().collect()
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

    fn entry(addr: u64) -> JournalEntry {
        JournalEntry {
            number: 0,
            generation: 1,
            site: SiteKey {
                module: ModuleId(0),
                index: 0,
            },
            addr: CodeAddr::new(addr),
            name: None,
            became: Status::Patched,
            before: Arc::from([1]),
            after: Arc::from([2]),
            time: SystemTime::UNIX_EPOCH,
        }
    }

    #[test]
    fn the_oldest_is_dropped_and_its_number_missing() {
        let mut journal = Journal::new(2);
        (1..=3).for_each(|addr| journal.record(entry(addr)));
        let kept: Vec<_> = journal
            .entries()
            .iter()
            .map(|e| (e.number, e.addr.get()))
            .collect();
        assert_eq!(kept, [(2, 2), (3, 3)]);
        assert_eq!(journal.entries.capacity(), Journal::new(2).entries.capacity());
    }

    #[test]
    fn without_capacity_nothing_is_kept() {
        let mut journal = Journal::new(0);
        journal.record(entry(1));
        assert!(journal.entries().is_empty() && journal.now() == SystemTime::UNIX_EPOCH);
    }
}
