//! New frames in place of a compiled one.
//!
//! Problem: code into which others were inlined goes on in several frames of an interpreter, or of
//! functions compiled without inlining, which are larger than its own. Approach: a [`Replacement`]
//! starts as the state in which the compiled function's caller would find itself; the handler
//! pushes frames below it, outermost first. As each frame's address is known when it is pushed, its
//! contents can point to it. The frames are made in a buffer; they are laid on the stack when the
//! handler has returned, see [`lay`](super::lay).
//!
//! ```text
//!                     before                         after
//!              +------------------+          +------------------+
//!              | caller           |          | caller           |
//!    top ----> +------------------+          +------------------+ <---- Replacement::stack_pointer() at first
//!              | compiled frame,  |          | outer            | size, and below it
//!              | with code        |          +------------------+ <---- NewFrame::stack_pointer() of `outer`
//!              | inlined into it  |          | inner            |
//!    site's -> +------------------+          |                  |
//!              | exit_stub, handler    |          +------------------+ <---- stack pointer when the thread goes on
//!              :                  :          :                  :
//! ```
//!
//! A [frame](NewFrame) reaches from its stack pointer while it calls the next one up to the stack
//! pointer that its caller has after the return: on x86-64 its highest word is its return address.
//! Its registers are those that a callee preserves: each frame starts with what its caller has in
//! them, [saves](NewFrame::save) what its prologue would have saved, and
//! [sets](NewFrame::set_register) what its code has in them.

#![allow(unsafe_code)]

use core::marker::PhantomData;

use alloc::vec;
use alloc::vec::Vec;

use super::Frame;
use super::NewFrame;
use super::answer::{Brand, CallerState, is_restored};
use super::host::{CALLEE_AREA, RETURN_ADDRESS_SIZE, own_return_slot, state, toc_keeper};
use super::stack::lowest_of_this_thread;
use super::unwind::UnwindInfo;
use super::value::Value;
use crate::addr::{CodeAddr, DwarfReg, RecordId};
use crate::arch::{Arch, conventions};
use crate::deopt::{Error, Result};
use crate::site::Function;
use crate::stackmap::StackSize;

/// The most bytes that new frames can have together.
pub(super) const MAX_BYTES: u64 = 1 << 20;
/// r2 of PowerPC64.
const TOC: DwarfReg = DwarfReg::new(2);
/// What is left of a stack for the code that lays frames on it.
const RESERVE: u64 = 16 * 1024;

/// The values of the registers that functions preserve.
pub(super) type Saved = [u64; state::CALLEE_SAVED.len()];

/// Frames that take the place of a compiled one, which [`Frame::replace`] makes an answer of.
///
/// Without any, the thread goes on in the caller, as after a return.
#[derive(Debug)]
pub struct Replacement<'f> {
    pub(super) id: RecordId,
    pub(super) addr: CodeAddr,
    pub(super) arch: Arch,
    /// The stack pointer above all frames.
    top: u64,
    /// What is to be on the stack from the innermost stack pointer on, up to the end of the area of
    /// the caller that its callees may write.
    pub(super) bytes: Vec<u8>,
    /// What the innermost frame has in the registers.
    pub(super) saved: Saved,
    /// Where the innermost frame goes on.
    next: CodeAddr,
    lowest: u64,
    frames: usize,
    /// The innermost frame has not saved its return address.
    pub(super) keeps_return_address: bool,
    /// Registers that the code which is entered expects besides.
    pub(super) registers: Vec<(DwarfReg, Value)>,
    brand: Brand<'f>,
}

/// An argument of the function that a replacement calls.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Arg {
    /// An integer or pointer of up to 64 bits.
    Int(u64),
    /// A `double`.
    F64(f64),
}

/// What [`Frame::replace`] hands on.
#[derive(Debug)]
pub(super) struct Replaced {
    pub(super) at: CodeAddr,
    pub(super) stack_pointer: u64,
    pub(super) bytes: Vec<u8>,
    pub(super) saved: Saved,
    pub(super) registers: Vec<(DwarfReg, Value)>,
}

pub(super) fn index_of(reg: DwarfReg) -> Option<usize> {
    state::CALLEE_SAVED.iter().position(|known| *known == reg.get())
}

/// Address and TOC pointer of a function of PowerPC ELFv1.
fn descriptor(function: CodeAddr) -> [u64; 2] {
    // SAFETY: a function pointer points to a descriptor: address, TOC pointer, environment (64-bit PowerPC ELF ABI 1.9,
    // 3.2.1). That it is one is the promise of the exit stub's creator.
    unsafe { (function.get() as *const [u64; 2]).read_unaligned() }
}

/// The caller itself, where a frame is between that an earlier replacement put there to keep
/// its TOC pointer.
fn past_toc_frame(caller: CallerState) -> CallerState {
    let known = toc_keeper().filter(|(keeper, ..)| *keeper == caller.return_to.get());
    let Some((_, size, slot)) = known else {
        return caller;
    };
    let word = |at: u64| {
        // SAFETY: the frame is laid out by `keep_toc`, and above it is its caller's.
        unsafe { (at as *const u64).read() }
    };
    let stack_pointer = caller.stack_pointer.wrapping_add(size.into());
    let from_top = own_return_slot().expect("where frames keep the TOC pointer, they keep return addresses");
    let mut saved = caller.saved;
    if let Some(toc) = index_of(TOC).and_then(|index| saved.get_mut(index)) {
        *toc = word(caller.stack_pointer.wrapping_add(slot.into()));
    }
    CallerState {
        return_to: CodeAddr::new(word(stack_pointer.wrapping_add_signed(from_top.into()))),
        stack_pointer,
        saved,
    }
}

impl<'f> Replacement<'f> {
    pub(super) fn new(frame: &Frame<'f>, caller: CallerState) -> Self {
        let caller = past_toc_frame(caller);
        let top = caller.stack_pointer;
        let mut bytes = vec![0; CALLEE_AREA];
        // SAFETY: the conventions give every caller this area at its stack pointer, for its callees.
        unsafe { core::ptr::copy_nonoverlapping(top as *const u8, bytes.as_mut_ptr(), CALLEE_AREA) };
        Self {
            id: frame.site.id,
            addr: frame.site.addr,
            arch: frame.site.arch,
            top,
            bytes,
            saved: caller.saved,
            next: caller.return_to,
            lowest: lowest_of_this_thread(frame.stack_pointer()).saturating_add(RESERVE),
            frames: 0,
            keeps_return_address: false,
            registers: Vec::new(),
            brand: PhantomData,
        }
    }

    /// The stack pointer of the innermost frame; at first, that of the caller after a return.
    #[must_use]
    pub fn stack_pointer(&self) -> u64 {
        self.top
            .wrapping_add(CALLEE_AREA as u64)
            .wrapping_sub(self.bytes.len() as u64)
    }

    /// Where the innermost frame goes on; at first, where the compiled function would have returned
    /// to.
    #[must_use]
    pub fn next(&self) -> CodeAddr {
        self.next
    }

    /// How many frames have been pushed.
    #[must_use]
    pub fn len(&self) -> usize {
        self.frames
    }

    /// Whether none has.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.frames == 0
    }

    /// What the innermost frame has in a register that functions preserve.
    ///
    /// # Errors
    /// [`Error::FrameRegister`]: it is none of these.
    pub fn register(&self, reg: DwarfReg) -> Result<u64> {
        let value = index_of(reg).and_then(|index| self.saved.get(index));
        value.copied().ok_or_else(|| self.no_register(reg))
    }

    /// No frame may reach below this address: the end of the stack that the thread is on. Where it
    /// is the stack that the system gave the thread, its end is known already.
    pub fn set_lowest(&mut self, lowest: u64) {
        self.lowest = lowest;
    }

    /// Adds a frame of `size` bytes, all 0, whose code goes on at `next`: where its callee returns
    /// to, or for the innermost one where the thread goes on.
    ///
    /// What the conventions put at a place of theirs is there already: on x86-64 the return address
    /// in the highest word, on PowerPC64 and SystemZ the back chain in the lowest, on PowerPC64 the
    /// return address in the caller's header, on SystemZ r6 to r15 in the caller's save area.
    ///
    /// # Safety
    /// If [`Frame::replace`] answers with it, the frame is by then one with which code can go on at `next`: what that code
    /// expects there and in the registers has been put into it, and it returns to where the frame says. The stack reaches down
    /// as far as [`set_lowest`](Self::set_lowest) said, if that was called.
    ///
    /// # Errors
    /// [`Error::NewFrame`]: the size is no multiple of 8 (of 16 on AArch64, PowerPC64 and RISC-V), or there is no room
    /// for its return address; or there would be more than 1 MiB of frames, or they would reach below the stack's end.
    pub unsafe fn push(&mut self, next: CodeAddr, size: u32) -> Result<NewFrame<'_, 'f>> {
        self.push_frame(next, size)
    }

    fn push_frame(&mut self, next: CodeAddr, size: u32) -> Result<NewFrame<'_, 'f>> {
        self.grow(size.into())?;
        let (caller, return_to) = (self.saved, self.next);
        (self.next, self.frames) = (next, self.frames + 1);
        self.registers.clear();
        let mut frame = NewFrame {
            replacement: self,
            size,
            caller,
            return_to,
        };
        frame.keep_conventions()?;
        Ok(frame)
    }

    /// Adds a frame of a compiled function, as it is at `next`: its size is that of the stack map,
    /// and what its prologue has saved by then is put where its unwind information says. What else
    /// it holds is [set](NewFrame::set) by locations of a record at that place.
    ///
    /// The code there must need no more than the record says: LLVM may keep other values across a
    /// patchpoint, in registers or slots of its own, unless there are none. Code compiled without
    /// optimization has none across a patchpoint that begins a block, with every variable recorded
    /// as an `alloca`.
    ///
    /// # Safety
    /// As for [`push`](Self::push); and `next` is in the function, and `unwind` is that of its code.
    ///
    /// # Errors
    /// As [`push`](Self::push); [`Error::UnwindMissing`] and [`Error::UnwindRule`]: the unwind information does not
    /// tell; [`Error::NewFrame`]: the stack map does not tell the frame's size.
    pub unsafe fn push_compiled(
        &mut self,
        function: &Function,
        next: CodeAddr,
        unwind: &UnwindInfo,
    ) -> Result<NewFrame<'_, 'f>> {
        let no_size = Error::NewFrame {
            id: self.id,
            addr: self.addr,
            size: 0,
            reason: "the stack map does not tell its size",
        };
        let Some(StackSize::Known(size)) = function.stack_size() else {
            return Err(no_size);
        };
        let size = u32::try_from(size)
            .ok()
            .and_then(|size| size.checked_add(RETURN_ADDRESS_SIZE));
        let row = unwind.row(next)?;
        row.check_saved(is_restored)?;
        row.check_plain()?;
        let mut frame = self.push_frame(next, size.ok_or(no_size)?)?;
        frame.set_up(&row)?;
        if frame.replacement.arch.has_descriptors() {
            frame.set_register(TOC, descriptor(function.pointer())[1])?;
        }
        Ok(frame)
    }

    /// Room for `size` bytes below.
    fn grow(&mut self, size: u64) -> Result<()> {
        let refused = |reason| Error::NewFrame {
            id: self.id,
            addr: self.addr,
            size,
            reason,
        };
        if self.keeps_return_address {
            return Err(refused(
                "the function outside it has not saved its return address, so it calls nobody yet",
            ));
        }
        if size % conventions::of(self.arch).stack_unit != 0 {
            return Err(refused(
                "its size is no multiple of what the stack pointer is one of",
            ));
        }
        if own_return_slot().is_some_and(|from_top| from_top < 0) && size < 8 {
            return Err(refused("it has no room for its return address"));
        }
        if self.bytes.len() as u64 + size > MAX_BYTES {
            return Err(refused("all frames together would have more than 1 MiB"));
        }
        let down_to = self.stack_pointer().checked_sub(size);
        if down_to.is_none_or(|down_to| down_to < self.lowest) {
            return Err(refused("it would reach below the end of the stack"));
        }
        // At most 1 MiB, as checked.
        self.bytes.splice(0..0, core::iter::repeat_n(0, size as usize));
        Ok(())
    }

    /// The innermost frame calls `function`, a function pointer as
    /// [`Function::entry`](crate::site::Function::entry) gives: the thread goes on at its first
    /// instruction, and it returns to where that frame goes on. Without a frame it is as if the
    /// caller had called this function instead: on-stack replacement by better code.
    ///
    /// On PowerPC64, unless both have the same descriptor's TOC pointer, a frame of 128 bytes
    /// is between them, which restores the caller's TOC pointer; a [walk](super::Walker) ends
    /// there.
    ///
    /// # Safety
    /// If [`Frame::replace`] answers with it, there is a function at `function` that takes these arguments by the C convention, and the
    /// innermost frame, or without one the caller, can go on with what it returns.
    ///
    /// # Errors
    /// [`Error::FrameIndex`]: an argument does not fit the registers. [`Error::NewFrame`]: there is no room for a
    /// return address, or the stack pointer is no multiple of 16 (of 8 on SystemZ), as at every call.
    #[expect(clippy::missing_panics_doc, reason = "an invariant says why it does not")]
    pub unsafe fn call(mut self, function: CodeAddr, args: &[Arg]) -> Result<Self> {
        self.keep_toc(function)?;
        self.pass(args)?;
        let unit = if self.arch == Arch::SystemZ { 8 } else { 16 };
        if self.stack_pointer() % unit != 0 {
            let reason = "the innermost frame's stack pointer is not aligned as for a call";
            return Err(Error::NewFrame {
                id: self.id,
                addr: self.addr,
                size: 0,
                reason,
            });
        }
        let return_to = self.next.get();
        if self.arch == Arch::X86_64 {
            self.grow(8)?;
            let slot = self.bytes.first_chunk_mut();
            *slot.expect("the stack has just grown by a word") = return_to.to_le_bytes();
        } else {
            self.registers
                .push((DwarfReg::new(state::RETURN_ADDRESS), return_to.into()));
        }
        self.next = self.enter(function);
        self.keeps_return_address = true;
        Ok(self)
    }

    /// On PowerPC64 a frame between the innermost and a function that may have another TOC pointer:
    /// the code there may take for granted that its own comes back.
    fn keep_toc(&mut self, function: CodeAddr) -> Result<()> {
        let Some((keeper, size, slot)) = toc_keeper() else {
            return Ok(());
        };
        let own = self.register(TOC)?;
        if self.arch.has_descriptors() && descriptor(function)[1] == own {
            return Ok(());
        }
        self.push_frame(CodeAddr::new(keeper), size)?
            .put(slot, own.into())
    }

    /// The address of the first instruction behind a function pointer, and what its code expects of
    /// registers.
    fn enter(&mut self, function: CodeAddr) -> CodeAddr {
        const R12: DwarfReg = DwarfReg::new(12);
        match self.arch {
            Arch::PowerPc64Le | Arch::PowerPc64ElfV2 => {
                // The global entry point makes its TOC pointer from it (64-Bit ELF V2 ABI 1.5,
                // 2.3.2.1).
                self.registers.push((R12, function.get().into()));
                function
            }
            Arch::PowerPc64 => {
                let [entry, toc] = descriptor(function);
                self.registers.push((TOC, toc.into()));
                CodeAddr::new(entry)
            }
            _ => function,
        }
    }

    fn pass(&mut self, args: &[Arg]) -> Result<()> {
        let (mut ints, mut floats) = (0, 0);
        for (index, arg) in args.iter().enumerate() {
            let (reg, value) = match arg {
                Arg::Int(value) => (state::ARGS.get(ints).copied(), Value::from(*value)),
                Arg::F64(value) => (state::FLOAT_ARGS.clone().nth(floats), Value::from(*value)),
            };
            // On PowerPC a number takes the place of an integer too.
            let both = self.arch.is_powerpc64();
            let is_float = matches!(arg, Arg::F64(_));
            ints += usize::from(!is_float || both);
            floats += usize::from(is_float);
            let reg = reg.ok_or(Error::FrameIndex {
                id: self.id,
                addr: self.addr,
                what: "register for argument",
                index,
                have: index,
            })?;
            self.registers.push((DwarfReg::new(reg), value));
        }
        Ok(())
    }

    pub(super) fn no_register(&self, reg: DwarfReg) -> Error {
        Error::FrameRegister {
            id: self.id,
            addr: self.addr,
            reg,
            bit_offset: 0,
            size: 8,
            have: 0,
        }
    }

    pub(super) fn finish(self) -> Replaced {
        Replaced {
            at: self.next,
            stack_pointer: self.stack_pointer(),
            bytes: self.bytes,
            saved: self.saved,
            registers: self.registers,
        }
    }
}
