//! What the engine needs from whoever lets compiled code call the runtime: exit stubs.
//!
//! The engine decides when a site needs a way out and where its code is; what that code does,
//! and what handler it ends in, is the business of an [`Exits`] (the one here is
//! `deopt::ExitStubs`).

#![allow(unsafe_code, reason = "Exits is an unsafe trait")]

use core::any::Any;
use std::borrow::Cow;
use std::iter;
use std::sync::Arc;

use smallvec::SmallVec;

use super::Shared;
use super::batch::AlikeSites;
use super::exit_stub::{AloneExit, ExitStub, ExitStubCode, ExitStubKind, ExitStubList, RoomExit};
use crate::addr::{CodeAddr, CodeRange, Len};
use crate::latency::{self, Stage};
use crate::memory::{Block, BlockForm, BlockRooms, EmptyRoom, EmptyRooms, KeptRooms, ManyHandles, StubPool};
use crate::site::{ModuleId, Site};
use crate::{Error, Result};
pub use patchpoint_asm::backend::Moved;

/// Why control leaves the code of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Role {
    /// The sequence in the site found nothing to do for this value (`Target::Miss`).
    Miss,
    /// The site has been invalidated, or its sequence asks for it (`Target::Deopt`).
    Deopt,
}

/// Where a thread goes on that leaves an exit stub as if it had not entered it.
#[derive(Clone, Copy, Debug)]
pub enum ExitResumption<'a> {
    /// At this address.
    At(CodeAddr),
    /// With these instructions, which were at the site, and then behind them.
    Displaced {
        /// Their bytes.
        bytes: &'a [u8],
        /// How they are relocated; `None` where that is not known. Those that are the same at every address are the
        /// first so many of the bytes; those behind are nops.
        moved: Option<Moved>,
    },
}

impl Role {
    /// The name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Miss => "miss",
            Self::Deopt => "deopt",
        }
    }
}

/// One exit stub that is asked for.
#[derive(Debug)]
pub struct ExitRequest<'a> {
    /// The site that it leaves.
    pub site: &'a Site,
    /// Why.
    pub role: Role,
    /// Where its code will be.
    pub at: CodeAddr,
    /// Where a thread goes on that resumes.
    pub resumption: ExitResumption<'a>,
}

impl<'a> ExitRequest<'a> {
    /// The same of a site that is alike, whose exit stub will be at an address: what is asked for differs in
    /// where it resumes by as much as in the site's address.
    #[must_use]
    pub fn of_like<'s>(&self, site: &'s Site, at: CodeAddr) -> ExitRequest<'s>
    where
        'a: 's,
    {
        let distance = site.addr().distance_from(self.site.addr());
        ExitRequest {
            site,
            role: self.role,
            at,
            resumption: match self.resumption {
                // protection: exit-stubs-of-a-batch-resume-at-their-own-site
                ExitResumption::At(to) => {
                    ExitResumption::At(CodeAddr::new(to.get().wrapping_add_signed(distance)))
                }
                displaced @ ExitResumption::Displaced { .. } => displaced,
            },
        }
    }
}

/// How the stack differs from that at the site, from an offset of out-of-line code on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StackAt {
    /// The offset.
    pub from: u32,
    /// By how many bytes the stack pointer is below that of the site.
    pub lowered: u32,
    /// Where what the site has in its link register is stored, in bytes from the stack pointer;
    /// `None` where it is in the register, or where the architecture has none.
    pub link: Option<u32>,
}

/// The code of an exit stub.
pub struct ExitCode {
    /// Its bytes, of which there are no more than were announced.
    pub bytes: Vec<u8>,
    /// How the stack differs from that at the site; by ascending offsets.
    pub stack: Cow<'static, [StackAt]>,
    /// What must live as long as the bytes can be executed.
    pub keep: Box<dyn Any + Send + Sync>,
}

/// Makes blocks of exit stubs of one length, which lie side by side behind what they share: few
/// bytes for each, and no search for room.
///
/// # Safety
/// What is promised of [`Exits`] holds of what [`ExitBlock::put`] writes, too, for as long as the block lives and the number
/// has not been [given back](ExitBlock::give).
pub unsafe trait ExitBlocks {
    /// What the exit stubs of a block of that form share, whose first byte is at that address, and
    /// the block with so many of them.
    fn make(&self, form: BlockForm, at: CodeAddr, count: u32) -> (Vec<u8>, Arc<dyn ExitBlock>);
}

/// A block of exit stubs.
pub trait ExitBlock: Send + Sync {
    /// Makes one of them at the start of its room; what is behind it traps. Whether it can be in the block:
    /// otherwise it will be made by [`Exits::encode`].
    ///
    /// # Errors
    /// It cannot be made at all.
    ///
    /// # Panics
    /// If that is a room of another block.
    fn put(&self, request: &ExitRequest<'_>, room: EmptyRoom<'_>) -> Result<bool>;

    /// The same in each of these rooms, for as many sites that are [alike](ExitRequest::of_like): the first is
    /// the one that is asked for. Returns how many were made, which are those before the first that cannot be
    /// in the block, with the error if that cannot be made at all. Its room, if that was taken out, is not
    /// used.
    ///
    /// # Panics
    /// As [`put`](Self::put).
    fn put_many(
        &self,
        first: &ExitRequest<'_>,
        sites: AlikeSites<'_>,
        rooms: EmptyRooms<'_>,
    ) -> (usize, Result<()>);

    /// How the stack differs in each from that at its site; by ascending offsets.
    fn stack(&self) -> &'static [StackAt];

    /// Nobody reaches it any more.
    fn give(&self, number: u32);
}

/// What a block was made for.
pub(super) fn exits_of(block: &Block) -> &Arc<dyn ExitBlock> {
    let exits = block.owner::<Arc<dyn ExitBlock>>();
    exits.expect("blocks are made for exit stubs")
}

/// Rooms of blocks for exit stubs: a transaction takes as many at a time as it may still need, and a
/// few more, which stay for the next. To take each on its own, by a lock and a search, is a tenth of
/// what an exit stub takes in a transaction, and as much of a site's first patch.
#[derive(Default)]
pub(super) struct ExitRooms {
    /// How many sites there are yet; 0 where nobody knows.
    expected: usize,
    /// How many there were before the first of them.
    all: usize,
    /// Whether some were promised since.
    may_have_promised: bool,
    /// The forms of the blocks in which their exit stubs are, each with how many need them.
    forms: SmallVec<[(BlockForm, usize); 4]>,
    /// Each has some still; what was used last comes last.
    taken: Vec<TakenRooms>,
    /// What the pool was told is kept.
    kept: KeptRooms,
}

/// Rooms of one block, with what makes exit stubs in it: to ask the block for that each time is a fiftieth
/// of an invalidation.
pub(super) struct TakenRooms {
    rooms: BlockRooms,
    /// How many of them are promised to batches, which take them when all their sites are known.
    promised: usize,
    /// Of the block, for exit stubs in these rooms.
    handles: ManyHandles<Arc<Block>>,
    exits: Arc<dyn ExitBlock>,
}

impl TakenRooms {
    fn are_of(&self, block: &Arc<Block>) -> bool {
        Arc::ptr_eq(self.rooms.block(), block)
    }

    /// Promises so many, of which there are as many.
    pub(super) fn promise(&mut self, count: usize) {
        self.promised += count;
    }

    /// How many are promised.
    pub(super) fn promised(&self) -> usize {
        self.promised
    }

    /// How many are left that are promised to nobody.
    #[inline]
    pub(super) fn unpromised(&self) -> usize {
        // protection: promised-rooms-are-not-given-to-others
        self.rooms.len() - self.promised
    }

    /// The numbers of as many of them, which are filled next.
    pub(super) fn next(&self, count: usize) -> impl Iterator<Item = u32> {
        self.rooms.next(count)
    }

    /// Makes an exit stub in the next of them, of which there is one, and notes its place in the request. If it
    /// cannot be there, that room is not used.
    #[inline]
    fn fill_next(&mut self, request: &mut ExitRequest<'_>, stubs: &StubPool) -> Result<Option<RoomExit>> {
        let _stage = latency::enter(Stage::Assemble);
        let room = self.rooms.take().expect("there is a next room")?;
        let number = room.number();
        request.at = room.at();
        let is_put = self.exits.put(request, room);
        if !matches!(is_put, Ok(true)) {
            // protection: room-that-cannot-be-filled-is-freed
            stubs.discard(self.rooms.block().slot(number));
        }
        Ok(is_put?.then(|| RoomExit {
            block: self.handles.one(),
            number,
        }))
    }

    /// Makes exit stubs in as many of those that are promised: see [`ExitBlock::put_many`]. Returns how many
    /// were made, even if one failed; its room, if there is one, is not used.
    pub(super) fn fill_promised(
        &mut self,
        first: &ExitRequest<'_>,
        sites: &AlikeSites<'_>,
        stubs: &StubPool,
    ) -> (usize, Result<()>) {
        let _stage = latency::enter(Stage::Assemble);
        let (mut made, count) = (0, sites.len());
        while made < count {
            let (mut number, mut all) = (0, 0);
            let left = sites.behind(made);
            let site = left.iter().next().expect("some are left");
            let filled = self.rooms.take_side_by_side(count - made, |rooms| {
                (number, all) = (rooms.number(), rooms.len());
                let request = first.of_like(&site, rooms.at());
                self.exits.put_many(&request, left.up_to(all), rooms)
            });
            let ((put, result), taken) = match filled {
                Ok(filled) => filled,
                Err(error) => return (made, Err(error.into())),
            };
            made += put;
            self.promised -= taken;
            if taken > put {
                // protection: room-of-a-batch-that-cannot-be-filled-is-freed
                stubs.discard(self.rooms.block().slot(number + put as u32));
            }
            if put < all || result.is_err() {
                return (made, result);
            }
        }
        (made, Ok(()))
    }
}

/// An exit stub that a change needs.
pub(super) struct WantedExit<'a> {
    kind: ExitStubKind,
    /// Which change of its site it is for.
    generation: u64,
    /// At the place that was found last for it; before, at the site.
    request: ExitRequest<'a>,
}

impl<'a> WantedExit<'a> {
    /// One of that kind, for that change of the site.
    #[inline]
    pub(super) fn new(
        kind: ExitStubKind,
        generation: u64,
        site: &'a Site,
        resumption: ExitResumption<'a>,
    ) -> Self {
        Self {
            kind,
            generation,
            request: ExitRequest {
                site,
                role: kind.role(),
                at: site.addr(),
                resumption,
            },
        }
    }

    /// What its handler is for.
    pub(super) fn role(&self) -> Role {
        self.request.role
    }

    /// The exit stub, whose code is there.
    #[inline]
    fn made(&self, code: ExitStubCode) -> ExitStub {
        ExitStub {
            kind: self.kind,
            generation: self.generation,
            code,
            resumes_in: None,
        }
    }
}

/// So many rooms stay for the next transaction: eight are some 40 instructions more of a site's first patch.
const KEPT: usize = 32;

impl ExitRooms {
    /// So many sites are changed from now on, to whom nothing is promised yet.
    pub(super) fn expect(&mut self, sites: usize) {
        (self.expected, self.all) = (sites, sites);
        self.forms.clear();
        if self.may_have_promised {
            self.end_promises();
        }
    }

    /// Says that nothing is promised: also where what makes exit stubs has panicked before they were made.
    #[inline(never)] // Few transactions have batches.
    fn end_promises(&mut self) {
        self.may_have_promised = false;
        // protection: promises-end-with-their-transaction
        self.taken.iter_mut().for_each(|taken| taken.promised = 0);
    }

    /// How many of the sites that there are yet are likely to need rooms of that form: of one that comes up
    /// first, all; of any other, as large a part of them as of those before. A block of each form for all sites
    /// has pages that nobody uses, and takes their time.
    fn expected_of(&self, form: BlockForm) -> usize {
        let of_form = self.forms.iter().find(|(other, _)| *other == form);
        let (before, need) = (self.all - self.expected, of_form.map_or(0, |(_, count)| *count));
        let as_many = (self.expected * (need + 1)).div_ceil(before + 1);
        as_many.clamp(self.expected.min(KEPT), self.expected)
    }

    /// So many of the sites need rooms of that form.
    #[inline]
    pub(super) fn note_need(&mut self, form: BlockForm, sites: usize) {
        self.expected = self.expected.saturating_sub(sites);
        if self.expected == 0 {
            return;
        }
        match self.forms.iter_mut().find(|(other, _)| *other == form) {
            Some((_, count)) => *count += sites,
            None => self.forms.push((form, sites)),
        }
    }

    /// Gives back those that nobody has used, but for a few of the block that was used last.
    #[inline]
    pub(super) fn keep_few(&mut self, stubs: &StubPool) {
        let left = self.left();
        if left != self.kept {
            self.keep(KEPT, stubs);
        }
    }

    /// Gives back all that nobody has used.
    pub(super) fn give_back(&mut self, stubs: &StubPool) {
        self.keep(0, stubs);
    }

    fn keep(&mut self, most: usize, stubs: &StubPool) {
        let are_few = match &*self.taken {
            [] => true,
            [one] => one.rooms.len() <= most,
            _ => false,
        };
        if !are_few {
            self.give_others_back(most, stubs);
        }
        self.kept = self.left();
        // protection: rooms-that-are-kept-are-not-in-use
        stubs.note_kept(self.kept);
    }

    #[inline(never)] // Most transactions leave few.
    fn give_others_back(&mut self, most: usize, stubs: &StubPool) {
        let mut last = self.taken.pop();
        let others = last.as_mut().and_then(|last| last.rooms.split_off(most));
        for rooms in self.taken.drain(..).map(|taken| taken.rooms).chain(others) {
            // In a fork's child they stay taken.
            // protection: rooms-that-nobody-used-are-given-back
            let _ = stubs.give_rooms(&rooms);
        }
        self.taken.extend(last.filter(|last| last.rooms.len() > 0));
    }

    /// Rooms of that block which are in reach of `near` and not promised yet.
    pub(super) fn promisable(
        &mut self,
        block: &Arc<Block>,
        near: CodeRange,
        stubs: &StubPool,
    ) -> Option<&mut TakenRooms> {
        // protection: batches-take-rooms-of-their-block
        let are_of_block = |taken: &&mut TakenRooms| taken.are_of(block) && taken.unpromised() > 0;
        let taken = self.taken.iter_mut().rev().find(are_of_block)?;
        self.may_have_promised = true;
        let form = block.form();
        taken.rooms.are_for(form, near, stubs).then_some(taken)
    }

    /// Rooms of that block which are promised, if there are any left.
    pub(super) fn promised(&mut self, block: &Arc<Block>) -> Option<&mut TakenRooms> {
        let mut taken = self.taken.iter_mut().rev();
        taken.find(|taken| taken.are_of(block) && taken.promised > 0)
    }

    /// Drops what is kept of blocks all of whose rooms are used.
    pub(super) fn drop_used_up(&mut self) {
        // protection: blocks-without-rooms-are-given-back
        self.taken.retain(|taken| taken.rooms.len() > 0);
    }

    /// How many are promised.
    #[cfg(test)]
    pub(super) fn promised_rooms(&self) -> usize {
        self.taken.iter().map(|taken| taken.promised).sum()
    }

    /// What is taken and not used.
    #[inline]
    fn left(&self) -> KeptRooms {
        let mut left = KeptRooms::default();
        for TakenRooms { rooms, .. } in &self.taken {
            left.rooms += rooms.len() as u64;
            left.bytes += rooms.len() as u64 * u64::from(rooms.block().form().room);
        }
        left
    }
}

impl Shared {
    /// Makes an exit stub in reach of `near`, and adds it to those that were made. Returns where it is.
    pub(super) fn make_exit(
        &self,
        rooms: &mut ExitRooms,
        exits: &dyn Exits,
        wanted: &mut WantedExit<'_>,
        near: CodeRange,
        made: &mut ExitStubList,
    ) -> Result<CodeAddr> {
        let (site, role) = (wanted.request.site, wanted.request.role);
        if let Some(form) = exits.in_blocks(site, role, &wanted.request.resumption) {
            if let Some(at) = self.exit_in_block(rooms, form, wanted, near, made)? {
                return Ok(at);
            }
        }
        let bound = exits.bound(site, role, &wanted.request.resumption)?;
        let slot = self.stubs.alloc(bound, near)?;
        let at = slot.addr();
        wanted.request.at = at;
        let encoded = exits.encode(&wanted.request).and_then(|code| {
            self.stubs.fill(&slot, &code.bytes)?;
            Ok(code)
        });
        match encoded {
            Ok(ExitCode { keep, stack, .. }) => {
                let alone = Box::new(AloneExit {
                    slot,
                    stack,
                    _keep: keep,
                });
                made.push(wanted.made(ExitStubCode::Alone(alone)));
                Ok(at)
            }
            Err(error) => {
                // protection: exit-stub-that-cannot-be-made-is-freed
                self.stubs.discard(slot);
                Err(error)
            }
        }
    }

    fn exit_in_block(
        &self,
        rooms: &mut ExitRooms,
        (form, blocks): (BlockForm, &dyn ExitBlocks),
        wanted: &mut WantedExit<'_>,
        near: CodeRange,
        made: &mut ExitStubList,
    ) -> Result<Option<CodeAddr>> {
        let are_for =
            |taken: &TakenRooms| taken.unpromised() > 0 && taken.rooms.are_for(form, near, &self.stubs);
        let last = rooms.taken.len().wrapping_sub(1);
        let at = match rooms.taken.iter().rposition(are_for) {
            // Most are, and nothing is moved.
            Some(at) if at == last => last,
            Some(at) => {
                rooms.taken.swap(at, last);
                last
            }
            None => {
                let expected = rooms.expected_of(form);
                let taken = self.take_rooms((form, blocks), near, expected)?;
                // Another thread may have taken all rooms.
                let Some(taken) = taken else {
                    return Ok(None);
                };
                let exits = Arc::clone(exits_of(taken.block()));
                let handles = ManyHandles::new(Arc::clone(taken.block()), taken.len());
                rooms.taken.push(TakenRooms {
                    rooms: taken,
                    promised: 0,
                    handles,
                    exits,
                });
                rooms.taken.len() - 1
            }
        };
        rooms.note_need(form, 1);
        let taken = rooms.taken.get_mut(at).expect("some were found, or just added");
        let filled = taken.fill_next(&mut wanted.request, &self.stubs);
        if taken.rooms.len() == 0 {
            rooms.taken.swap_remove(at);
        }
        let Some(room) = filled? else {
            return Ok(None);
        };
        // Where it stays: made on the stack and copied, which waits for its parts to be stored, it is a hundredth of a
        // first patch.
        made.extend(iter::once_with(|| wanted.made(ExitStubCode::InRoom(room))));
        Ok(Some(wanted.request.at))
    }
}

impl Shared {
    /// Takes rooms, at most as many as are expected to be needed and a few, of a new block if no other has
    /// any.
    fn take_rooms(
        &self,
        (form, blocks): (BlockForm, &dyn ExitBlocks),
        near: CodeRange,
        expected: usize,
    ) -> Result<Option<BlockRooms>> {
        let most = expected.max(KEPT);
        if let Some(taken) = self.stubs.rooms(form, near, most)? {
            return Ok(Some(taken));
        }
        let make = |range: CodeRange, count| blocks.make(form, range.start(), count);
        self.stubs.add_block(form, near, expected, make)?;
        Ok(self.stubs.rooms(form, near, most)?)
    }
}

/// What a thread has saved that left compiled code by an exit stub in a
/// [mirror](crate::memory::Mirror): of its stack, which is mapped here too, at the same addresses.
/// The addresses in it are what was told, and have not been checked.
#[derive(Clone, Copy, Debug)]
pub struct SavedFrame {
    context: u64,
    general: u64,
    vectors: u64,
    stack: CodeRange,
}

impl SavedFrame {
    /// Of a thread with that stack, what its capture routine handed over (see
    /// [`ForwardExit`](crate::deopt::ForwardExit::forward)): any three words.
    ///
    /// # Safety
    /// All of the stack is mapped here, readable and writable, as long as this is used; the thread waits meanwhile, and nobody
    /// else in this process refers to its stack.
    #[must_use]
    pub unsafe fn new([context, general, vectors]: [u64; 3], stack: CodeRange) -> Self {
        Self {
            context,
            general,
            vectors,
            stack,
        }
    }

    /// What the exit stub handed over.
    #[must_use]
    pub fn context(&self) -> u64 {
        self.context
    }

    /// Where its general registers are said to be.
    #[must_use]
    pub fn general(&self) -> u64 {
        self.general
    }

    /// Where its vector registers are said to be.
    #[must_use]
    pub fn vectors(&self) -> u64 {
        self.vectors
    }

    /// Its stack, all of which is mapped here.
    #[must_use]
    pub fn stack(&self) -> CodeRange {
        self.stack
    }
}

/// Makes exit stubs. The engine hands on what an implementation refuses: for reasons of its own by
/// [`Error::Provider`], of a kind that
/// [`ProviderError::of_kind`](crate::error::ProviderError::of_kind) tells.
///
/// # Safety
///
/// The engine writes what [`encode`](Self::encode) returns, and threads execute it, without a
/// check:
///
/// - the bytes are whole instructions of the engine's architecture, only at [`ExitRequest::at`]; control
///   leaves them only to the runtime, to where [`ExitRequest::resumption`] says, or to where a handler has promised to go on;
/// - a thread that resumes finds every register, the flags and the stack, the red zone included, as they were at the site,
///   but for what a handler has changed; the stack differs from that only as [`ExitCode::stack`] says;
/// - there are no more bytes than [`bound`](Self::bound) announced for the same site, role and resumption;
/// - what the bytes refer to lives as long as [`ExitCode::keep`];
/// - [`check_leavable`](Self::check_leavable) accepts a site only if its frame can be left;
/// - [`handle`](Self::handle) reads and writes nothing outside of [`SavedFrame::stack`] for what a frame says.
pub unsafe trait Exits: Send + Sync {
    /// Makes what exit stubs need once in a process, at its first engine with any: at a moment at which it is not
    /// forked. A child of a fork in the midst of that would wait for ever for who was at it.
    fn prepare(&self) {}

    /// Whether there is a handler for that role.
    fn handles(&self, role: Role) -> bool;

    /// An upper bound of the bytes of the exit stub.
    ///
    /// # Errors
    /// The exit stub cannot be made at any address.
    fn bound(&self, site: &Site, role: Role, resumption: &ExitResumption<'_>) -> Result<Len>;

    /// The exit stub.
    ///
    /// # Errors
    /// The exit stub cannot be made at this address.
    fn encode(&self, request: &ExitRequest<'_>) -> Result<ExitCode>;

    /// Blocks for exit stubs like this, and of which form; `None` where it is to be made by
    /// [`encode`](Self::encode). Of sites that are invalidated together, alike and side by side, the first
    /// few are asked about; [`ExitBlock::put`] says of each whether it can be in their block.
    fn in_blocks(
        &self,
        _site: &Site,
        _role: Role,
        _resumption: &ExitResumption<'_>,
    ) -> Option<(BlockForm, &dyn ExitBlocks)> {
        None
    }

    /// Whether a handler can leave the frame at that site for its caller.
    ///
    /// # Errors
    /// It cannot; why.
    fn check_leavable(&self, site: &Site) -> Result<()>;

    /// From now on the exit stubs are for code that is executed in a mirror, where they call the
    /// routine at that address instead of this process's.
    ///
    /// # Safety
    /// The exit stubs are executed only where there is a [`Capture`](crate::deopt::Capture) at that address.
    ///
    /// # Errors
    /// [`memory::Error::NotMirrored`](crate::memory::Error::NotMirrored): these exit stubs only work in this process.
    unsafe fn capture_by(&mut self, _routine: CodeAddr) -> Result<()> {
        Err(Error::Memory(crate::memory::Error::NotMirrored {
            what: "these exits",
            mend: "use deopt::ExitStubs, or implement Exits::capture_by and handle",
        }))
    }

    /// A thread has left compiled code in a mirror by one of these exit stubs: what the routine
    /// there is to do. `None` for an exit stub that is none of these.
    ///
    /// # Errors
    /// [`deopt::Error::SavedFrame`](crate::deopt::Error::SavedFrame): what was saved is not on the thread's stack.
    fn handle(&self, _frame: &SavedFrame) -> Result<Option<u64>> {
        Ok(None)
    }

    /// A module has been unregistered: what is kept for it is not needed any more.
    fn forget(&self, module: ModuleId);
}
