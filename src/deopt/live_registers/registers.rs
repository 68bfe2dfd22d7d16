//! The registers of a frame: all that there are, or those that are live.

#![allow(unsafe_code)]

use core::marker::PhantomData;

use smallvec::SmallVec;

use super::plan::{Plan, Slot};
use crate::addr::{CodeAddr, DwarfReg};
use crate::deopt::host::{in_order, state};
use crate::deopt::value::MAX;

/// The saved registers of one frame.
pub(in crate::deopt) enum Registers<'f> {
    /// All of them.
    All(state::Captured<'f>),
    /// The live ones.
    Live(Live<'f>),
}

impl Registers<'_> {
    /// Whether every register is here.
    pub(in crate::deopt) fn is_whole(&self) -> bool {
        matches!(self, Self::All(_))
    }

    /// A register as it was at the site, whatever has been written since: what addresses are made
    /// of.
    pub(in crate::deopt) fn base(&self, reg: DwarfReg) -> Option<u64> {
        match self {
            Self::All(captured) => captured.base(reg),
            Self::Live(live) => live.base(reg),
        }
    }

    /// The flags; 0 where they are not known.
    pub(in crate::deopt) fn flags(&self) -> u64 {
        match self {
            Self::All(captured) => captured.flags(),
            Self::Live(_) => 0,
        }
    }

    pub(in crate::deopt) fn set_flags(&mut self, flags: u64) {
        match self {
            Self::All(captured) => captured.set_flags(flags),
            Self::Live(_) => {}
        }
    }

    /// The whole register and its size in bytes, 0 when it was not saved. Bytes are from the least
    /// significant on.
    pub(in crate::deopt) fn read(&self, reg: DwarfReg) -> ([u8; MAX], usize) {
        match self {
            Self::All(captured) => captured.read(reg),
            Self::Live(live) => live.read(reg),
        }
    }

    /// Overwrites the first bytes of a register. The caller has checked that it has as many.
    pub(in crate::deopt) fn write(&mut self, reg: DwarfReg, bytes: &[u8]) {
        match self {
            Self::All(captured) => captured.write(reg, bytes),
            Self::Live(live) => live.write(reg, bytes),
        }
    }

    /// The word of a register that has just 8 bytes, where finding it is cheap: what most handlers
    /// of misses ask for.
    #[inline]
    pub(in crate::deopt) fn word(&self, reg: DwarfReg) -> Option<u64> {
        match self {
            Self::All(captured) => captured.raw.gprs.get(usize::from(reg.get())).copied(),
            Self::Live(live) => live.word(live.word_slot(reg)?.1),
        }
    }

    /// Writes such a word; whether the register is one.
    #[inline]
    pub(in crate::deopt) fn set_word(&mut self, reg: DwarfReg, word: u64) -> bool {
        match self {
            Self::All(captured) => {
                let is_one = captured.raw.gprs.len() > usize::from(reg.get());
                if is_one {
                    captured.write(reg, &word.to_le_bytes());
                }
                is_one
            }
            Self::Live(live) => live.set_word(reg, word).is_some(),
        }
    }

    /// Makes the flags those of a return.
    pub(in crate::deopt) fn clear_direction(&mut self) {
        match self {
            Self::All(captured) => captured.clear_direction(),
            Self::Live(_) => {}
        }
    }

    /// Writes what the capture routine continues with, and returns where; 0, which resumes, for a
    /// frame that cannot be left.
    ///
    /// # Safety
    /// As of `Captured::leave`.
    pub(in crate::deopt) unsafe fn leave(self, at: CodeAddr, stack_pointer: u64) -> u64 {
        match self {
            // SAFETY: as the caller promises.
            Self::All(captured) => unsafe { captured.leave(at, stack_pointer) },
            Self::Live(_) => 0,
        }
    }
}

/// The registers that a live-register exit stub has saved.
pub(in crate::deopt) struct Live<'f> {
    slots: &'f [Slot],
    first: *mut u8,
    stack_pointer: u64,
    /// The numbers of the slots of 8 bytes that have been written, with what was there before.
    at_site: SmallVec<[(usize, u64); 4]>,
    frame: PhantomData<&'f mut [u8]>,
}

const FITS: &str = "the longest register has room";

impl<'f> Live<'f> {
    /// # Safety
    /// Only for what a live-register exit stub of that plan passes.
    pub(super) unsafe fn new(plan: &'f Plan, first: *mut u8) -> Self {
        let stack_pointer = (first as u64).wrapping_add(u64::from(plan.frame - plan.header));
        Self {
            slots: &plan.slots,
            first,
            stack_pointer,
            at_site: SmallVec::new(),
            frame: PhantomData,
        }
    }

    fn slot(&self, reg: DwarfReg) -> Option<(usize, &'f Slot)> {
        let mut slots = self.slots.iter().enumerate();
        slots.find(|(_, slot)| slot.reg == reg)
    }

    /// Where a slot is.
    fn at(&self, slot: &Slot) -> *mut u8 {
        self.first.wrapping_add(slot.offset as usize)
    }

    /// A slot of 8 bytes.
    fn word_slot(&self, reg: DwarfReg) -> Option<(usize, &'f Slot)> {
        self.slot(reg).filter(|(_, slot)| slot.size == 8)
    }

    /// What is in a slot of 8 bytes.
    fn word(&self, slot: &Slot) -> Option<u64> {
        // SAFETY: the exit stub stored so many bytes there.
        (slot.size == 8).then(|| unsafe { self.at(slot).cast::<u64>().read_unaligned() })
    }

    fn set_word(&mut self, reg: DwarfReg, word: u64) -> Option<()> {
        let (index, slot) = self.word_slot(reg)?;
        self.keep(index, slot);
        // SAFETY: the exit stub reserved so many bytes there, and loads them.
        unsafe { self.at(slot).cast::<u64>().write_unaligned(word) };
        Some(())
    }

    /// Keeps what is in a slot before it is written the first time.
    fn keep(&mut self, index: usize, slot: &Slot) {
        let is_kept = self.at_site.iter().any(|(written, _)| *written == index);
        if let Some(word) = self.word(slot).filter(|_| !is_kept) {
            self.at_site.push((index, word));
        }
    }

    fn base(&self, reg: DwarfReg) -> Option<u64> {
        if reg == state::STACK_POINTER {
            return Some(self.stack_pointer);
        }
        let (index, slot) = self.slot(reg)?;
        let mut written = self.at_site.iter();
        let before = written.find(|(written, _)| *written == index);
        before.map_or_else(|| self.word(slot), |(_, word)| Some(*word))
    }

    fn read(&self, reg: DwarfReg) -> ([u8; MAX], usize) {
        let mut bytes = [0; MAX];
        if reg == state::STACK_POINTER {
            *bytes.first_chunk_mut().expect(FITS) = self.stack_pointer.to_le_bytes();
            return (bytes, 8);
        }
        let Some((_, slot)) = self.slot(reg) else {
            return (bytes, 0);
        };
        let size = usize::from(slot.size);
        let to = bytes.get_mut(..size).expect(FITS);
        // SAFETY: the exit stub stored so many bytes there.
        unsafe { core::ptr::copy_nonoverlapping(self.at(slot), to.as_mut_ptr(), size) };
        in_order(to);
        (bytes, size)
    }

    fn write(&mut self, reg: DwarfReg, bytes: &[u8]) {
        let (mut whole, size) = self.read(reg);
        let Some((index, slot)) = self.slot(reg) else {
            return;
        };
        self.keep(index, slot);
        for (to, from) in whole.iter_mut().zip(bytes) {
            *to = *from;
        }
        let from = whole.get_mut(..size).expect(FITS);
        in_order(from);
        // SAFETY: the exit stub reserved so many bytes there, and loads them.
        unsafe { core::ptr::copy_nonoverlapping(from.as_ptr(), self.at(slot), size) };
    }
}
