//! Whether a stopped thread is in given ranges, or returns there. Linux on x86-64. Async-signal-safe.
//!
//! **What is looked at.** The program counter; the general registers, as a far jump has its target in one; the
//! program counters that signal handlers saved, which are found by the restorer that the C library gives to
//! every handler; and every word of the stack from the stack pointer up to the thread's base, as a return
//! address can be anywhere there. That needs no frame pointers and overlooks nothing on that stack; a word
//! that happens to look like such an address makes a thread count as inside that is not.
//!
//! **What is not.** Other stacks: those of suspended coroutines, and the stack below an alternate signal stack.
//! A thread that is found on no stack known to be its own counts as [`Found::Elsewhere`], which is no
//! answer. A return address is never the first byte of a range: sites and stubs do not start behind calls
//! that return.

use crate::addr::{CodeAddr, CodeRange};

/// The red zone: a word below the stack pointer that a leaf function may use.
const RED_ZONE: u64 = 128;

/// What was found of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// It is outside all ranges.
    Outside,
    /// Its program counter, now or after a signal handler, is this address.
    Executes(u64),
    /// It may return to this address.
    Returns(u64),
    /// It is on a stack that is not known: this is its stack pointer.
    Elsewhere(u64),
}

/// Where a thread is: the state that is looked at.
pub(super) struct Place<'a> {
    /// Its program counter.
    pub(super) pc: u64,
    /// Its general registers.
    pub(super) registers: &'a [i64],
    pub(super) sp: u64,
    /// The bounds of its stack.
    pub(super) low: u64,
    pub(super) high: u64,
    /// Where signal handlers return to, or 0.
    pub(super) restorer: u64,
}

fn inside(ranges: &[CodeRange], at: u64) -> bool {
    ranges.iter().any(|range| range.contains(CodeAddr::new(at)))
}

fn returns_into(ranges: &[CodeRange], at: u64) -> bool {
    ranges
        .iter()
        .any(|range| range.start().get() < at && at < range.end().get())
}

/// Looks at a thread that executes nothing meanwhile.
///
/// # Safety
///
/// `low..high` is the stack of that thread, which is mapped from its stack pointer on, and the thread is the
/// one that calls, or is stopped.
pub(super) unsafe fn look(place: &Place<'_>, ranges: &[CodeRange]) -> Found {
    if inside(ranges, place.pc) {
        return Found::Executes(place.pc);
    }
    if ranges.is_empty() {
        return Found::Outside;
    }
    if let Some(at) = place.registers.iter().find(|at| inside(ranges, **at as u64)) {
        return Found::Executes(*at as u64);
    }
    if !(place.low..place.high).contains(&place.sp) {
        return Found::Elsewhere(place.sp);
    }
    // The red zone holds no return address, but may hold one that is about to be jumped to.
    let mut at = place.sp.saturating_sub(RED_ZONE).max(place.low) & !7;
    while at.saturating_add(8) <= place.high {
        // SAFETY: an aligned word of the thread's stack, at or just below its stack pointer or above it.
        let word = unsafe { (at as *const u64).read_volatile() };
        if returns_into(ranges, word) {
            return Found::Returns(word);
        }
        if word == place.restorer && word != 0 {
            // SAFETY: as above; the place of the saved counter is checked against the bounds inside.
            let saved = unsafe { saved_pc(at, place.high) };
            if let Some(pc) = saved.filter(|pc| inside(ranges, *pc)) {
                return Found::Executes(pc);
            }
        }
        at += 8;
    }
    Found::Outside
}

/// The program counter in the frame of a signal handler whose return address is at `at`: behind it is the
/// `ucontext_t` (arch/x86/include/asm/sigframe.h, struct rt_sigframe).
///
/// # Safety
///
/// `at` is an aligned word of the stack that ends at `high`.
unsafe fn saved_pc(at: u64, high: u64) -> Option<u64> {
    let registers = std::mem::offset_of!(libc::ucontext_t, uc_mcontext) as u64;
    let counter = at.checked_add(8 + registers + 8 * libc::REG_RIP as u64)?;
    if counter.checked_add(8)? > high {
        return None;
    }
    // SAFETY: an aligned word below `high`.
    Some(unsafe { (counter as *const u64).read_volatile() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges() -> [CodeRange; 2] {
        [(0x1000, 16), (0x2001, 7)].map(|(at, len)| CodeRange::new(CodeAddr::new(at), len).unwrap())
    }

    fn found(pc: u64, register: i64, stack: &[u64], restorer: u64) -> Found {
        let low = stack.as_ptr() as u64;
        let place = Place {
            pc,
            registers: &[register],
            sp: low,
            low,
            high: low + 8 * stack.len() as u64,
            restorer,
        };
        // SAFETY: the words are this thread's.
        unsafe { look(&place, &ranges()) }
    }

    #[test]
    fn the_counter_is_inside_from_the_first_byte_to_the_last() {
        for (pc, inside) in [
            (0xfff, false),
            (0x1000, true),
            (0x100f, true),
            (0x1010, false),
            (0x2000, false),
            (0x2001, true),
            (0x2008, false),
        ] {
            let expected = if inside {
                Found::Executes(pc)
            } else {
                Found::Outside
            };
            assert_eq!(found(pc, 0, &[0; 4], 0), expected, "{pc:#x}");
        }
        assert_eq!(found(0, 0x1000, &[0; 4], 0), Found::Executes(0x1000));
    }

    #[test]
    fn a_return_address_anywhere_on_the_stack_is_found() {
        for index in 0..40 {
            let mut stack = [7; 40];
            stack[index] = 0x1001;
            assert_eq!(found(0, 0, &stack, 0), Found::Returns(0x1001));
            stack[index] = 0x1000;
            assert_eq!(found(0, 0, &stack, 0), Found::Outside);
        }
    }

    #[test]
    fn what_a_signal_handler_saved_is_found_from_the_first_byte() {
        let mut stack = [0; 64];
        stack[3] = 0xabc;
        let counter = 4 + std::mem::offset_of!(libc::ucontext_t, uc_mcontext) / 8 + libc::REG_RIP as usize;
        stack[counter] = 0x1000;
        assert_eq!(found(0, 0, &stack, 0xabc), Found::Executes(0x1000));
        assert_eq!(found(0, 0, &stack, 0xabd), Found::Outside);
        stack[63] = 0xabc;
        stack[counter] = 0;
        assert_eq!(found(0, 0, &stack, 0xabc), Found::Outside);
    }

    #[test]
    fn a_thread_on_a_stack_that_is_not_its_own_is_elsewhere() {
        let place = Place {
            pc: 0,
            registers: &[],
            sp: 64,
            low: 4096,
            high: 8192,
            restorer: 0,
        };
        // SAFETY: nothing is read, as the stack pointer is outside.
        assert_eq!(unsafe { look(&place, &ranges()) }, Found::Elsewhere(64));
    }
}
