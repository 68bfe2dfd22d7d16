//! The steps that change code while threads execute it: closing, rewriting, opening, and back.
//!
//! Problem: threads execute what is written, and may be anywhere in it. Approach: only a *gate* is
//! changed under execution, by one store into one quadword: the patchable jump of a site, or a trap
//! in place of its first bytes. Most changes are one such exchange. Where the bytes that change do
//! not lie in one quadword, a transaction takes three steps, each for all of its sites together: it
//! closes the gates by traps, whose handler does the new thing already; once all cores have
//! serialized it writes what is behind the gates; once they have serialized again it opens the
//! gates, by the first new bytes.
//!
//! Invariants: what the handler does with a thread is noted before the trap is written. When a
//! transaction returns, the note of an open site says that the site is executed again, as no
//! barrier tells whether a thread is between its trap and the handler's look at the table. Behind a
//! gate is written only where no thread can be between the bytes that change (see [`super::gate`]),
//! or a grace period has passed (see [`super::settle`]).

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use super::trap;
use super::{Error, Result};
use crate::addr::{CodeAddr, CodeRange, Len};
use crate::engine::change::{ChangeSet, HeldMemory, MANY, MemoryKind, Side, SiteChange, SiteWrite};
use crate::engine::fault::{Fault, FirstFault, Outcome};
use crate::engine::installed::Stub;
use crate::engine::observe::CodeOwner;
use crate::engine::retire::{RetiredCode, Until};
use crate::engine::state::States;
use crate::error::Fate;
use crate::invariant::OrAbort;
use crate::latency::{self, Stage};
use crate::memory::short::{self, Bytes};
use crate::memory::{CodeMemory, LiveMemory, StubSlot};
use crate::publish::{Level, Moment, Publisher, QuiescentState};

/// The exchange of the bytes of one instruction: a patchable jump, or the first bytes of a site for
/// a trap and back. The bytes lie in one quadword.
pub(in crate::engine) struct JumpExchange {
    memory: HeldMemory,
    /// The quadword.
    word: CodeAddr,
    /// The bits that change; the other bits of `old` and `new` are zeros.
    mask: u64,
    old: u64,
    new: u64,
    range: CodeRange,
    /// Few need it: apart, so that the others are small, of which settling moves thousands.
    trap: Option<Box<TrapChange>>,
}

/// So many exchanges stay: each holds a memory.
const FEW: usize = 8;

/// What changes of live sites were made of: room for that of others.
#[allow(clippy::vec_box, reason = "the boxes are the room")]
#[derive(Default)]
pub(in crate::engine) struct LiveRoom {
    exchanges: Vec<Box<JumpExchange>>,
    stubs: Vec<Box<Stub>>,
}

impl LiveRoom {
    /// An exchange of bytes at an address, which lie in one quadword.
    #[inline]
    pub(super) fn exchange(
        &mut self,
        memory: &Arc<dyn CodeMemory>,
        addr: CodeAddr,
        sides: (&[u8], &[u8]),
    ) -> Box<JumpExchange> {
        JumpExchange::made_in(self.exchanges.pop(), memory, addr, sides)
    }

    /// A stub with so many bytes of code.
    #[inline]
    pub(super) fn stub(&mut self, slot: StubSlot, owner: CodeOwner, len: Len) -> Box<Stub> {
        match self.stubs.pop() {
            None => Stub::new(slot, owner, len),
            // Member by member: what is made apart is copied, which waits for all that is being written.
            Some(mut room) => {
                (room.slot, room.owner) = (slot, owner);
                (room.len, room.calls) = (len, true);
                // protection: room-of-a-stub-has-no-exits
                room.exits = OnceLock::new();
                room
            }
        }
    }

    /// Keeps an exchange that was made.
    #[inline]
    pub(in crate::engine) fn keep_exchange(&mut self, exchange: Box<JumpExchange>) {
        if self.exchanges.len() < FEW {
            self.exchanges.push(exchange);
        }
    }

    /// The code memory of a stub that is reclaimed. The rest is room for others, and of many: they are
    /// reclaimed together.
    pub(in crate::engine) fn slot_of(&mut self, mut stub: Box<Stub>) -> StubSlot {
        let slot = stub.slot.take();
        if self.stubs.len() < MANY {
            self.stubs.push(stub);
        }
        slot
    }
}

/// What a change does with a trap.
struct TrapChange {
    note: TrapNote,
    rewrite: Option<Rewrite>,
}

/// What the handler does with a thread that has executed a trap at a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TrapNote {
    /// Where the thread continues from when the site is being changed.
    pub(super) to: CodeAddr,
    /// Where it continued before the change; `None` where the site had no gate before.
    pub(super) before: Option<CodeAddr>,
    /// Whether the change closes the site by a trap, and leaves it so.
    pub(super) closes: bool,
}

/// What is written behind a trap that is in place of the first bytes for as long.
pub(super) struct Rewrite {
    /// The trap in the quadword.
    trap: u64,
    at: CodeAddr,
    old: Bytes,
    new: Bytes,
}

const HAS_EXCHANGE: &str = "the change of a live site has an exchange";

impl SiteChange {
    fn exchange(&self) -> &JumpExchange {
        self.exchange.as_ref().or_abort(HAS_EXCHANGE)
    }

    /// Whether its site is closed by a trap while it is changed.
    pub(super) fn is_rewritten(&self) -> bool {
        self.exchange().is_rewriting()
    }
}

/// Changes the live sites, or none. What is branched to from now on is in every instruction cache
/// before.
#[inline(never)] // Most transactions have none.
pub(in crate::engine) fn exchange(publisher: &Publisher, set: &mut ChangeSet) -> Outcome {
    // protection: live-old-bytes-are-compared
    compare(set, Side::Old)?;
    let maintained = publisher.maintain(set.outside());
    set.found.check(maintained)?;
    let _stage = latency::enter(Stage::Write);
    let mut made = set.live().iter().map(|change| change.exchange().make());
    let refused = made
        .by_ref()
        .enumerate()
        .find_map(|(at, made)| Some((at, made.err()?)));
    drop(made);
    let refused = match refused {
        None if set.rewrites => {
            let opened = rewrite_and_open(publisher, set);
            opened.err().map(|cause| (set.live().len(), cause))
        }
        refused => refused,
    };
    let Some((at, cause)) = refused else {
        return Ok(());
    };
    let noted = set.found.note(Fault::Refused(cause));
    // protection: live-failure-takes-the-others-back
    undo_some(publisher, set, at, Level::Eventual);
    Err(noted)
}

/// Rewrites what is behind the traps of a transaction, and opens its sites.
#[cold]
fn rewrite_and_open(publisher: &Publisher, set: &ChangeSet) -> Result<()> {
    let rewritten = || set.live().iter().filter(|change| change.is_rewritten());
    // A core may have fetched the first bytes that were there before.
    // protection: rewriting-begins-when-cores-have-serialized
    publisher.publish(&set.ranges, Level::Immediate)?;
    rewritten().try_for_each(|change| change.exchange().write_behind(Side::New))?;
    // protection: opening-begins-when-cores-have-serialized
    publisher.publish(&set.ranges, Level::Immediate)?;
    rewritten().try_for_each(|change| change.exchange().open())
}

/// Compares the live sites with one of their sides.
#[inline(always)] // Of each side apart, as where quiescent sites are compared.
fn compare(set: &mut ChangeSet, side: Side) -> Outcome {
    let (found, writes, first) = (&mut set.found, &set.writes, set.quiescent);
    let live = set.changes.get(first..).zip(writes.get(first..));
    let (changes, live_writes) = live.or_abort("quiescent changes are some of all");
    for (number, (change, write)) in (first..).zip(changes.iter().zip(live_writes)) {
        let memory = &change.exchange().memory;
        match &memory.kind {
            MemoryKind::Own(alias) if alias.has_here(write.at, write.side(side)) => {}
            _ => compare_one(found, memory, writes, (number, side))?,
        }
    }
    Ok(())
}

/// Compares the live site of that number with one of its sides, where its memory is not the engine's own
/// or does not hold it.
#[inline(never)] // What needs no more than a look keeps its registers.
fn compare_one(
    found: &mut FirstFault,
    memory: &HeldMemory,
    writes: &[SiteWrite],
    (number, side): (usize, Side),
) -> Outcome {
    let write = writes.get(number).or_abort("each change has what it writes");
    match memory.holds(write.at, write.side(side)) {
        Ok(true) => Ok(()),
        Ok(false) => {
            let read = |into: &mut [u8]| memory.get().read(write.at, into);
            Err(found.note_changed((number, side), write.side(side).len(), read))
        }
        Err(error) => found.check(Err(error)),
    }
}

/// Publishes what was exchanged, and compares the sites with what they have become.
#[inline]
pub(in crate::engine) fn publish(publisher: &Publisher, set: &mut ChangeSet) -> Outcome {
    // Where something was rewritten, every core has serialized since all gates were closed: none executes the old bytes.
    let level = match set.rewrites {
        true => Level::Eventual,
        false => set.level,
    };
    let published = publisher.publish(&set.ranges, level);
    set.found.check(published)?;
    // protection: live-exchange-is-read-back
    compare(set, Side::New)
}

/// Rolls back the exchanges of a transaction that has failed after them.
#[cold]
pub(in crate::engine) fn undo(publisher: &Publisher, set: &mut ChangeSet) {
    undo_some(publisher, set, set.live().len(), set.level);
}

/// Rolls back the first so many exchanges. Sites whose gate resists are given their fate.
#[cold]
fn undo_some(publisher: &Publisher, set: &mut ChangeSet, count: usize, level: Level) {
    let mut any_rewritten = false;
    for change in set.live_mut().iter_mut().take(count).rev() {
        let exchange = change.exchange();
        any_rewritten |= change.is_rewritten();
        let undone = match exchange.is_rewriting() {
            true => exchange.close_again(),
            false => exchange.undo(),
        };
        if undone.is_err() {
            let new = &change.to_install().bytes;
            change.fate = Some(match exchange.memory.get().holds(change.range.start(), new) {
                Ok(true) => Fate::New,
                _ => Fate::Unknown,
            });
        }
    }
    set.exposed |= count > 0;
    if any_rewritten {
        // protection: rewritten-sites-are-rolled-back
        undo_rewrites(publisher, set, count);
    }
    if count > 0 {
        // Where this fails, threads may for a bounded time go on as by the new patchable jump; what
        // it branches to stays.
        let _ = publisher.publish(&set.ranges, level);
    }
}

/// Writes the old bytes behind the traps of sites that were rewritten, and opens them. Where that
/// cannot be done they stay closed: threads go where the handler sends them, and that is kept.
#[cold]
fn undo_rewrites(publisher: &Publisher, set: &mut ChangeSet, count: usize) {
    let good = |change: &&SiteChange| change.is_rewritten() && change.fate.is_none();
    let rewritten = || set.live().iter().take(count).filter(good);
    let undone = (|| -> Result<()> {
        publisher.publish(&set.ranges, Level::Immediate)?;
        rewritten().try_for_each(|change| change.exchange().write_behind(Side::Old))?;
        publisher.publish(&set.ranges, Level::Immediate)?;
        rewritten().try_for_each(|change| change.exchange().reopen())
    })();
    let resisted = undone.is_err();
    for change in set.live_mut().iter_mut().take(count) {
        if resisted && change.is_rewritten() {
            change.fate = Some(Fate::Unknown);
        }
    }
}

/// Retires what a transaction that was rolled back has made: threads may have gone there while it
/// was reachable, by a gate or by the handler of traps.
#[cold]
pub(in crate::engine) fn retire(
    publisher: &Publisher,
    set: &mut ChangeSet,
    states: &mut States,
    time: Option<Instant>,
) {
    trap::note_again(publisher, set.live());
    trap::keep_exit_stubs(set, states);
    let since = (Moment::now(), time);
    for change in set.live_mut() {
        let exit_stubs = change
            .exit_stubs
            .drain(..)
            .map(|exit_stub| RetiredCode::exit_stub(change.site, exit_stub, since));
        let stub = change.installed.take_stub();
        let stub = stub.map(|stub| RetiredCode::stub(stub, since));
        for retired_code in exit_stubs.chain(stub) {
            states
                .retired
                .retire(Until::Reported(QuiescentState::Quiescent), retired_code);
        }
    }
}

impl JumpExchange {
    /// An exchange of bytes at an address, which lie in one quadword.
    pub(in crate::engine) fn new(
        memory: &Arc<dyn CodeMemory>,
        addr: CodeAddr,
        (old, new): (&[u8], &[u8]),
    ) -> Self {
        let mut made = Self {
            memory: HeldMemory::of(memory),
            word: addr,
            mask: 0,
            old: 0,
            new: 0,
            range: CodeRange::default(),
            trap: None,
        };
        made.become_of(addr, (old, new));
        made
    }

    /// The same in the room of another, if there is some.
    #[inline]
    pub(super) fn made_in(
        room: Option<Box<Self>>,
        memory: &Arc<dyn CodeMemory>,
        addr: CodeAddr,
        sides: (&[u8], &[u8]),
    ) -> Box<Self> {
        match room {
            None => Box::new(Self::new(memory, addr, sides)),
            Some(mut made) => {
                made.memory.hold(memory);
                made.become_of(addr, sides);
                made
            }
        }
    }

    fn become_of(&mut self, addr: CodeAddr, (old, new): (&[u8], &[u8])) {
        let word = CodeAddr::new(addr.get() & !7);
        let into = addr.distance_from(word) as usize;
        assert!(
            // protection: a-patchable-jump-lies-in-one-quadword
            old.len() == new.len() && into + new.len() <= 8,
            "a patchable jump lies in one quadword, see `Backend::plan_patchable_jump`"
        );
        self.word = word;
        (self.old, self.new) = (in_word(addr, old), in_word(addr, new));
        let ones = u64::MAX.checked_shr(64 - 8 * old.len() as u32);
        // Of no bytes, none.
        self.mask = ones.map_or(0, |ones| u64::from_le(ones << (8 * into)));
        self.range = CodeRange::new(addr, old.len() as u64).expect("a quadword's bytes have addresses");
        // protection: room-of-an-exchange-notes-nothing
        self.trap = None;
    }

    /// The same, which the handler of traps is told of.
    pub(super) fn noting(mut self, note: TrapNote) -> Self {
        let rewrite = None;
        self.trap = Some(Box::new(TrapChange { note, rewrite }));
        self
    }

    /// The same, during which what lies behind those bytes is changed too, from and to all bytes of
    /// the site. The first bytes are `trap` for as long.
    pub(super) fn rewriting(mut self, trap: &[u8], (old, new): (&[u8], &[u8])) -> Self {
        let start = self.range.start();
        let behind =
            |bytes| short::of(<[u8]>::get(bytes, trap.len()..).expect("a trap is shorter than its site"));
        self.range = CodeRange::new(start, old.len() as u64).expect("a site's bytes have addresses");
        let at = start.plus(Len::new(trap.len() as u32));
        let trap_change = self.trap.as_mut().expect("what is rewritten has a note");
        trap_change.rewrite = Some(Rewrite {
            trap: in_word(start, trap),
            at: at.expect("a site's bytes have addresses"),
            old: behind(old),
            new: behind(new),
        });
        self
    }

    /// Whether bytes are rewritten behind a trap.
    pub(in crate::engine) fn is_rewriting(&self) -> bool {
        self.rewrite().is_some()
    }

    /// What the handler of traps is told.
    pub(super) fn note(&self) -> Option<TrapNote> {
        self.trap.as_ref().map(|trap| trap.note)
    }

    fn rewrite(&self) -> Option<&Rewrite> {
        self.trap.as_ref()?.rewrite.as_ref()
    }

    pub(in crate::engine) fn notes_trap(&self) -> bool {
        self.trap.is_some()
    }

    /// Whether it closes a site by a trap, and leaves it so.
    pub(in crate::engine) fn leaves_trap(&self) -> bool {
        self.note().is_some_and(|note| note.closes)
    }

    /// Whether a note of it may have been followed before it was made, and after it was refused:
    /// the site is changed by traps again and again.
    pub(in crate::engine) fn is_exposed_by_its_note(&self) -> bool {
        self.note().is_some_and(|note| note.before.is_some())
    }

    /// Makes the first store: the exchange, or, where bytes are rewritten, the closing by a trap.
    pub(super) fn make(&self) -> Result<()> {
        match self.rewrite() {
            None => self.store(self.old, self.new),
            Some(rewrite) => self.store(self.old, rewrite.trap),
        }
    }

    fn undo(&self) -> Result<()> {
        self.store(self.new, self.old)
    }

    fn write_behind(&self, side: Side) -> Result<()> {
        let Some(rewrite) = self.rewrite() else {
            return Ok(());
        };
        match side {
            Side::Old => self.write_unexecuted(rewrite.at, &rewrite.old),
            Side::New => self.write_unexecuted(rewrite.at, &rewrite.new),
        }
    }

    /// Opens the gate of a site that was rewritten.
    fn open(&self) -> Result<()> {
        self.rewrite()
            .map_or(Ok(()), |rewrite| self.store(rewrite.trap, self.new))
    }

    /// Opens it as it was before.
    fn reopen(&self) -> Result<()> {
        self.rewrite()
            .map_or(Ok(()), |rewrite| self.store(rewrite.trap, self.old))
    }

    /// Closes the gate of a site that may have been opened already.
    fn close_again(&self) -> Result<()> {
        let Some(rewrite) = self.rewrite() else {
            return Ok(());
        };
        let mut word = [0; 8];
        self.memory.get().read(self.word, &mut word)?;
        match u64::from_ne_bytes(word) & self.mask {
            held if held == rewrite.trap => Ok(()),
            _ => self.store(self.new, rewrite.trap),
        }
    }

    #[inline]
    fn store(&self, old: u64, new: u64) -> Result<()> {
        match &self.memory.kind {
            MemoryKind::Own(alias) => self.store_in(alias, old, new),
            MemoryKind::Other(memory) => {
                let memory = memory.live().ok_or_else(|| self.no_store())?;
                self.store_in(memory, old, new)
            }
        }
    }

    /// Whether the memory holds these bytes.
    pub(super) fn holds(&self, at: CodeAddr, expected: &[u8]) -> Result<bool> {
        Ok(self.memory.holds(at, expected)?)
    }

    /// Writes bytes that no thread executes.
    pub(super) fn write_unexecuted(&self, at: CodeAddr, bytes: &[u8]) -> Result<()> {
        match &self.memory.kind {
            MemoryKind::Own(alias) => Ok(alias.write_unexecuted(at, bytes)?),
            MemoryKind::Other(memory) => {
                let memory = memory.live().ok_or_else(|| self.no_store())?;
                Ok(memory.write_unexecuted(at, bytes)?)
            }
        }
    }

    /// One aligned store. The rest of the quadword is what it holds: neighbours under the same
    /// lock.
    #[inline]
    fn store_in(&self, memory: &(impl LiveMemory + ?Sized), old: u64, new: u64) -> Result<()> {
        let mut word = [0; 8];
        memory.read(self.word, &mut word)?;
        let others = u64::from_ne_bytes(word) & !self.mask;
        Ok(memory.exchange(
            self.word,
            (others | old).to_ne_bytes(),
            (others | new).to_ne_bytes(),
        )?)
    }

    #[cold]
    fn no_store(&self) -> Error {
        Error::Memory(crate::memory::Error::NoAtomicStore {
            strategy: self.memory.get().strategy().name(),
            at: self.word,
            why: "it is no LiveMemory any more",
            mend: "answer the same in every call of `live`",
        })
    }

    pub(in crate::engine) fn range(&self) -> CodeRange {
        self.range
    }
}

/// Bytes at an address in the quadword that holds them, between zeros.
#[inline]
fn in_word(addr: CodeAddr, bytes: &[u8]) -> u64 {
    let ends = (bytes.first_chunk(), bytes.last_chunk());
    let value = match ends {
        // Which overlap: to copy so few bytes is a call.
        (Some(first), Some(last)) => {
            let value = |half: &[u8; 4]| u64::from(u32::from_le_bytes(*half));
            value(first) | value(last) << (8 * (bytes.len() - 4))
        }
        _ => bytes
            .iter()
            .rev()
            .fold(0, |value, byte| value << 8 | u64::from(*byte)),
    };
    u64::from_le(value << (8 * (addr.get() & 7)))
}
