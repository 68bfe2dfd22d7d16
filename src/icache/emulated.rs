//! Telling qemu-user of changed code. Compiled only with `--cfg emulated`, as asm-tests/cross.sh
//! does.
//!
//! **Problem.** It takes no notice of writes through another mapping, of cache maintenance, or of a
//! protection that is set and was that before; it translates anew what has been moved. But it moves
//! pages by first taking them away, and a thread that looks for its next instruction there at that
//! moment dies by SIGSEGV.
//!
//! **Approach.** The pages are moved to where they are. A thread that faults because its next
//! instruction was not there tries again, until it has done so often that nothing can have been
//! there: then whoever handled the signal before gets it.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;

use crate::addr::CodeRange;
use crate::interrupted;

/// The bytes of the longest instruction, which may begin on one page and end on the next: SystemZ's.
const LONGEST: u64 = 6;

/// How often a thread tries again to execute one instruction: for some seconds.
const PATIENCE: u32 = 1_000_000;

thread_local! {
    /// Where the thread faulted last, and how often there, one after the other.
    static FAULTS: Cell<(u64, u32)> = const { Cell::new((0, 0)) };
}

/// Makes it translate the pages of a range anew.
pub(super) fn notice(range: CodeRange) {
    survive();
    let page = page();
    let start = range.start().get() & !(page - 1);
    let len = (range.end().get().next_multiple_of(page) - start) as usize;
    // SAFETY: a mapping that keeps its size and may not move stays what it is.
    unsafe { libc::mremap(start as *mut libc::c_void, len, len, 0) };
}

fn page() -> u64 {
    // SAFETY: takes a number.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as u64 }
}

/// Who handled the signal before.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// Installs the handler, once.
fn survive() {
    BEFORE.get_or_init(|| {
        let action = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: all zeros is a valid action: default disposition, empty mask.
        let mut action = unsafe { action.assume_init() };
        let mut before = action;
        action.sa_sigaction = on_fault as *const () as libc::sighandler_t;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: the handler is async-signal-safe and lives as long as the process.
        unsafe { libc::sigaction(libc::SIGSEGV, &raw const action, &raw mut before) };
        before
    });
}

/// Lets the thread execute the same instruction again: with this handler, or with the one before.
extern "C" fn on_fault(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid info and a valid context to a handler with SA_SIGINFO.
    let (at, context) = unsafe { ((*info).si_addr() as u64, &*context.cast::<interrupted::Context>()) };
    let counter = interrupted::counter(context);
    // SystemZ tells only the page, and PowerPC no address where it misses an instruction.
    let is_untold = cfg!(target_arch = "powerpc64") && at == 0;
    let ends = [counter, counter + LONGEST - 1];
    let is_fetch = is_untold || ends.iter().any(|end| at / page() == end / page());
    if is_fetch && FAULTS.with(|faults| again(faults, counter)) {
        return;
    }
    let before = BEFORE.get().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: puts back what was there.
    unsafe { libc::sigaction(signal, before, ptr::null_mut()) };
}

/// Notes one more fault, and says whether there may be something by now.
fn again(faults: &Cell<(u64, u32)>, counter: u64) -> bool {
    let (last, times) = faults.get();
    let times = if last == counter { times + 1 } else { 0 };
    faults.set((counter, times));
    times < PATIENCE
}
