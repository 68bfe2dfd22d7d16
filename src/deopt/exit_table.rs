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
use core::cell::UnsafeCell;
use core::mem::{self, ManuallyDrop};
use core::ptr;
use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

use super::exit_stub::{self, InBlock, RoomCode};
use super::exit_stubs::Handlers;
use super::host::state::{self, RawState};
use super::{Answer, ExitStubContext, ExitStubSite, Frame, UnwindInfo, unwinds};
use crate::addr::CodeAddr;
use crate::arch::{Arch, SiteContext};
use crate::engine::{AlikeSites, ExitBlock, ExitRequest, ExitResumption, Role, StackAt};
use crate::memory::{BlockForm, EmptyRoom, EmptyRooms, ManyHandles, OneOfMany};
use crate::site::{Module, Site};
use crate::{Result, deopt};
use patchpoint_asm::backend::Relocated;
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

/// The place of one exit stub in a table.
struct Entry {
    /// How many use it, and one more; [`FREE`] and [`BUSY`] otherwise.
    users: AtomicU32,
    site: UnsafeCell<Option<TableSite>>,
}

/// From so many sites of a module on, exit stubs that are made together share a handle of it. That is a block
/// of memory, which takes as long as counting some handles.
const SHARED: usize = 4;

const FREE: u32 = 0;
/// Somebody empties it.
const BUSY: u32 = 1;

// SAFETY: the site is written by the one who may claim the entry, while it is free, taken by the last of its users, and read
// by users only, who are counted.
unsafe impl Sync for Entry {}

/// A site, by its module and its number in that, with what its exit stub in a block ends in. In one enum
/// an entry takes 24 bytes; with one for the handles only, 32.
enum TableSite {
    Own {
        module: Module,
        index: u32,
        role: Role,
    },
    /// One of many exit stubs that were made together.
    OfMany {
        module: OneOfMany<Module>,
        index: u32,
        role: Role,
    },
}

impl TableSite {
    fn get(&self) -> (&Module, u32, Role) {
        match self {
            Self::Own { module, index, role } => (module, *index, *role),
            Self::OfMany { module, index, role } => (module, *index, *role),
        }
    }
}

/// An entry that is used as long as this lives, and its table with it, which the block may not keep
/// any more.
pub(super) struct UsedEntry {
    table: Arc<ExitTable>,
    number: usize,
    /// By a copy of the entry's handle of the module, which is not counted.
    site: ManuallyDrop<Site>,
    role: Role,
}

impl BlockExits {
    /// How they lie in a block.
    pub(super) fn in_block() -> InBlock {
        exit_stub::in_block(host())
    }

    /// The form of the blocks for exit stubs that resume so; `None` where no room is as long.
    pub(super) fn form(resumption: &ExitResumption<'_>) -> Option<BlockForm> {
        let in_block = Self::in_block();
        match *resumption {
            ExitResumption::At(_) => Some(in_block.form),
            ExitResumption::Displaced { bytes, moved } => {
                let len = moved.map_or(bytes.len(), |moved| moved.len);
                let fits = |form: &&BlockForm| in_block.around + len as u64 <= form.room.into();
                let mut forms = in_block.moving.iter().filter(fits).copied();
                match moved {
                    Some(_) => forms.next(),
                    // They may become longer.
                    None => forms.last(),
                }
            }
        }
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

    /// # Panics
    /// If the room at that address is one of another block, or has another number.
    #[inline]
    fn check_room(&self, number: u32, at: CodeAddr) {
        let before = u64::from(self.form.shared) + u64::from(number) * u64::from(self.form.room);
        // protection: rooms-of-other-blocks-are-refused
        assert_eq!(
            at.get(),
            self.at.get() + before,
            "exit stubs are made in rooms of their block"
        );
    }

    /// Writes the entry of a room of this block, which was [checked](Self::check_room), if it is free;
    /// whether it was. It has one user then.
    #[inline(always)] // A call is 45 instructions of each site of a batch.
    fn claim(&self, room: &EmptyRoom<'_>, site: impl FnOnce() -> TableSite) -> bool {
        let entry = self.entry(room.number() as usize);
        // By a load and a store: an exchange waits for all that was written before it, in other exit stubs.
        // protection: entries-in-use-are-not-written
        if entry.users.load(Ordering::Acquire) != FREE {
            return false;
        }
        // SAFETY: an entry that is free is looked at by who claims it only. That is this thread: nobody else has the room at
        // that address, which is of this block. It was emptied before it became free, so there is nothing to be dropped.
        unsafe { entry.site.get().write(Some(site())) };
        entry.users.store(BUSY + 1, Ordering::Release);
        true
    }
}

impl ExitBlock for Arc<ExitTable> {
    fn put(&self, request: &ExitRequest<'_>, room: EmptyRoom<'_>) -> Result<bool> {
        let (site, role) = (request.site, request.role);
        let kept = || TableSite::Own {
            module: site.module().clone(),
            index: site.index(),
            role,
        };
        self.check_room(room.number(), room.at());
        self.put_for(kept, room, &mut Tail::of(request), 0)
    }

    fn put_many(
        &self,
        first: &ExitRequest<'_>,
        sites: AlikeSites<'_>,
        mut rooms: EmptyRooms<'_>,
    ) -> (usize, Result<()>) {
        // The others lie behind it.
        self.check_room(rooms.number(), rooms.at());
        let (start, mut tail, role) = (first.site.addr(), Tail::of(first), first.role);
        let (mut made, mut addrs) = (0, sites.addrs().iter());
        for (module, sites) in sites.runs() {
            let mut handles = (sites.len() >= SHARED).then(|| ManyHandles::new(module.clone(), sites.len()));
            for ((index, addr), room) in sites.zip(&mut addrs).zip(&mut rooms) {
                let kept = || match &mut handles {
                    Some(handles) => TableSite::OfMany {
                        module: handles.one(),
                        index,
                        role,
                    },
                    None => TableSite::Own {
                        module: module.clone(),
                        index,
                        role,
                    },
                };
                match self.put_for(kept, room, &mut tail, addr.distance_from(start)) {
                    Ok(true) => made += 1,
                    Ok(false) => return (made, Ok(())),
                    Err(error) => return (made, Err(error)),
                }
            }
        }
        (made, Ok(()))
    }

    fn stack(&self) -> &'static [StackAt] {
        BlockExits::in_block().stack
    }

    fn give(&self, number: u32) {
        // Its user was the exit stub.
        self.entry(number as usize).lose_user();
    }
}

impl ExitTable {
    /// Makes an exit stub in its room, for a site so many bytes behind the first that is asked for, and like it.
    /// Whether there is enough room, what it goes to is within reach, and nobody uses that number still.
    #[inline]
    fn put_for(
        &self,
        kept: impl FnOnce() -> TableSite,
        mut room: EmptyRoom<'_>,
        tail: &mut Tail<'_>,
        behind: i64,
    ) -> Result<bool> {
        if !self.claim(&room, kept) {
            return Ok(false);
        }
        let (number, at) = (room.number(), room.at());
        let put = self.write(&mut RoomCode::new(room.bytes(), at), tail, behind);
        if !matches!(put, Ok(Some(()))) {
            // protection: exit-stubs-that-cannot-be-put-are-given-back
            self.entry(number as usize).lose_user();
        }
        Ok(put?.is_some())
    }

    /// Writes the code of an exit stub.
    #[inline(always)] // A call is 40 instructions of a site's first patch, and as many of each site of a batch.
    fn write(&self, code: &mut RoomCode<'_>, tail: &mut Tail<'_>, behind: i64) -> Result<Option<()>> {
        let in_block = BlockExits::in_block();
        (in_block.enter)(code, self.at);
        Ok(match tail {
            Tail::Jump { copied, to } => copied
                .map_or(Some(()), |copied| code.put_if_room(copied))
                .and_then(|()| (in_block.jump)(code, moved(*to, behind))),
            Tail::Relocated { bytes, from, last } => {
                let moved = last.relocated(code.next(), moved(*from, behind), bytes);
                code.put_if_room(moved.map_err(deopt::Error::from)?)
            }
        })
    }
}

/// What is behind the call in an exit stub, of the first of those that are asked for.
enum Tail<'a> {
    /// A jump to an address; before it, what the site displaced.
    Jump { copied: Option<&'a [u8]>, to: CodeAddr },
    /// What the site at an address displaced, relocated, with a jump behind it.
    Relocated { bytes: &'a [u8], from: CodeAddr, last: LastRelocated },
}

/// What was relocated last: for the next of sites that are alike, only its distances change. To relocate the
/// instructions of each is a sixth of what invalidating a thousand modules takes.
#[derive(Default)]
struct LastRelocated(Option<(Relocated, i64)>);

impl LastRelocated {
    /// These instructions, which were at `from`, as they are executed at `at`, with a jump behind them. They
    /// are always the same.
    #[inline(never)] // Few exit stubs have any.
    fn relocated(
        &mut self,
        at: CodeAddr,
        from: CodeAddr,
        bytes: &[u8],
    ) -> core::result::Result<&[u8], patchpoint_asm::Error> {
        let moved_by = from.distance_from(at);
        let is_shifted = |(code, before): &mut (Relocated, i64)| {
            // protection: each-copy-has-its-own-distances
            let by = moved_by.wrapping_sub(mem::replace(before, moved_by));
            code.shift(by)
        };
        if !self.0.as_mut().is_some_and(is_shifted) {
            self.0 = Some((backend_of(host()).relocate_for_many(at, from, bytes)?, moved_by));
        }
        let last = self.0.as_ref().map(|(code, _)| code.code());
        Ok(last.expect("it was relocated just now, or before"))
    }
}

impl<'a> Tail<'a> {
    #[inline(always)] // As `ExitTable::write`.
    fn of(first: &ExitRequest<'a>) -> Self {
        let (bytes, moved_as) = match first.resumption {
            ExitResumption::At(to) => return Self::Jump { copied: None, to },
            ExitResumption::Displaced { bytes, moved } => (bytes, moved),
        };
        let from = first.site.addr();
        let copied = moved_as.filter(|moved| moved.same);
        match copied.map(|copied| bytes.get(..copied.len)) {
            None => Self::Relocated {
                bytes,
                from,
                last: LastRelocated::default(),
            },
            Some(copied) => Self::Jump {
                copied: Some(copied.expect("what is the same anywhere is of what was displaced")),
                to: moved(from, bytes.len() as i64),
            },
        }
    }
}

/// So many bytes from an address.
fn moved(from: CodeAddr, distance: i64) -> CodeAddr {
    CodeAddr::new(from.get().wrapping_add_signed(distance))
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

impl ExitStubSite for UsedEntry {
    fn site(&self) -> SiteContext<'_> {
        self.site.context(&[])
    }

    fn registered(&self) -> Option<&Site> {
        Some(&self.site)
    }

    fn unwind(&self) -> deopt::Result<Option<&UnwindInfo>> {
        unwinds::of_site(&self.site)
    }

    fn description(&self) -> Option<&(dyn Any + Send + Sync)> {
        self.site.any_description()
    }

    fn handle<'f>(&self, frame: &mut Frame<'f>) -> Answer<'f> {
        let handler = self.table.exits.handlers.of(self.role);
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
        let entry = table.entry(number);
        // The exit stub is a user, which the thread keeps from being given back.
        entry.users.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the site is not written as long as the entry is used.
        let found = unsafe { &*entry.site.get() };
        let found = found.as_ref().expect("an entry that is used has a site");
        let (module, index, role) = found.get();
        // SAFETY: the copy is not dropped, and the handle that it is of stays as long as the entry is used.
        let module = unsafe { ptr::read(module) };
        Self::InBlock(UsedEntry {
            table,
            number,
            site: ManuallyDrop::new(module.into_site(index)),
            role,
        })
    }

    #[allow(dead_code, reason = "nothing is captured on hosts without exit stubs")]
    pub(super) fn get(&self) -> (Role, &dyn ExitStubSite) {
        match self {
            Self::Alone(role, site) => (*role, &**site),
            Self::InBlock(entry) => (entry.role, entry),
        }
    }
}

#[cfg(test)]
#[cfg(target_arch = "x86_64")]
mod tests {
    use super::*;

    #[test]
    fn an_entry_takes_24_bytes() {
        assert_eq!(size_of::<Entry>(), 24);
    }

    #[test]
    fn what_a_site_held_is_in_the_shortest_room_that_holds_it() {
        let room = |bytes: &[u8]| {
            let moved = backend_of(host()).moved(bytes);
            BlockExits::form(&ExitResumption::Displaced { bytes, moved }).map(|form| form.room)
        };
        // `ret`, a byte each.
        let rooms = [1, 8, 9, 16, 17, 40, 41].map(|len| room(&vec![0xc3; len]));
        assert_eq!(
            rooms,
            [24, 24, 32, 32, 56, 56, 0].map(|room| (room > 0).then_some(room))
        );
        // Nops behind the last instruction that does something take no room.
        let nops = |before: &[u8]| room(&[before, &[0x90; 60][..]].concat());
        assert_eq!(
            [nops(&[]), nops(&[0xc3; 16]), nops(&[0xc3; 17])],
            [Some(24), Some(32), Some(56)]
        );
        // A short `jne` becomes a long one, of six bytes.
        assert_eq!(room(&[0x75, 0x10]), Some(24));
        assert_eq!(room(&[0xc3, 0xc3, 0xc3, 0x75, 0x10]), Some(32));
        // `loop` is encoded anew.
        assert_eq!(room(&[0xe2, 0x10]), Some(56));
    }
}
