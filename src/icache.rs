//! Instruction cache maintenance on executed addresses, per architecture.

#[cfg(emulated)]
mod emulated;
#[cfg(target_arch = "powerpc64")]
pub(crate) mod powerpc64;

use crate::addr::CodeRange;

/// Whether [`maintain`] does anything: where it does not, nobody has to say what it is for.
pub(crate) const IS_MAINTAINED: bool = cfg!(any(
    test,
    emulated,
    not(any(target_arch = "x86_64", target_arch = "s390x"))
));

/// Makes the instruction cache agree with memory for a range, as seen at the executed addresses.
#[inline]
pub(crate) fn maintain(range: CodeRange) {
    #[cfg(test)]
    testing::note(range);
    #[cfg(not(any(target_arch = "x86_64", target_arch = "s390x")))]
    other::maintain(range);
    // x86-64 and SystemZ: caches are coherent by hardware, also with another mapping of the same
    // page.
    #[cfg(not(emulated))]
    let _ = range;
    #[cfg(emulated)]
    emulated::notice(range);
}

/// What has been maintained, for tests on machines whose caches need nothing.
#[cfg(test)]
pub(crate) mod testing {
    use std::cell::RefCell;
    use std::vec::Vec;

    use super::CodeRange;

    std::thread_local! {
        /// `None` while nobody wants to know: nothing may be allocated while a world is stopped.
        static NOTED: RefCell<Option<Vec<CodeRange>>> = const { RefCell::new(None) };
    }

    pub(super) fn note(range: CodeRange) {
        // A thread that ends may still give memory back.
        let _ = NOTED.try_with(|noted| noted.borrow_mut().as_mut().map(|noted| noted.push(range)));
    }

    /// The ranges that this thread maintains while it does the work.
    pub(crate) fn during<R>(work: impl FnOnce() -> R) -> (R, Vec<CodeRange>) {
        NOTED.replace(Some(Vec::new()));
        let result = work();
        (result, NOTED.take().unwrap())
    }
}

/// The architectures that need it.
#[cfg(not(any(target_arch = "x86_64", target_arch = "s390x")))]
mod other {
    #![allow(unsafe_code)]

    #[cfg(not(target_arch = "powerpc64"))]
    use super::CodeRange;
    #[cfg(not(target_arch = "powerpc64"))]
    use core::arch::asm;

    /// Cleans the data cache to the point of unification and invalidates the instruction cache, as
    /// far as CTR_EL0 says that either is needed (Arm ARM, B2.4.4 and D24.2.34). The register is
    /// read each time: it may differ between the cores of one machine.
    #[cfg(target_arch = "aarch64")]
    pub(super) fn maintain(range: CodeRange) {
        let ctr: u64;
        // SAFETY: Linux lets user mode read it.
        unsafe { asm!("mrs {}, ctr_el0", out(reg) ctr, options(nomem, nostack, preserves_flags)) };
        let line = |shift: u32| 4_u64 << ((ctr >> shift) & 15);
        if ctr & (1 << 28) == 0 {
            for at in lines(range, line(16)) {
                // SAFETY: cleaning a line of mapped memory changes nothing.
                unsafe { asm!("dc cvau, {}", in(reg) at, options(nostack, preserves_flags)) };
            }
        }
        // SAFETY: a barrier.
        unsafe { asm!("dsb ish", options(nostack, preserves_flags)) };
        if ctr & (1 << 29) == 0 {
            for at in lines(range, line(0)) {
                // SAFETY: invalidating an instruction line of mapped memory changes nothing.
                unsafe { asm!("ic ivau, {}", in(reg) at, options(nostack, preserves_flags)) };
            }
        }
        // SAFETY: a barrier.
        unsafe { asm!("dsb ish", options(nostack, preserves_flags)) };
    }

    #[cfg(target_arch = "powerpc64")]
    pub(super) use super::powerpc64::maintain;

    /// The system call, for all threads: the scheduler may move a thread between `fence.i` and its
    /// use.
    #[cfg(target_arch = "riscv64")]
    pub(super) fn maintain(range: CodeRange) {
        const RISCV_FLUSH_ICACHE: libc::c_long = 259;
        let (start, end) = (range.start().get(), range.end().get());
        // SAFETY: the call reads and writes no memory of the caller's.
        unsafe { libc::syscall(RISCV_FLUSH_ICACHE, start, end, 0_u64) };
        // SAFETY: a fence.
        unsafe { asm!("fence.i", options(nostack, preserves_flags)) };
    }

    #[cfg(target_arch = "aarch64")]
    fn lines(range: CodeRange, line: u64) -> impl Iterator<Item = u64> {
        let first = range.start().get() & !(line - 1);
        (first..range.end().get()).step_by(line as usize)
    }
}
