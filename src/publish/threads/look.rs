//! Whether a stopped thread is in what is to be vacated, or returns there. Linux.
//! Async-signal-safe.
//!
//! **What is looked at.** The program counter; the general registers, as one may hold a return
//! address, and that of a far jump the first byte of a stub; the program counters that signal
//! handlers saved, which are known by what the kernel saves next to them; and every word of the
//! stack from the stack pointer up to the thread's base, as a return address can be anywhere there.
//! That needs no frame pointers and overlooks nothing on that stack. A program counter counts
//! wherever it is; another word only where it is a return offset, as what copies or compares code
//! leaves addresses of it. What may be a [signed](crate::publish::signed) return address is
//! compared without its signature. A word that happens to be a return offset makes a thread count
//! as inside that is not.
//!
//! **What is not.** Other stacks: those of suspended coroutines, and the stack below an alternate
//! signal stack. A thread that is found on no stack known to be its own counts as
//! [`Finding::OtherStack`], which is no answer. A return address is never the first byte of a
//! range: sites and stubs do not start behind calls that return.

use crate::addr::CodeAddr;
use crate::interrupted::{self, RED_ZONE, STACK_POINTER_AT};
use crate::publish::Vacated;
use crate::publish::signed;

/// What was found of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finding {
    /// It is outside all ranges.
    Outside,
    /// Its program counter, now or after a signal handler, is this address.
    Executes(u64),
    /// It may return to this address.
    Returns(u64),
    /// It is on a stack that is not known: this is its stack pointer.
    OtherStack(u64),
}

/// Where a thread is: the state that is looked at.
pub(super) struct ThreadPlace<'a> {
    /// Its program counter.
    pub(super) pc: u64,
    /// Its general registers.
    pub(super) registers: &'a [u64],
    pub(super) sp: u64,
    /// The bounds of its stack.
    pub(super) low: u64,
    pub(super) high: u64,
}

fn inside(vacated: &[Vacated], at: u64) -> bool {
    vacated
        .iter()
        .any(|part| part.range().contains(CodeAddr::new(at)))
}

fn returns_into(vacated: &[Vacated], at: u64) -> bool {
    vacated
        .iter()
        .any(|part| part.is_return_offset(CodeAddr::new(at)))
}

/// What a register that holds this says of where its thread is, which executes other code.
fn held(vacated: &[Vacated], at: u64, strip: fn(u64) -> u64) -> Finding {
    let is_start = |part: &Vacated| part.range().start().get() == at;
    match returns_into(vacated, strip(at)) {
        true => Finding::Returns(strip(at)),
        // protection: stop-knows-stubs-in-registers
        false if vacated.iter().any(is_start) => Finding::Executes(at),
        false => Finding::Outside,
    }
}

/// Looks at a thread that executes nothing meanwhile.
///
/// # Safety
///
/// `low..high` is the stack of that thread, which is mapped from its stack pointer on, and the
/// thread is the one that calls, or is stopped.
pub(super) unsafe fn look(place: &ThreadPlace<'_>, vacated: &[Vacated]) -> Finding {
    // SAFETY: as the caller promises.
    unsafe { look_without(signed::strip, place, vacated) }
}

/// The same where signatures are taken off return addresses so.
///
/// # Safety
///
/// As for [`look`].
unsafe fn look_without(strip: fn(u64) -> u64, place: &ThreadPlace<'_>, vacated: &[Vacated]) -> Finding {
    // protection: grace-period-looks-at-the-counter
    if inside(vacated, place.pc) {
        return Finding::Executes(place.pc);
    }
    if vacated.is_empty() {
        return Finding::Outside;
    }
    // protection: grace-period-looks-at-registers
    let mut registers = place.registers.iter().map(|at| held(vacated, *at, strip));
    if let Some(found) = registers.find(|found| *found != Finding::Outside) {
        return found;
    }
    if !(place.low..place.high).contains(&place.sp) {
        // protection: grace-period-knows-the-stack
        return Finding::OtherStack(place.sp);
    }
    // The red zone holds no return address, but may hold one that is about to be jumped to.
    let mut at = place.sp.saturating_sub(RED_ZONE).max(place.low) & !7;
    while at.saturating_add(8) <= place.high {
        // SAFETY: an aligned word of the thread's stack, at or just below its stack pointer or above it.
        let word = unsafe { (at as *const u64).read_volatile() };
        // protection: signed-return-addresses-are-found
        let unsigned = strip(word);
        // protection: grace-period-walks-return-addresses
        if returns_into(vacated, unsigned) {
            return Finding::Returns(unsigned);
        }
        // The first byte of a range is nothing to return to, but may be where a handler interrupted the thread.
        // SAFETY: as above; the words around are checked against the bounds inside.
        // protection: grace-period-looks-into-interrupted-frames
        if inside(vacated, word) && unsafe { is_saved_counter(at, place) } {
            return Finding::Executes(word);
        }
        at += 8;
    }
    Finding::Outside
}

/// Whether the word at `at` is a program counter that a signal handler saved: the kernel saves with
/// it the stack pointer, which was above the handler's frame, and a state of user mode.
///
/// # Safety
///
/// `at` is an aligned word of the thread's stack, which is mapped from its stack pointer on.
unsafe fn is_saved_counter(at: u64, place: &ThreadPlace<'_>) -> bool {
    let word = |offset: isize| {
        let saved = at.checked_add_signed(8 * offset as i64)?;
        let is_stack = saved >= place.sp.max(place.low) && saved.checked_add(8)? <= place.high;
        // SAFETY: an aligned word between the thread's stack pointer and the end of its stack.
        is_stack.then(|| unsafe { (saved as *const u64).read_volatile() })
    };
    let above = word(STACK_POINTER_AT).is_some_and(|pointer| at < pointer && pointer <= place.high);
    above && interrupted::is_saved(word)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::addr::CodeRange;
    use crate::memory::testing::process::in_child;

    /// Of the first nothing is known; to the second, calls return at 0x2005.
    fn parts() -> [Vacated; 2] {
        let range = |at, len| CodeRange::new(CodeAddr::new(at), len).unwrap();
        [
            Vacated::anywhere(range(0x1000, 16)),
            Vacated::return_offset_at(range(0x2001, 7), [4]),
        ]
    }

    fn found(pc: u64, register: u64, stack: &[u64]) -> Finding {
        let low = stack.as_ptr() as u64;
        let place = ThreadPlace {
            pc,
            registers: &[register],
            sp: low,
            low,
            high: low + 8 * stack.len() as u64,
        };
        // SAFETY: the words are this thread's.
        unsafe { look(&place, &parts()) }
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
                Finding::Executes(pc)
            } else {
                Finding::Outside
            };
            assert_eq!(found(pc, 0, &[0; 4]), expected, "{pc:#x}");
        }
        assert_eq!(found(0, 0x1000, &[0; 4]), Finding::Executes(0x1000));
    }

    /// Registers and the stack hold addresses of code for many reasons; what is returned to is a
    /// return offset.
    #[test]
    fn of_other_words_than_counters_only_return_offsets_count() {
        for at in 0x2000..0x200a_u64 {
            let (register, word) = (found(0, at, &[0; 4]), found(0, 0, &[0, at, 0]));
            let (by_register, by_word) = match at {
                // Where a far jump may go.
                0x2001 => (Finding::Executes(at), Finding::Outside),
                0x2005 => (Finding::Returns(at), Finding::Returns(at)),
                _ => (Finding::Outside, Finding::Outside),
            };
            assert_eq!((register, word), (by_register, by_word), "{at:#x}");
        }
    }

    #[test]
    fn a_return_address_anywhere_on_the_stack_is_found() {
        for index in 0..40 {
            let mut stack = [7; 40];
            stack[index] = 0x1001;
            assert_eq!(found(0, 0, &stack), Finding::Returns(0x1001));
            stack[index] = 0x1000;
            assert_eq!(found(0, 0, &stack), Finding::Outside);
        }
    }

    /// As libraries of distributions leave it on stacks and in registers of AArch64.
    #[test]
    fn a_signed_return_address_is_found() {
        let strip = |word| signed::without(word, signed::MASK_48);
        let look = |register: u64, stack: &[u64]| {
            let low = stack.as_ptr() as u64;
            let place = ThreadPlace {
                pc: 0,
                registers: &[register],
                sp: low,
                low,
                high: low + 8 * stack.len() as u64,
            };
            // SAFETY: the words are this thread's.
            unsafe { look_without(strip, &place, &parts()) }
        };
        for signature in [0, 0x0001 << 48, 0x7f << 48, 0xff00 << 48, 0x3c55 << 48] {
            let to = 0x2005;
            assert_eq!(look(to | signature, &[0; 4]), Finding::Returns(to));
            assert_eq!(look(0, &[0, 0, to | signature, 0]), Finding::Returns(to));
            assert_eq!(look(0, &[0, 0, (to + 1) | signature, 0]), Finding::Outside);
        }
        // The native one takes nothing off what is not signed.
        assert_eq!(found(0, 0, &[0, 0x2005]), Finding::Returns(0x2005));
    }

    static FOUND: AtomicU64 = AtomicU64::new(0);

    /// Looks, from inside a handler, for where its thread was interrupted.
    extern "C" fn on_signal(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
        // SAFETY: the kernel passes a valid context.
        let context = unsafe { &*context.cast::<interrupted::Context>() };
        let pc = interrupted::counter(context);
        let here = 0_u64;
        let place = ThreadPlace {
            pc: 0,
            registers: &[],
            sp: (&raw const here) as u64,
            low: 0,
            high: interrupted::stack_pointer(context) + 256,
        };
        let look_for = |start: u64| {
            let part = Vacated::anywhere(CodeRange::new(CodeAddr::new(start), 4).unwrap());
            // SAFETY: this thread's stack, as far as frames are on it that were there before the signal.
            unsafe { look(&place, &[part]) }
        };
        let right = look_for(pc) == Finding::Executes(pc) && look_for(pc - 1) == Finding::Returns(pc);
        FOUND.store(1 + u64::from(right), Ordering::Relaxed);
    }

    #[test]
    fn where_a_signal_handler_interrupted_is_found_from_the_first_byte() {
        assert!(in_child(|| {
            let action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
            // SAFETY: all zeros is a valid action.
            let mut action = unsafe { action.assume_init() };
            action.sa_sigaction = on_signal as *const () as libc::sighandler_t;
            action.sa_flags = libc::SA_SIGINFO;
            // SAFETY: the handler lives as long as the process.
            unsafe { libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut()) };
            // SAFETY: sends a signal to this thread.
            unsafe { libc::raise(libc::SIGUSR1) };
            FOUND.load(Ordering::Relaxed) == 2
        }));
    }

    #[test]
    fn an_address_of_code_among_other_words_is_no_saved_counter() {
        let mut stack = [0; 64];
        let end = stack.as_ptr_range().end as u64;
        for index in 32..40 {
            stack.fill(0);
            stack[index] = 0x1000;
            stack[index + 1] = 16;
            stack[index.checked_add_signed(STACK_POINTER_AT).unwrap()] = end;
            assert_eq!(found(0, 0, &stack), Finding::Outside, "{index}");
        }
    }

    #[test]
    fn a_thread_on_a_stack_that_is_not_its_own_is_told_apart() {
        let place = ThreadPlace {
            pc: 0,
            registers: &[],
            sp: 64,
            low: 4096,
            high: 8192,
        };
        // SAFETY: nothing is read, as the stack pointer is outside.
        assert_eq!(unsafe { look(&place, &parts()) }, Finding::OtherStack(64));
    }
}
