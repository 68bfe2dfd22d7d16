//! x86-64 (arch/x86/include/uapi/asm/sigcontext.h).

use crate::invariant::OrAbort;

/// The red zone of the System V ABI: what a leaf function may use below the stack pointer, in
/// bytes.
pub(crate) const RED_ZONE: u64 = 128;
/// Words from the saved program counter to the saved stack pointer.
pub(crate) const STACK_POINTER_AT: isize = -1;
/// What it raises.
pub(crate) const TRAP_SIGNALS: &[libc::c_int] = &[libc::SIGTRAP];

/// The general registers up to rcx are in front of rsp.
const GENERAL: usize = STACK;
const STACK: usize = libc::REG_RSP as usize;
const COUNTER: usize = libc::REG_RIP as usize;

/// The program counter.
pub(crate) fn counter(context: &libc::ucontext_t) -> u64 {
    context.uc_mcontext.gregs[COUNTER] as u64
}

/// Lets the thread go on at another address.
pub(crate) fn set_counter(context: &mut libc::ucontext_t, to: u64) {
    context.uc_mcontext.gregs[COUNTER] = to as i64;
}

/// The stack pointer.
pub(crate) fn stack_pointer(context: &libc::ucontext_t) -> u64 {
    context.uc_mcontext.gregs[STACK] as u64
}

/// Every register that may hold the target of a jump.
pub(crate) fn registers(context: &libc::ucontext_t) -> [u64; GENERAL] {
    let general = context.uc_mcontext.gregs.first_chunk::<GENERAL>();
    let general = general.or_abort("the general registers are the first");
    general.map(|register| register as u64)
}

/// Where the trap is, if a signal with this code is one: the counter is behind it, and its code is
/// `SI_KERNEL`. What was sent by kill or by single steps is none.
pub(crate) fn trapped_at(counter: u64, code: libc::c_int) -> Option<u64> {
    // protection: single-steps-are-not-swallowed
    (code == libc::SI_KERNEL).then(|| counter.wrapping_sub(1))
}

/// The instruction that traps in place of any other: `int3` (Intel SDM volume 2, INT3).
pub(crate) fn trap(_at: u64, _first: u8) -> &'static [u8] {
    &[0xcc]
}

/// Whether the words around a saved program counter are those of a thread in user mode; `word`
/// reads the one so many words behind the counter.
pub(crate) fn is_saved(word: impl Fn(isize) -> Option<u64>) -> bool {
    // RFLAGS (Intel SDM volume 1, 3.4.3): bit 1 is always set; 3, 5, 15 and those from 22 on never.
    word(1).is_some_and(|flags| flags & 0xffff_ffff_ffc0_802a == 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A single step, a watchpoint, and a signal that was sent may come where a trap is before
    /// the counter.
    #[test]
    fn only_a_breakpoint_is_one() {
        assert_eq!(trapped_at(0x1001, libc::SI_KERNEL), Some(0x1000));
        for code in [
            libc::TRAP_TRACE,
            libc::TRAP_BRANCH,
            libc::TRAP_HWBKPT,
            libc::SI_USER,
            libc::SI_TKILL,
        ] {
            assert_eq!(trapped_at(0x1001, code), None, "{code}");
        }
    }
}
