//! Live sites: armed before their code first runs, and changed by exchanging one instruction.
//!
//! Problem: threads execute a site while it is changed, and none is to be stopped. Approach: arming rewrites the
//! site once, while nobody can execute it, as nops, one head, nops. Afterwards a sequence always stands in a stub;
//! a patch fills a fresh stub, publishes it, and exchanges the head by one aligned store.
//!
//! Invariants: after arming, the bytes of a site change only in its head, and only between instructions that the
//! architecture lets be exchanged (checked by `verify::check_exchange`, which knows nothing of this module); a stub is
//! complete before a head leads to it and is retired, not freed, when it does no more; no call stands in a live
//! site, so no return address points into one.
//!
//! Shadows of a live module hold the function's own instructions and are not armed: they can only be invalidated,
//! by a [`trap`].

mod arm;
mod trap;

use std::sync::Arc;

use smallvec::SmallVec;

pub(super) use arm::arm;
pub(super) use trap::{forget_trap, forget_traps, has_traps, note_traps};

use super::fault::{Fault, Found, Outcome, Side};
use super::prepare::{Failed, Item, Preparation};
use super::state::{States, Status, Stub};
use super::transaction::Change;
use crate::addr::{CodeAddr, CodeRange, Len};
use crate::arch::live::{Head, HeadBytes, Live};
use crate::arch::{Declared, DeclaredTarget, OnReturn, RegSet};
use crate::error::{Error, Fate, Result};
use crate::memory::{CodeMemory, StubSlot};
use crate::publish::{Level, Publisher, Rest};
use crate::sequence::{self, Assembled, Sequence};
use crate::site::Site;
use crate::verify;

/// What arming has made of a site.
pub(super) struct Armed {
    head: Head,
    /// The code that stood in the site, where that was more than nops.
    pub(super) stub: Option<StubSlot>,
}

/// The exchange of the bytes of one instruction: a head, or the first bytes of a shadow for a trap.
pub(super) struct HeadExchange {
    memory: Arc<dyn CodeMemory>,
    /// The bytes, which lie in one quadword.
    range: CodeRange,
    old: Changed,
    new: Changed,
    /// Where the trap leads, if it is one.
    trap: Option<CodeAddr>,
}

/// Bytes of one quadword.
type Changed = SmallVec<[u8; 8]>;

/// The site's architecture.
fn backend(site: &Site) -> Result<&'static dyn Live> {
    let arch = site.module().arch();
    arch.live().ok_or_else(|| Error::NoAssembler {
        site: site.name(),
        arch,
    })
}

// ---- preparing ----

/// Prepares the change of a site of a live module.
pub(super) fn change(preparation: &mut Preparation<'_>, change: &Change) -> Result<Item> {
    let Some(armed) = &preparation.state.live else {
        return trap::change(preparation, change);
    };
    let head = armed.head;
    match change {
        Change::Patch(sequence) => patch(preparation, head, sequence),
        Change::Restore => restore(preparation, head),
        Change::Invalidate => invalidate(preparation, head),
    }
}

fn patch(preparation: &mut Preparation<'_>, head: Head, sequence: &Arc<Sequence>) -> Result<Item> {
    let site = preparation.site.clone();
    if sequence.is_in_place_only() {
        return Err(Error::LiveInPlace { site: site.name() });
    }
    let environment = preparation.environment(sequence, None)?;
    let context = site.context(&[]);
    let len = sequence::stub_len(sequence, &context, &environment)?;
    let slot = preparation.shared.stubs.alloc(len, site.range())?;
    let addr = slot.addr();
    preparation.stub = Some(Stub {
        slot,
        code: Vec::new(),
        calls: true,
    });
    let body = sequence::assemble_stub(sequence, &context, &environment, addr)?;
    let assembled = Assembled {
        code: Vec::new(),
        stub: Some(body.code),
        declared: body.declared,
        clobbers: body.clobbers,
        landings: Vec::new(),
        used: head.end(),
    };
    let sequence = Some(Arc::clone(sequence));
    lead(preparation, head, addr, assembled, Status::Patched, sequence)
}

fn invalidate(preparation: &mut Preparation<'_>, head: Head) -> Result<Item> {
    let ramp = preparation.invalidation_ramp()?;
    let target = DeclaredTarget {
        addr: ramp,
        on_return: OnReturn::Never,
    };
    let assembled = Assembled {
        code: Vec::new(),
        stub: None,
        declared: Declared {
            targets: vec![target],
            outputs: RegSet::EMPTY,
        },
        clobbers: RegSet::EMPTY,
        landings: Vec::new(),
        used: head.end(),
    };
    let sequence = preparation.state.sequence.clone();
    lead(preparation, head, ramp, assembled, Status::Invalidated, sequence)
}

/// The armed form comes back, whose bytes were checked when the site was armed.
fn restore(preparation: &mut Preparation<'_>, head: Head) -> Result<Item> {
    let new = Arc::clone(&preparation.state.original);
    let item = preparation.item_of(Status::Original, new, head.end(), Vec::new(), None);
    finish(head, item)
}

fn jump(site: &Site, head: Head, to: CodeAddr) -> Result<HeadBytes> {
    backend(site)?
        .jump(head, to)
        .ok_or_else(|| Error::StubOutOfReach {
            site: site.name(),
            stub: to,
        })
}

/// The item whose head jumps to `to`.
fn lead(
    preparation: &mut Preparation<'_>,
    head: Head,
    to: CodeAddr,
    mut assembled: Assembled,
    status: Status,
    sequence: Option<Arc<Sequence>>,
) -> Result<Item> {
    let site = preparation.site.clone();
    let live = backend(&site)?;
    assembled.code = head.armed(live, site.reserved(), jump(&site, head, to)?);
    let assembled = preparation.check_and_fill(&site.context(&[]), assembled)?;
    finish(head, preparation.item(status, &assembled, sequence))
}

/// Checks the exchange, by the checker's rule and by the architecture's table, and makes it part of the item.
fn finish(head: Head, mut item: Item) -> Result<Item> {
    let context = item.site.context(&[]);
    verify::check_exchange(&context, &item.old, &item.new)?;
    let (old, new) = (head.of_site(&item.old), head.of_site(&item.new));
    let (Some(old), Some(new)) = (old, new) else {
        return Err(refused(&item.site, "it has no head"));
    };
    if !backend(&item.site)?.exchangeable(&old, &new) {
        return Err(refused(
            &item.site,
            "its head is no nop or jump that may be exchanged",
        ));
    }
    item.live = Some(HeadExchange {
        memory: Arc::clone(item.site.memory()?),
        range: CodeRange::new(head.addr, u64::from(head.len.get())).unwrap_or_default(),
        old: Changed::from_slice(&old),
        new: Changed::from_slice(&new),
        trap: None,
    });
    Ok(item)
}

fn refused(site: &Site, what: &'static str) -> Error {
    Error::VerifyExchange {
        site: site.name(),
        what,
    }
}

// ---- committing ----

/// Exchanges the heads of the live items, or none. What the new heads lead to is in every instruction cache before
/// they are.
pub(super) fn exchange(
    publisher: &Publisher,
    items: &mut [Item],
    found: &mut Found,
) -> core::result::Result<(), Failed> {
    compare(items, found, Side::Old)?;
    for range in items.iter().flat_map(Item::outside) {
        publisher.maintain(range);
    }
    let refused = items.iter().enumerate().find_map(|(at, item)| {
        let made = item.live.as_ref().map_or(Ok(()), HeadExchange::make);
        Some((at, made.err()?))
    });
    let Some((at, cause)) = refused else {
        return Ok(());
    };
    let done = items.get_mut(..at).unwrap_or_default();
    Err(undo(publisher, done, &[], cause.into(), Level::Eventual))
}

/// Compares the live sites with what they have become.
pub(super) fn read_back(items: &[Item], found: &mut Found) -> Outcome {
    compare(items, found, Side::New)
}

/// Takes back the exchanges of a transaction that has failed after them.
#[cold]
pub(super) fn undo(
    publisher: &Publisher,
    items: &mut [Item],
    ranges: &[CodeRange],
    fault: Fault,
    level: Level,
) -> Failed {
    let exposed = items.iter().any(|item| item.live.is_some());
    if exposed {
        take_back(items);
        // Where this fails, threads may for a bounded time go on as by the new head; what it leads to stays.
        let _ = publisher.publish(ranges, level);
    }
    Failed { fault, exposed }
}

/// Exchanges the heads back. Sites whose head resists are given their fate.
#[cold]
fn take_back(items: &mut [Item]) {
    for item in items.iter_mut().rev() {
        let Some(live) = &item.live else {
            continue;
        };
        if live.take_back().is_err() {
            item.fate = Some(match live.memory.holds(item.addr, &item.new) {
                Ok(true) => Fate::New,
                _ => Fate::Unknown,
            });
        }
    }
}

/// Compares all bytes of the live sites with what should stand there.
fn compare(items: &[Item], found: &mut Found, side: Side) -> Outcome {
    items
        .iter()
        .enumerate()
        .try_for_each(|(number, item)| match &item.live {
            Some(live) => found.compare(&*live.memory, number, item, side),
            None => Ok(()),
        })
}

/// Retires what a taken-back transaction has made: threads may have gone there while it was reachable.
pub(super) fn retire(items: &mut [Item], states: &mut States) {
    trap::keep_ramps(items, states);
    for item in items.iter_mut().filter(|item| item.live.is_some()) {
        for retiree in item.take_code() {
            states.retired.retire(Rest::Quiescent, retiree);
        }
    }
}

impl HeadExchange {
    fn make(&self) -> Result<()> {
        self.store(&self.old, &self.new)
    }

    fn take_back(&self) -> Result<()> {
        self.store(&self.new, &self.old)
    }

    /// One aligned store. The rest of the quadword is what stands there: neighbours under the same lock.
    fn store(&self, old: &[u8], new: &[u8]) -> Result<()> {
        let memory = self.memory.live().ok_or_else(|| self.no_store())?;
        let mut word = [0; 8];
        memory.read(self.word(), &mut word)?;
        let into = self.range.start().distance_from(self.word()) as usize;
        let (mut before, mut after) = (word, word);
        set(&mut before, into, old);
        set(&mut after, into, new);
        memory.exchange(self.word(), before, after)
    }

    #[cold]
    fn no_store(&self) -> Error {
        Error::NoAtomicStore {
            strategy: self.memory.strategy().name(),
            at: self.word(),
            why: "it is no LiveMemory any more",
            mend: "answer the same in every call of `live`",
        }
    }

    /// The quadword that holds the bytes.
    fn word(&self) -> CodeAddr {
        CodeAddr::new(self.range.start().get() & !7)
    }

    pub(super) fn range(&self) -> CodeRange {
        self.range
    }
}

fn set(word: &mut [u8; 8], into: usize, bytes: &[u8]) {
    for (to, from) in word.iter_mut().skip(into).zip(bytes.iter().copied()) {
        *to = from;
    }
}

#[cfg(test)]
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod tests;
