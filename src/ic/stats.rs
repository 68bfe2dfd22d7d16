//! What can be counted.

use super::CacheState;

/// Whether the entries of a cache count their hits in the code, which makes each hit slower.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Counting {
    /// They do not.
    #[default]
    Off,
    /// By a plain addition: counts are lost where several threads hit at once.
    Plain,
    /// Atomically.
    Atomic,
}

/// In which order the entries of a chain are tested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Order {
    /// The last one learnt first.
    #[default]
    MostRecent,
    /// The one with the most hits first, by the counts at the time of the change. Needs
    /// [`Counting`]; without, the order is that in which they were learnt.
    MostFrequent,
}

/// The figures of one cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheStats {
    /// Its state.
    pub state: CacheState,
    /// Its entries.
    pub entries: usize,
    /// Hits counted in the code since the cache was made, where they are.
    pub hits: Option<u64>,
    /// Executions that went to the lookup.
    pub misses: u64,
    /// Entries that were installed.
    pub installed: u64,
    /// Entries that could not be installed: the site refuses what they ask for.
    pub refused: u64,
    /// Entries that were retracted.
    pub retracted: u64,
    /// Changes of the state.
    pub transitions: u64,
    /// Bytes of stubs and exit stubs that the site has now.
    pub stub_bytes: u64,
    /// Bytes of stubs and exit stubs of the site that have been freed.
    pub reclaimed: u64,
}

/// The figures of all caches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Totals {
    /// How many caches there are.
    pub caches: usize,
    /// Hits counted in the code, where they are.
    pub hits: u64,
    /// Executions that went to the lookup.
    pub misses: u64,
    /// Entries that were installed.
    pub installed: u64,
    /// Entries that could not be installed.
    pub refused: u64,
    /// Entries that were retracted.
    pub retracted: u64,
    /// Changes of state.
    pub transitions: u64,
    /// Bytes of stubs and exit stubs that the sites have now.
    pub stub_bytes: u64,
    /// Bytes of stubs and exit stubs that have been freed: of all sites of the engine, also of
    /// those that have no cache or are gone.
    pub reclaimed: u64,
}

impl Totals {
    pub(super) fn add(&mut self, one: &CacheStats) {
        self.caches += 1;
        self.hits = self.hits.saturating_add(one.hits.unwrap_or(0));
        self.misses = self.misses.saturating_add(one.misses);
        self.installed = self.installed.saturating_add(one.installed);
        self.refused = self.refused.saturating_add(one.refused);
        self.retracted = self.retracted.saturating_add(one.retracted);
        self.transitions = self.transitions.saturating_add(one.transitions);
        self.stub_bytes = self.stub_bytes.saturating_add(one.stub_bytes);
    }
}
