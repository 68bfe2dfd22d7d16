//! The part that all exit stubs of the process share: it saves every register, calls the
//! dispatcher, and restores them.
//!
//! It is called with the exit stub's frame (see [`layout`](super::layout)) at r1, in which r0, r12,
//! LR and CTR of the site are, with what the processor has, the context and the dispatcher. Its own
//! return address is in r31 meanwhile, what the processor has in r30.
//!
//! The dispatcher runs with the floating-point settings that the platform starts a program with:
//! compiled code may have changed them.
//!
//! It answers 0 to resume: everything is restored and `blr` goes back into the exit stub, so that
//! calls and returns stay paired. Or it answers the address of a block of r0 to r31, LR and an
//! address, which ends one red zone below the new stack pointer: r1 is made that address, so at no
//! time does anything that is still needed lie below the stack pointer and red zone, where a signal
//! may write. The last jump goes through CTR.
//!
//! The second entry is for [`lay`](crate::deopt::lay): it moves the stack pointer down page by
//! page, calls, and goes on as behind the dispatcher, with the save area at the lower stack
//! pointer.
//!
//! Rust has no inline assembly for this architecture yet, so the routine is a table of words in a
//! section of code. Each is named by a function below; the encodings are those of Power ISA 3.1B.
//! How the routine's frame is found, which an assembler would write down, is said to whoever asks.

#![allow(unsafe_code)]

use core::ffi::c_void;
use core::sync::atomic::Ordering;

use super::exit_stub::{PROCESSOR, ld, std};
use super::layout::{
    CR, CTR, DISPATCH, FEATURES, FPSCR, GENERAL, HAS_SCALARS, HAS_VECTORS, SCALARS, STATE, VECTORS, VRSAVE,
    VSCR, XER,
};
use super::state::EXIT;
#[cfg(feature = "backtrace")]
use crate::addr::{CodeAddr, CodeRange};
use crate::arch::HOST_HAS_DESCRIPTORS;
use crate::deopt::lay::Lay;

const LEN: usize = 512;

/// Words of code, and how many there are.
struct CodeWords {
    words: [u32; LEN],
    len: usize,
}

/// `addi r3, r1, offset`.
const fn point(offset: u16) -> u32 {
    0x3861_0000 | offset as u32
}

/// `addi r3, r3, 16`.
const NEXT: u32 = 0x3863_0010;
/// `lfd f0, offset(r1)`, `stfd f0, offset(r1)`, for the register `n`.
const fn lfd(n: u32, offset: u16) -> u32 {
    0xc801_0000 | n << 21 | offset as u32
}
const fn stfd(n: u32, offset: u16) -> u32 {
    0xd801_0000 | n << 21 | offset as u32
}
/// `mtfsf 255, f0, 1, 0`, which writes the decimal rounding mode, too (a processor that has none
/// takes the 1 for a reserved bit); `mffs f0`.
const MTFSF: u32 = 0xfffe_058e;
const MFFS: u32 = 0xfc00_048e;
/// `mfvscr v0`; `mtvscr v0`; `mfvrsave r0`; `mtvrsave r0`.
const MFVSCR: u32 = 0x1000_0604;
const MTVSCR: u32 = 0x1000_0644;
const MFVRSAVE: u32 = 0x7c00_42a6;
const MTVRSAVE: u32 = 0x7c00_43a6;
/// `stvx v0, 0, r3`; `lvx v0, 0, r3`; `stxvd2x vs0, 0, r3`; `lxvd2x vs0, 0, r3`. The register is
/// added.
const STVX: u32 = 0x7c00_19ce;
const LVX: u32 = 0x7c00_18ce;
const STXVD2X: u32 = 0x7c00_1f98;
const LXVD2X: u32 = 0x7c00_1e98;

impl CodeWords {
    const fn put(&mut self, word: u32) {
        self.words[self.len] = word;
        self.len += 1;
    }

    /// `andi. r0, r30, feature`, and a branch if it is absent, whose distance is put in by
    /// [`land`](Self::land).
    const fn unless(&mut self, feature: u16) -> usize {
        self.put(0x73c0_0000 | feature as u32);
        self.put(0x4182_0000);
        self.len - 1
    }

    /// The branch at `from` goes here.
    const fn land(&mut self, from: usize) {
        self.words[from] |= (self.len - from) as u32 * 4;
    }

    /// One instruction for each of the 32 registers, at r3 and on.
    const fn each(&mut self, word: u32) {
        let mut n = 0;
        while n < 32 {
            self.put(word | n << 21);
            self.put(NEXT);
            n += 1;
        }
    }

    /// f0 to f31 to their slots, or back.
    const fn floats(&mut self, load: bool) {
        let mut n = 0;
        while n < 32 {
            let offset = SCALARS + 16 * n as u16;
            self.put(if load { lfd(n, offset) } else { stfd(n, offset) });
            n += 1;
        }
    }

    /// The general registers from `first` to r31, but for r1 and the thread pointer, from their
    /// slots at `base` or to them.
    const fn general(&mut self, first: u32, base: u16, load: bool) {
        let mut n = first;
        while n < 32 {
            let offset = base + 8 * n as u16;
            match n {
                1 => {}
                13 if load => {}
                _ => self.put(if load { ld(n, offset) } else { std(n, offset) }),
            }
            n += 1;
        }
    }

    /// Returns from where on LR is in r31.
    const fn save(&mut self) -> usize {
        // r12 is the exit stub's, which has saved it.
        let mut n = 2;
        while n < 32 {
            if n != 12 {
                self.put(std(n, GENERAL + 8 * n as u16));
            }
            n += 1;
        }
        // mfcr r0; mfxer r0; mflr r31
        self.put(0x7c00_0026);
        self.put(std(0, CR));
        self.put(0x7c01_02a6);
        self.put(std(0, XER));
        self.put(0x7fe8_02a6);
        let moved = self.len;
        self.put(ld(30, FEATURES));
        let floats = self.unless(HAS_SCALARS);
        self.put(point(SCALARS));
        self.each(STXVD2X);
        self.put(0x4800_0000);
        let over = self.len - 1;
        self.land(floats);
        self.floats(false);
        self.land(over);
        self.put(MFFS);
        self.put(stfd(0, FPSCR));
        let without = self.unless(HAS_VECTORS);
        self.put(point(VECTORS));
        self.each(STVX);
        self.put(MFVSCR);
        self.put(STVX);
        self.put(MFVRSAVE);
        self.put(std(0, VRSAVE));
        self.land(without);
        moved
    }

    const fn call(&mut self) {
        // Positive zero as settings: li r0, 0, by way of the parameter save area.
        self.put(0x3800_0000);
        self.put(std(0, 48));
        self.put(lfd(0, 48));
        self.put(MTFSF);
        // addi r3, r1, STATE; addi r4, r1, SCALARS
        self.put(point(STATE));
        self.put(0x3881_0000 | SCALARS as u32);
        self.put(ld(12, DISPATCH));
        self.call_r12();
    }

    /// Returns where the second entry is, which goes on at the index `behind`.
    const fn enter_lower(&mut self, behind: usize) -> usize {
        let entry = self.len;
        // mr r30, r6; mr r7, r1
        self.put(0x7cde_3378);
        self.put(0x7c27_0b78);
        // addi r7, r7, -4096; cmpld r7, r4; blt +20; mr r1, r7; li r0, 0; std r0, 0(r1); b -24
        self.put(0x38e7_f000);
        self.put(0x7c27_2040);
        self.put(0x4180_0014);
        self.put(0x7ce1_3b78);
        self.put(0x3800_0000);
        self.put(std(0, 0));
        self.put(0x4bff_ffe8);
        // mr r1, r4; mr r12, r5
        self.put(0x7c81_2378);
        self.put(0x7cac_2b78);
        self.call_r12();
        let back = (behind as u32).wrapping_sub(self.len as u32).wrapping_mul(4);
        self.put(0x4800_0000 | back & 0x03ff_fffc);
        entry
    }

    /// Returns where the code is that a function with another TOC pointer returns to, see
    /// [`TOC_KEEPER`].
    const fn keep_toc(&mut self) -> usize {
        let entry = self.len;
        // ld r2; addi r1, r1, size; ld r0, 16(r1); mtlr r0; blr
        self.put(ld(2, TOC_SLOT as u16));
        self.put(0x3821_0000 | TOC_FRAME);
        self.put(ld(0, 16));
        self.put(0x7c08_03a6);
        self.put(0x4e80_0020);
        entry
    }

    /// Calls the function pointer in r12.
    const fn call_r12(&mut self) {
        if HOST_HAS_DESCRIPTORS {
            // ld r2, 8(r12); ld r12, 0(r12)
            self.put(0xe84c_0008);
            self.put(0xe98c_0000);
        }
        // mtctr r12; bctrl
        self.put(0x7d89_03a6);
        self.put(0x4e80_0421);
    }

    const fn restore(&mut self) {
        // mr r29, r3
        self.put(0x7c7d_1b78);
        let without = self.unless(HAS_VECTORS);
        self.put(point(VSCR));
        self.put(LVX);
        self.put(MTVSCR);
        self.put(ld(0, VRSAVE));
        self.put(MTVRSAVE);
        self.put(point(VECTORS));
        self.each(LVX);
        self.land(without);
        self.put(lfd(0, FPSCR));
        self.put(MTFSF);
        let floats = self.unless(HAS_SCALARS);
        self.put(point(SCALARS));
        self.each(LXVD2X);
        self.put(0x4800_0000);
        let over = self.len - 1;
        self.land(floats);
        self.floats(true);
        self.land(over);
        // mtxer r0; cmpdi cr0, r29, 0; bne leave
        self.put(ld(0, XER));
        self.put(0x7c01_03a6);
        self.put(ld(0, CR));
        self.put(0x2c3d_0000);
        self.put(0x4082_0000);
        let leave = self.len - 1;
        // mtcrf 255, r0; mtlr r31
        self.put(0x7c0f_f120);
        self.put(0x7fe8_03a6);
        self.put(ld(0, CTR));
        self.put(0x7c09_03a6);
        self.general(2, GENERAL, true);
        self.put(0x4e80_0020);
        self.land(leave);
        // mtcrf 255, r0; mr r1, r29
        self.put(0x7c0f_f120);
        self.put(0x7fa1_eb78);
        // mtlr r0; mtctr r0
        self.put(ld(0, EXIT.link));
        self.put(0x7c08_03a6);
        self.put(ld(0, EXIT.target));
        self.put(0x7c09_03a6);
        self.general(0, 0, true);
        self.put(ld(1, 8));
        self.put(0x4e80_0420);
    }

    /// The whole routine.
    const fn routine() -> Routine {
        let mut code = Self {
            // What is behind the end traps.
            words: [0x7fe0_0008; LEN],
            len: 0,
        };
        let moved = code.save();
        code.call();
        let behind = code.len;
        code.restore();
        let lower = code.enter_lower(behind);
        let keeper = code.keep_toc();
        Routine {
            words: code.words,
            moved,
            behind,
            lower,
            keeper,
        }
    }
}

/// The routine's words, and places in it by their indexes.
struct Routine {
    words: [u32; LEN],
    /// LR is in r31 from here on.
    #[cfg_attr(not(feature = "backtrace"), expect(dead_code, reason = "for unwinders"))]
    moved: usize,
    /// The dispatcher returns here.
    #[cfg_attr(not(feature = "backtrace"), expect(dead_code, reason = "for unwinders"))]
    behind: usize,
    /// The second entry.
    lower: usize,
    /// What keeps the TOC pointer.
    keeper: usize,
}

/// The routine.
#[unsafe(link_section = ".text.patchpoint_capture")]
static ROUTINE: [u32; LEN] = CodeWords::routine().words;
const LOWER: usize = CodeWords::routine().lower;

/// How the routine's frame is found while the dispatcher runs. The frame address is the stack
/// pointer, which stays where the exit stub had it.
#[cfg(feature = "backtrace")]
pub(in crate::deopt) struct Unwinding {
    /// The routine, up to where the dispatcher returns: behind, nothing is called but on a stack
    /// that has been left.
    pub(in crate::deopt) range: CodeRange,
    /// What follows holds from this offset on.
    pub(in crate::deopt) from: u32,
    /// The register that holds the return address.
    pub(in crate::deopt) link: u16,
    /// Of the registers that the exit stub's caller keeps, those that are changed, and where they
    /// are from the frame address.
    pub(in crate::deopt) saved: [(u16, i32); 2],
}

/// See [`Unwinding`].
#[cfg(feature = "backtrace")]
pub(in crate::deopt) fn unwinding() -> Option<Unwinding> {
    const ROUTINE: Routine = CodeWords::routine();
    let slot = |n: u16| (n, i32::from(GENERAL + 8 * n));
    Some(Unwinding {
        range: CodeRange::new(CodeAddr::new(address()), 4 * ROUTINE.behind as u64)?,
        from: 4 * ROUTINE.moved as u32,
        link: 31,
        saved: [slot(30), slot(31)],
    })
}

/// The size of a frame between a caller and a function that may have another TOC pointer, and where
/// the caller's is in it: above the header and the parameter save area.
pub(in crate::deopt) const TOC_FRAME: u32 = 128;
pub(in crate::deopt) const TOC_SLOT: u32 = 112;

/// Where such a frame goes on, by index.
const TOC_KEEPER: usize = CodeWords::routine().keeper;

/// The address at which such a frame goes on: it restores the caller's TOC pointer, as the
/// linker's instruction behind a call does (64-Bit ELF V2 ABI 1.5, 2.3.6.3).
pub(in crate::deopt) fn toc_keeper() -> u64 {
    address() + 4 * TOC_KEEPER as u64
}

/// The address of the routine.
pub(in crate::deopt) fn address() -> u64 {
    (&raw const ROUTINE) as u64
}

/// See [`lay`](crate::deopt::lay).
///
/// # Safety
/// Nothing below the stack is needed, what is passed lies above it, and the function answers as the dispatcher does.
pub(in crate::deopt) unsafe fn enter_lower(laying: *mut c_void, stack: u64, lay: Lay) -> ! {
    type Entry = unsafe extern "C" fn(*mut c_void, u64, Lay, u64) -> !;
    let entry = address() + 4 * LOWER as u64;
    // What a function pointer points to with ELFv1: address, TOC pointer, environment. The compiler
    // does not know that a call reads them, and would leave them away.
    let descriptor = [entry, 0, 0];
    let pointer = match HOST_HAS_DESCRIPTORS {
        true => core::hint::black_box(&descriptor).as_ptr() as u64,
        false => entry,
    };
    // SAFETY: it is a function of this type.
    let enter: Entry = unsafe { core::mem::transmute(pointer) };
    // SAFETY: as the caller promises.
    unsafe { enter(laying, stack, lay, PROCESSOR.load(Ordering::Relaxed).into()) }
}

/// The dispatcher, as a function pointer.
pub(in crate::deopt) fn dispatcher() -> u64 {
    crate::deopt::dispatch as *const () as u64
}
