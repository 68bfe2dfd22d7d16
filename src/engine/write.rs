//! Writing the sites of a transaction: all of them, or none.
//!
//! The order is that of the guarantee: compare every expected byte; make every run of pages writable; write;
//! restore protection; publish; read back. A failure before the first write leaves nothing to undo but
//! protections, which `CodeMemory::begin` and `end` do; a failure after it rolls every site back, memory by
//! memory, so that one that cannot be restored does not keep the others from it.

use std::sync::Arc;

use smallvec::{SmallVec, smallvec};

use crate::addr::CodeRange;
use crate::error::{Error, Fate, Result, SiteName};
use crate::memory::{CodeMemory, PageRun};
use crate::publish::{Level, Publisher, Stopped};
use crate::site::Site;

/// One site's bytes before and after.
pub(super) struct Exchange {
    pub(super) site: Site,
    pub(super) range: CodeRange,
    pub(super) memory: Arc<dyn CodeMemory>,
    pub(super) old: Arc<[u8]>,
    pub(super) new: Arc<[u8]>,
}

impl Exchange {
    /// Which memory it is: the address of the value behind the reference.
    fn memory_number(&self) -> usize {
        Arc::as_ptr(&self.memory).addr()
    }
}

/// The exchanges of one memory, by address, with the pages they touch. Lists have room for one site, of which most
/// transactions are.
struct Group {
    memory: Arc<dyn CodeMemory>,
    runs: SmallVec<[PageRun; 1]>,
    exchanges: SmallVec<[Exchange; 1]>,
}

/// Everything about a transaction's writes that can be known before the world is stopped.
#[derive(Default)]
pub(super) struct Plan {
    groups: SmallVec<[Group; 1]>,
    /// What is published: the sites, and what has been written outside of them.
    ranges: SmallVec<[CodeRange; 2]>,
}

impl Plan {
    /// Plans the exchanges. `fresh` are ranges outside the sites that have been written and never executed:
    /// stubs and ramps.
    ///
    /// # Errors
    /// [`Error::OutsideMemory`] for a site whose pages do not exist.
    pub(super) fn of(mut exchanges: Vec<Exchange>, fresh: impl Iterator<Item = CodeRange>) -> Result<Self> {
        exchanges.sort_unstable_by_key(|exchange| (exchange.memory_number(), exchange.range));
        let ranges = exchanges
            .iter()
            .map(|exchange| exchange.range)
            .chain(fresh)
            .collect();
        let mut groups: SmallVec<[Group; 1]> = SmallVec::new();
        for exchange in exchanges {
            match groups.last_mut() {
                Some(group) if Arc::as_ptr(&group.memory).addr() == exchange.memory_number() => {
                    group.exchanges.push(exchange);
                }
                _ => groups.push(Group {
                    memory: Arc::clone(&exchange.memory),
                    runs: SmallVec::new(),
                    exchanges: smallvec![exchange],
                }),
            }
        }
        for group in &mut groups {
            let mut ranges: Vec<CodeRange> = group.exchanges.iter().map(|exchange| exchange.range).collect();
            group.runs = PageRun::cover(&mut ranges)?;
        }
        Ok(Self { groups, ranges })
    }
}

/// Which of its two sides an exchange is to have in memory.
#[derive(Clone, Copy)]
enum Side {
    Old,
    New,
}

impl Side {
    fn of(self, exchange: &Exchange) -> &[u8] {
        match self {
            Self::Old => &exchange.old,
            Self::New => &exchange.new,
        }
    }
}

/// Writes the new bytes of every exchange, or leaves the old ones.
///
/// # Errors
/// Whatever failed, after every site has its old bytes again; [`Error::RollBackFailed`] where one has not.
pub(super) fn write(plan: &Plan, stopped: &Stopped, publisher: &Publisher, level: Level) -> Result<()> {
    let groups = &plan.groups;
    for exchange in groups.iter().flat_map(|group| &group.exchanges) {
        compare(exchange, Side::Old)?;
    }
    begin(groups, stopped)?;
    let context = RollBack {
        plan,
        stopped,
        publisher,
        level,
    };
    if let Err(cause) = write_groups(groups) {
        return Err(context.run(cause, Open::Yes));
    }
    let finished = end(groups).and_then(|()| publisher.publish(&plan.ranges, level));
    finished
        .and_then(|()| read_back(groups))
        .map_err(|cause| context.run(cause, Open::No))
}

/// Compares what is in memory with one side of an exchange.
fn compare(exchange: &Exchange, side: Side) -> Result<()> {
    // Room for what sites mostly have reserved.
    let mut found: SmallVec<[u8; 64]> = SmallVec::from_elem(0, exchange.old.len());
    exchange.memory.read(exchange.range.start(), &mut found)?;
    let expected = side.of(exchange);
    if *found == *expected {
        return Ok(());
    }
    Err(Error::BytesChanged {
        site: exchange.site.name(),
        expected: expected.to_vec(),
        found: found.into_vec(),
    })
}

fn begin(groups: &[Group], stopped: &Stopped) -> Result<()> {
    for (at, group) in groups.iter().enumerate() {
        let Err(cause) = group.memory.begin(&group.runs, stopped) else {
            continue;
        };
        // Nothing has been written: the groups that were begun only need their protection back.
        let lost = groups
            .iter()
            .take(at)
            .filter(|begun| begun.memory.end(&begun.runs).is_err());
        let sites: Vec<_> = lost
            .flat_map(|group| &group.exchanges)
            .map(|exchange| (*exchange.site.name(), Fate::OldNotExecutable))
            .collect();
        return Err(if sites.is_empty() {
            cause
        } else {
            Error::RollBackFailed {
                cause: Box::new(cause),
                sites,
            }
        });
    }
    Ok(())
}

fn write_groups(groups: &[Group]) -> Result<()> {
    let mut exchanges = groups.iter().flat_map(|group| &group.exchanges);
    exchanges.try_for_each(|exchange| exchange.memory.write(exchange.range.start(), &exchange.new))
}

/// Ends every group, also after one has failed.
fn end(groups: &[Group]) -> Result<()> {
    groups
        .iter()
        .map(|group| group.memory.end(&group.runs))
        .fold(Ok(()), Result::and)
}

fn read_back(groups: &[Group]) -> Result<()> {
    groups
        .iter()
        .flat_map(|group| &group.exchanges)
        .try_for_each(|exchange| compare(exchange, Side::New))
}

/// Whether the groups are between `begin` and `end`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Open {
    Yes,
    No,
}

/// Takes a transaction back that has begun to write.
struct RollBack<'a> {
    plan: &'a Plan,
    stopped: &'a Stopped,
    publisher: &'a Publisher,
    level: Level,
}

impl RollBack<'_> {
    /// Writes the old bytes of every group again and says what came of it.
    fn run(&self, cause: Error, open: Open) -> Error {
        let mut sites: Vec<(SiteName, Fate)> = Vec::new();
        let executable = self.restore(open);
        for (group, executable) in self.plan.groups.iter().zip(executable) {
            let fates = group
                .exchanges
                .iter()
                .filter_map(|e| Some((*e.site.name(), fate(e, executable)?)));
            sites.extend(fates);
        }
        if self.publisher.publish(&self.plan.ranges, self.level).is_err() {
            // The old bytes are in place, but a core may go on executing the new ones.
            let all = self.plan.groups.iter().flat_map(|group| &group.exchanges);
            sites = all
                .map(|exchange| (*exchange.site.name(), Fate::Unknown))
                .collect();
        }
        if sites.is_empty() {
            cause
        } else {
            Error::RollBackFailed {
                cause: Box::new(cause),
                sites,
            }
        }
    }

    /// Writes what can be written, and says of each group whether its pages are executable again. Whether the old
    /// bytes are there is then a matter of looking.
    ///
    /// All groups are written before the first ends: two memories may share a page.
    fn restore(&self, open: Open) -> Vec<bool> {
        let begun: Vec<bool> = self
            .plan
            .groups
            .iter()
            .map(|group| open == Open::Yes || group.memory.begin(&group.runs, self.stopped).is_ok())
            .collect();
        let groups = || self.plan.groups.iter().zip(&begun);
        for exchange in groups()
            .filter(|(_, begun)| **begun)
            .flat_map(|(group, _)| &group.exchanges)
        {
            // A refused write leaves bytes that the comparison afterwards finds.
            let _ = exchange.memory.write(exchange.range.start(), &exchange.old);
        }
        groups()
            .map(|(group, begun)| *begun && group.memory.end(&group.runs).is_ok())
            .collect()
    }
}

/// What a site is after its roll-back, unless that is what it should be.
fn fate(exchange: &Exchange, executable: bool) -> Option<Fate> {
    match (compare(exchange, Side::Old).is_ok(), executable) {
        (true, true) => None,
        (true, false) => Some(Fate::OldNotExecutable),
        (false, _) if compare(exchange, Side::New).is_ok() => Some(Fate::New),
        (false, _) => Some(Fate::Unknown),
    }
}
