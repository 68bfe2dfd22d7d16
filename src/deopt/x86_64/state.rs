//! What the capture routine leaves on the stack, and how its parts are found.
//!
//! Invariant: [`RawState`] is written by the routine in `capture.rs` push by push; its fields and
//! [`BELOW_SITE`] change only together with it.

#![allow(unsafe_code)]

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::addr::{CodeAddr, DwarfReg};
use crate::deopt::value::MAX;

/// The registers that the System V x86-64 ABI makes a function preserve, but for the stack pointer:
/// rbx, rbp, r12 to r15, by DWARF number.
pub(in crate::deopt) const CALLEE_SAVED: [u16; 6] = [3, 6, 12, 13, 14, 15];
/// rax.
pub(in crate::deopt) const RESULT: DwarfReg = DwarfReg::new(0);
/// rdx, the second half of a 128-bit result.
pub(in crate::deopt) const RESULT_HIGH: DwarfReg = DwarfReg::new(1);
/// xmm0.
pub(in crate::deopt) const FLOAT_RESULT: DwarfReg = DwarfReg::new(17);
/// Where vectors are returned: there, too.
pub(in crate::deopt) const VECTOR_RESULT: DwarfReg = FLOAT_RESULT;
/// rsp.
pub(in crate::deopt) const STACK_POINTER: DwarfReg = DwarfReg::new(7);
/// The return address column.
pub(in crate::deopt) const RETURN_ADDRESS: u16 = 16;
/// rdi, rsi, rdx, rcx, r8, r9: the integer arguments.
pub(in crate::deopt) const ARGS: [u16; 6] = [5, 4, 1, 2, 8, 9];
/// xmm0 to xmm7: the floating-point arguments, by consecutive numbers.
pub(in crate::deopt) const FLOAT_ARGS: core::ops::Range<u16> = 17..25;

/// Bytes below the stack pointer that a leaf function may use (System V x86-64 ABI, section 3.2.2).
pub(in crate::deopt) const RED_ZONE: u64 = 128;

/// CF, PF, AF, ZF, SF, DF, OF: what compiled code keeps in the flags.
const WRITABLE_FLAGS: u64 = 0xcd5;
/// DF, which must be clear at every return.
const DIRECTION: u64 = 0x400;

/// Components of XSAVE (Intel SDM volume 1, section 13.1): x87, SSE, AVX, opmask, ZMM_Hi256,
/// Hi16_ZMM and the extended general registers of APX. Left out: AMX tiles, which no handler
/// touches, and PKRU, which is the thread's right to memory and not a value of the code.
const WANTED: u64 = 0b1110_0111 | 1 << 19;

/// The captured registers, as the routine pushes them.
#[repr(C)]
pub(in crate::deopt) struct RawState {
    /// What the exit stub passes.
    pub(in crate::deopt) context: u64,
    /// By DWARF number. The slot of rsp is filled by the dispatcher.
    pub(in crate::deopt) gprs: [u64; 16],
    flags: u64,
    /// The return address into the exit stub.
    pub(in crate::deopt) return_to: u64,
}

const STATE_SIZE: u64 = size_of::<RawState>() as u64;
/// Distance from the state up to the stack pointer at the site.
const BELOW_SITE: u64 = STATE_SIZE + RED_ZONE;
/// The words that the routine pops when the frame is left: registers, flags, address.
const EXIT_SIZE: u64 = 18 * 8;
/// How far below the new stack pointer the block begins with which a frame is left.
pub(in crate::deopt) const EXIT_BELOW: u64 = RED_ZONE + EXIT_SIZE;
/// Where the save area is, from the routine's stack pointer.
pub(in crate::deopt) const SAVED_AT: u64 = 0;

/// The XSAVE mask that the routine uses; 0 makes it use FXSAVE. Written before the first exit stub
/// exists.
pub(in crate::deopt) static SAVE_MASK: AtomicU64 = AtomicU64::new(0);
/// The size of the save area in bytes. Written before the first exit stub exists.
pub(in crate::deopt) static SAVE_SIZE: AtomicU64 = AtomicU64::new(512);

/// In whose presence a process of the tests behaves as on a machine without XSAVE.
#[cfg(test)]
pub(in crate::deopt) const NO_XSAVE: &str = "PATCHPOINT_TEST_NO_XSAVE";

/// Where the parts of the vector registers are in the save area.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::deopt) struct SaveLayout {
    pub(in crate::deopt) mask: u64,
    size: usize,
    /// Offsets by component number, 0 for those that are absent.
    offsets: [usize; 32],
}

impl SaveLayout {
    /// The layout of this machine. The first call also tells the capture routine.
    pub(in crate::deopt) fn get() -> &'static Self {
        static LAYOUT: OnceLock<SaveLayout> = OnceLock::new();
        LAYOUT.get_or_init(|| {
            let layout = Self::detect();
            SAVE_MASK.store(layout.mask, Ordering::Relaxed);
            SAVE_SIZE.store(layout.size as u64, Ordering::Relaxed);
            layout
        })
    }

    fn detect() -> Self {
        let mut layout = Self {
            size: 512,
            ..Self::default()
        };
        #[cfg(test)]
        let without = std::env::var_os(NO_XSAVE).is_some();
        #[cfg(not(test))]
        let without = false;
        if without || !std::arch::is_x86_feature_detected!("xsave") {
            return layout;
        }
        layout.mask = enabled_components() & WANTED;
        layout.size = 512 + 64;
        for component in 2u32..32 {
            if layout.mask & (1 << component) != 0 {
                let (size, offset) = component_place(component);
                layout.size = layout.size.max(offset + size);
                let slot = layout.offsets.get_mut(component as usize);
                *slot.expect("every component has an offset") = offset;
            }
        }
        layout
    }

    fn has(&self, component: u32) -> bool {
        self.mask & (1 << component) != 0
    }

    /// The parts of a register from its least significant byte: component, offset in the area,
    /// size.
    fn parts(&self, reg: DwarfReg) -> [Option<(u32, usize, usize)>; 3] {
        let component = |number: u32, index: u16, size: usize| {
            let base = self.offsets.get(number as usize)?;
            (self.has(number)).then_some((number, base + usize::from(index) * size, size))
        };
        // DWARF numbers: System V x86-64 ABI figure 3.36, and LLVM's X86RegisterInfo.td.
        match reg.get() {
            n @ 17..=32 => [
                Some((1, 160 + usize::from(n - 17) * 16, 16)),
                component(2, n - 17, 16),
                component(6, n - 17, 32),
            ],
            n @ 33..=40 => [Some((0, 32 + usize::from(n - 33) * 16, 10)), None, None],
            n @ 41..=48 => [Some((0, 32 + usize::from(n - 41) * 16, 8)), None, None],
            n @ 67..=82 => [component(7, n - 67, 64), None, None],
            n @ 118..=125 => [component(5, n - 118, 8), None, None],
            n @ 130..=145 => [component(19, n - 130, 8), None, None],
            _ => [None; 3],
        }
    }
}

/// XCR0: what the system lets user space use.
fn enabled_components() -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: XGETBV of register 0 exists wherever the system enabled XSAVE, which the caller has detected.
    unsafe {
        std::arch::asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") high,
            options(nomem, nostack, preserves_flags));
    }
    u64::from(high) << 32 | u64::from(low)
}

/// Size and offset of a component in the standard format of XSAVE (leaf 0xD of CPUID).
fn component_place(component: u32) -> (usize, usize) {
    #[allow(
        unused_unsafe,
        reason = "safe from Rust 1.94 on, unsafe in the minimum version"
    )]
    // SAFETY: leaf 0xD exists wherever XSAVE does, which the caller has detected.
    let leaf = unsafe { std::arch::x86_64::__cpuid_count(0xd, component) };
    (leaf.eax as usize, leaf.ebx as usize)
}

/// The captured registers of one frame.
pub(in crate::deopt) struct Captured<'f> {
    pub(in crate::deopt) raw: &'f mut RawState,
    save: &'f mut [u8],
    layout: &'static SaveLayout,
    /// The general registers as they were at the site, whatever is written later.
    at_site: [u64; 16],
}

const STACK: usize = STACK_POINTER.get() as usize;
const FITS: &str = "the longest register has room";
const SAVED_WHOLE: &str = "the save area has all components of the layout";

impl<'f> Captured<'f> {
    /// # Safety
    /// Only for what the capture routine passes: `raw` and `save` are valid, unaliased, and outlive `'f`.
    pub(in crate::deopt) unsafe fn new(raw: *mut RawState, save: *mut u8) -> Self {
        let layout = SaveLayout::get();
        // SAFETY: as the caller promises.
        let raw = unsafe { &mut *raw };
        // SAFETY: the routine reserved and wrote as many bytes as the layout says.
        let save = unsafe { core::slice::from_raw_parts_mut(save, layout.size) };
        let stack_pointer = (&raw const *raw as u64).wrapping_add(BELOW_SITE);
        raw.gprs[STACK] = stack_pointer;
        let at_site = raw.gprs;
        Self {
            raw,
            save,
            layout,
            at_site,
        }
    }

    /// A general register as it was at the site: what addresses are made of.
    pub(in crate::deopt) fn base(&self, reg: DwarfReg) -> Option<u64> {
        self.at_site.get(usize::from(reg.get())).copied()
    }

    pub(in crate::deopt) fn flags(&self) -> u64 {
        self.raw.flags
    }

    pub(in crate::deopt) fn set_flags(&mut self, flags: u64) {
        self.raw.flags = self.raw.flags & !WRITABLE_FLAGS | flags & WRITABLE_FLAGS;
    }

    /// The whole register and its size in bytes, 0 when it was not captured.
    pub(in crate::deopt) fn read(&self, reg: DwarfReg) -> ([u8; MAX], usize) {
        let mut bytes = [0; MAX];
        if let Some(word) = self.raw.gprs.get(usize::from(reg.get())) {
            *bytes.first_chunk_mut().expect(FITS) = word.to_le_bytes();
            return (bytes, 8);
        }
        let mut len = 0;
        for (component, offset, size) in self.layout.parts(reg).into_iter().flatten() {
            // A component in its initial state is all zero, whatever its bytes hold.
            if self.in_use(component) {
                let from = self.save.get(offset..offset + size).expect(SAVED_WHOLE);
                let to = bytes.get_mut(len..len + size).expect(FITS);
                to.copy_from_slice(from);
            }
            len += size;
        }
        (bytes, len)
    }

    /// Overwrites the first bytes of a register. The caller has checked that it has as many.
    pub(in crate::deopt) fn write(&mut self, reg: DwarfReg, bytes: &[u8]) {
        if let Some(word) = self.raw.gprs.get_mut(usize::from(reg.get())) {
            let mut whole = word.to_le_bytes();
            for (to, from) in whole.iter_mut().zip(bytes) {
                *to = *from;
            }
            *word = u64::from_le_bytes(whole);
            return;
        }
        let mut rest = bytes;
        for (component, offset, size) in self.layout.parts(reg).into_iter().flatten() {
            let (now, later) = rest.split_at(rest.len().min(size));
            rest = later;
            if now.is_empty() {
                return;
            }
            self.use_component(component);
            let to = self.save.get_mut(offset..offset + now.len());
            to.expect(SAVED_WHOLE).copy_from_slice(now);
        }
    }

    /// XSTATE_BV, the first word of the XSAVE header, where the processor has one.
    fn header(&mut self) -> Option<&mut [u8; 8]> {
        self.save.get_mut(512..)?.first_chunk_mut()
    }

    fn in_use(&self, component: u32) -> bool {
        let header = self.save.get(512..).and_then(<[u8]>::first_chunk);
        header.is_none_or(|bits| u64::from_le_bytes(*bits) & (1 << component) != 0)
    }

    /// Makes XRSTOR load a component that was in its initial state, after making its bytes say so.
    fn use_component(&mut self, component: u32) {
        if self.in_use(component) {
            return;
        }
        for reg in (17..=145).map(DwarfReg::new) {
            for (of, offset, size) in self.layout.parts(reg).into_iter().flatten() {
                if of == component {
                    let bytes = self.save.get_mut(offset..offset + size);
                    bytes.expect(SAVED_WHOLE).fill(0);
                }
            }
        }
        if let Some(bits) = self.header() {
            *bits = (u64::from_le_bytes(*bits) | 1 << component).to_le_bytes();
        }
    }

    /// Writes what the routine pops to continue at `at` with this stack pointer, and returns where.
    ///
    /// # Safety
    /// From the stack pointer upwards is the stack of the code at
    /// `at`; nothing of what lies between 128 bytes below it and the site is needed any more.
    pub(in crate::deopt) unsafe fn leave(self, at: CodeAddr, stack_pointer: u64) -> u64 {
        let mut words = [0; 18];
        for (to, from) in words
            .iter_mut()
            .zip(self.raw.gprs.iter().chain([&self.raw.flags, &at.get()]))
        {
            *to = *from;
        }
        let exit = stack_pointer.wrapping_sub(RED_ZONE + EXIT_SIZE);
        // SAFETY: the block ends 128 bytes below a stack pointer that is at or above the site's. There the
        // captured state or dead frames are; the dispatcher's own frame is below both, and the state has
        // been copied and is not used any more.
        unsafe { (exit as *mut [u64; 18]).write_unaligned(words) };
        exit
    }

    /// Clears DF, as every return must.
    pub(in crate::deopt) fn clear_direction(&mut self) {
        self.raw.flags &= !DIRECTION;
    }
}

/// To be called before the first exit stub exists.
pub(in crate::deopt) fn prepare() {
    SaveLayout::get();
}

/// How many bytes of the save area the routine reads when a frame is left.
pub(in crate::deopt) fn saved_len() -> usize {
    SaveLayout::get().size
}

/// Whether this thread has a shadow stack, which checks every return.
pub(in crate::deopt) fn has_shadow_stack() -> bool {
    let pointer: u64;
    // SAFETY: RDSSPQ reads the shadow stack pointer; without a shadow stack it is a NOP and leaves the 0.
    unsafe {
        std::arch::asm!(".byte 0xf3, 0x48, 0x0f, 0x1e, 0xc8", inout("rax") 0u64 => pointer,
            options(nomem, nostack, preserves_flags));
    }
    pointer != 0
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn a_component_in_its_initial_state_is_zero_whatever_its_bytes() {
        let layout = SaveLayout::get();
        if !layout.has(2) {
            return;
        }
        let mut raw = RawState {
            context: 0,
            gprs: [0; 16],
            flags: 2,
            return_to: 0,
        };
        let mut save = vec![0xab; layout.size];
        save[512..576].fill(0);
        // SAFETY: both outlive the value and are as large as the layout says.
        let mut captured = unsafe { Captured::new(&raw mut raw, save.as_mut_ptr()) };
        let (xmm3, xmm5) = (DwarfReg::new(20), DwarfReg::new(22));
        let (bytes, width) = captured.read(xmm3);
        assert_eq!(bytes, [0; MAX]);
        captured.write(xmm3, &[7; 32]);
        let (bytes, _) = captured.read(xmm3);
        assert_eq!((&bytes[..32], &bytes[32..]), (&[7; 32][..], &[0; 32][..]));
        assert_eq!(captured.read(xmm5), ([0; MAX], width));
        let bits = captured.header().map(|bits| u64::from_le_bytes(*bits));
        assert_eq!(bits, Some(0b110), "SSE and AVX are to be loaded");
    }

    #[test]
    fn the_save_area_stays_below_a_page() {
        // The capture routine steps over it at once; more would need a touch of every page.
        assert!(SaveLayout::get().size <= 3072);
    }
}
