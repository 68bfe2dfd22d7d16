//! Blocks of exit stubs that capture everything, and which sites these are of.
//!
//! Problem: an exit stub's handler must know the site, and a context for each in memory of its own
//! is most of what making an exit stub takes. Approach: the exit stubs of a block pass one context,
//! its table. The capture routine knows where it returns to, which tells the number of the exit
//! stub, and by that its entry in the table. One that resumes with what its site held has these
//! instructions; it is in a block of longer exit stubs.
//!
//! Invariants: an entry is written while nobody reaches its exit stub, and emptied when nobody uses
//! it any more: neither the exit stub, nor a handler that was entered through it. A number whose
//! entry is still in use is not used again. A table lives as long as its block, and as one of these
//! handlers.

#![allow(unsafe_code)]

use core::any::Any;
use core::cell::{RefCell, UnsafeCell};
use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

use super::exit_stub::{self, InBlock, RoomCode};
use super::exit_stubs::Handlers;
use super::host::state::{self, RawState};
use super::{Answer, ExitStubContext, ExitStubSite, Frame, UnwindInfo, unwinds};
use crate::addr::CodeAddr;
use crate::arch::{Arch, SiteContext};
use crate::engine::{ExitBlock, ExitRequest, ExitResumption, Role, StackAt};
use crate::memory::{BlockForm, short};
use crate::site::Site;
use crate::{Result, deopt};
use patchpoint_asm::backend_of;

/// Set in what an exit stub passes if that is a table. Neither a table nor a context is at an odd
/// address.
const IS_TABLE: u64 = 1;

/// The exit stubs of one block.
pub(super) struct ExitTable {
    exits: BlockExits,
    form: BlockForm,
    /// Where the block begins.
    at: CodeAddr,
    /// What the capture routine returns to in the first exit stub.
    first: u64,
    entries: Box<[Entry]>,
}

/// What the blocks of an engine have in common.
#[derive(Clone, Default)]
pub(super) struct BlockExits {
    pub(super) handlers: Arc<Handlers>,
}

/// How what a site held is done by its exit stub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Displaced {
    /// So many of the bytes are copied; nops are behind them.
    Copied(usize),
    /// They are relocated.
    Relocated,
}

/// How bytes are done that a site held: those of the next are mostly the same. What depends on
/// nothing but the bytes is known to each thread for itself, without a lock.
struct KnownDisplaced {
    bytes: [u8; KNOWN],
    len: usize,
    are: Displaced,
}

/// So many bytes are remembered: no room of a block has more for them.
const KNOWN: usize = 64;

thread_local! {
    static LAST: RefCell<KnownDisplaced> = const {
        RefCell::new(KnownDisplaced { bytes: [0; KNOWN], len: 0, are: Displaced::Copied(0) })
    };
}

/// The place of one exit stub in a table.
struct Entry {
    /// How many use it, and one more; [`FREE`] and [`BUSY`] otherwise.
    users: AtomicU32,
    site: UnsafeCell<Option<TableSite>>,
}

const FREE: u32 = 0;
/// Somebody writes it, or empties it.
const BUSY: u32 = 1;

// SAFETY: the site is written and taken by the one who has made it busy, and read by its users only, who are counted.
unsafe impl Sync for Entry {}

/// A site with what its exit stub in a block ends in.
struct TableSite {
    site: Site,
    role: Role,
}

/// An entry that is used as long as this lives, and its table with it, which the block may not keep
/// any more.
pub(super) struct UsedEntry {
    table: Arc<ExitTable>,
    number: usize,
}

impl BlockExits {
    /// How they lie in a block.
    pub(super) fn in_block() -> InBlock {
        exit_stub::in_block(host())
    }

    /// The form of the blocks for exit stubs that resume so; `None` where no room is as long.
    pub(super) fn form(resumption: ExitResumption<'_>) -> Option<BlockForm> {
        let in_block = Self::in_block();
        match resumption {
            ExitResumption::At(_) => Some(in_block.form),
            ExitResumption::Displaced(bytes) => {
                let are = Displaced::of(bytes);
                let len = match are {
                    Displaced::Copied(used) => used,
                    Displaced::Relocated => bytes.len(),
                };
                let fits = |form: &&BlockForm| in_block.around + len as u64 <= form.room.into();
                let mut forms = in_block.moving.iter().filter(fits).copied();
                match are {
                    Displaced::Copied(_) => forms.next(),
                    // They may become longer.
                    Displaced::Relocated => forms.last(),
                }
            }
        }
    }
}

impl Displaced {
    /// How these bytes are done, which a site held.
    fn of(bytes: &[u8]) -> Self {
        LAST.with_borrow_mut(|last| {
            let known = last.bytes.get(..last.len);
            // protection: what-is-known-of-bytes-is-of-those
            if known.is_some_and(|known| short::same(known, bytes)) {
                return last.are;
            }
            let are = Self::found(bytes);
            if let Some(kept) = last.bytes.get_mut(..bytes.len()) {
                kept.copy_from_slice(bytes);
                (last.len, last.are) = (bytes.len(), are);
            }
            are
        })
    }

    fn found(bytes: &[u8]) -> Self {
        let used = backend_of(host()).same_anywhere(bytes);
        used.map_or(Self::Relocated, Self::Copied)
    }
}

fn host() -> Arch {
    Arch::host().expect("blocks are made where exit stubs are executed")
}

impl ExitTable {
    /// The table of a block whose first byte is at that address.
    pub(super) fn new(exits: BlockExits, form: BlockForm, at: CodeAddr, count: u32) -> Arc<Self> {
        state::prepare();
        let entry = |_| Entry {
            users: AtomicU32::new(FREE),
            site: UnsafeCell::new(None),
        };
        Arc::new(Self {
            exits,
            form,
            at,
            first: at.get() + u64::from(form.shared) + BlockExits::in_block().returns,
            entries: (0..count).map(entry).collect(),
        })
    }

    /// What the exit stubs share.
    pub(super) fn shared(self: &Arc<Self>) -> Vec<u8> {
        let context = Arc::as_ptr(self) as u64 | IS_TABLE;
        exit_stub::shared(host(), context, exit_stub::capture())
    }

    fn entry(&self, number: usize) -> &Entry {
        let entry = self.entries.get(number);
        entry.expect("the exit stubs of a block have entries in its table")
    }

    /// Writes an entry that is free; whether it was. It has one user then.
    fn claim(&self, number: u32, request: &ExitRequest<'_>) -> bool {
        let Some(entry) = self.entries.get(number as usize) else {
            return false;
        };
        // protection: entries-in-use-are-not-written
        let free = entry
            .users
            .compare_exchange(FREE, BUSY, Ordering::Acquire, Ordering::Relaxed);
        if free.is_err() {
            return false;
        }
        let found = TableSite {
            site: request.site.clone(),
            role: request.role,
        };
        // SAFETY: whoever makes an entry busy is the only one to look at it.
        unsafe { *entry.site.get() = Some(found) };
        entry.users.store(BUSY + 1, Ordering::Release);
        true
    }
}

impl ExitBlock for Arc<ExitTable> {
    fn put(&self, number: u32, request: &ExitRequest<'_>, code: &mut [u8]) -> Result<Option<usize>> {
        let in_block = BlockExits::in_block();
        let mut code = RoomCode::new(code, request.at);
        (in_block.enter)(&mut code, self.at);
        let put = match request.resumption {
            ExitResumption::At(to) => (in_block.jump)(&mut code, to),
            ExitResumption::Displaced(bytes) => {
                let from = request.site.addr();
                let to = CodeAddr::new(from.get() + bytes.len() as u64);
                match Displaced::of(bytes) {
                    Displaced::Copied(used) => bytes
                        .get(..used)
                        .and_then(|used| code.put_if_room(used))
                        .and_then(|()| (in_block.jump)(&mut code, to)),
                    Displaced::Relocated => {
                        let moved = backend_of(host()).relocate(code.next(), from, bytes);
                        code.put_if_room(&moved.map_err(deopt::Error::from)?)
                    }
                }
            }
        };
        let is_put = put.is_some() && self.claim(number, request);
        Ok(is_put.then_some(code.len()))
    }

    fn stack(&self) -> &'static [StackAt] {
        BlockExits::in_block().stack
    }

    fn give(&self, number: u32) {
        // Its user was the exit stub.
        self.entry(number as usize).lose_user();
    }
}

impl Entry {
    fn lose_user(&self) {
        if self.users.fetch_sub(1, Ordering::AcqRel) != BUSY + 1 {
            return;
        }
        // SAFETY: the last user has made it busy.
        let unused = unsafe { (*self.site.get()).take() };
        self.users.store(FREE, Ordering::Release);
        drop(unused);
    }
}

impl Drop for UsedEntry {
    fn drop(&mut self) {
        self.table.entry(self.number).lose_user();
    }
}

impl UsedEntry {
    fn get(&self) -> &TableSite {
        let entry = self.table.entry(self.number);
        // SAFETY: the site is not written as long as the entry is used.
        let site = unsafe { &*entry.site.get() };
        site.as_ref().expect("an entry that is used has a site")
    }
}

impl ExitStubSite for UsedEntry {
    fn site(&self) -> SiteContext<'_> {
        self.get().site.context(&[])
    }

    fn registered(&self) -> Option<&Site> {
        Some(&self.get().site)
    }

    fn unwind(&self) -> deopt::Result<Option<&UnwindInfo>> {
        unwinds::of_site(&self.get().site)
    }

    fn description(&self) -> Option<&(dyn Any + Send + Sync)> {
        self.get().site.any_description()
    }

    fn handle<'f>(&self, frame: &mut Frame<'f>) -> Answer<'f> {
        let handler = self.table.exits.handlers.of(self.get().role);
        let handler = handler.expect("exit stubs are made for handlers that there are");
        handler(frame)
    }
}

/// The exit stub by which a thread has left its code: what its handler is called through. It
/// outlives the call, as the handler may retire the exit stub.
pub(super) enum EnteredExit {
    Alone(Role, Arc<dyn ExitStubSite>),
    InBlock(UsedEntry),
}

impl EnteredExit {
    /// # Safety
    /// The state is what the capture routine has saved, and its thread is in the exit stub.
    #[allow(dead_code, reason = "nothing is captured on hosts without exit stubs")]
    pub(super) unsafe fn new(raw: &RawState) -> Self {
        if raw.context & IS_TABLE == 0 {
            let context = raw.context as *const ExitStubContext;
            // SAFETY: the exit stub passed the address of its context, which outlives it.
            let context = unsafe { &*context };
            return Self::Alone(context.role, Arc::clone(&context.site));
        }
        let table = (raw.context & !IS_TABLE) as *const ExitTable;
        // SAFETY: the block passed the address of its table, of which it has a handle as long as one of its exit stubs
        // is used. This is one more.
        let table = unsafe {
            Arc::increment_strong_count(table);
            Arc::from_raw(table)
        };
        let room = u64::from(table.form.room);
        let number = raw.return_to.wrapping_sub(table.first) / room;
        let number = usize::try_from(number).expect("a table has as many entries as memory has room for");
        // The exit stub is a user, which the thread keeps from being given back.
        table.entry(number).users.fetch_add(1, Ordering::Relaxed);
        Self::InBlock(UsedEntry { table, number })
    }

    #[allow(dead_code, reason = "nothing is captured on hosts without exit stubs")]
    pub(super) fn get(&self) -> (Role, &dyn ExitStubSite) {
        match self {
            Self::Alone(role, site) => (*role, &**site),
            Self::InBlock(entry) => (entry.get().role, entry),
        }
    }
}

#[cfg(test)]
#[cfg(target_arch = "x86_64")]
mod tests {
    use super::*;

    #[test]
    fn what_a_site_held_is_in_the_shortest_room_that_holds_it() {
        let room = |bytes: &[u8]| BlockExits::form(ExitResumption::Displaced(bytes)).map(|form| form.room);
        // `ret`, a byte each.
        let rooms = [1, 18, 19, 34, 35].map(|len| room(&vec![0xc3; len]));
        assert_eq!(rooms, [Some(40), Some(40), Some(56), Some(56), None]);
        // Nops behind the last instruction that does something take no room.
        let nops = |before: &[u8]| room(&[before, &[0x90; 60][..]].concat());
        assert_eq!(
            [nops(&[]), nops(&[0xc3; 18]), nops(&[0xc3; 19])],
            [Some(40), Some(40), Some(56)]
        );
        // A short `jne` becomes a long one.
        assert_eq!(room(&[0x75, 0x10]), Some(56));
    }
}
