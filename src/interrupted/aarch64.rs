//! AArch64 (arch/arm64/include/uapi/asm/sigcontext.h).

/// AAPCS64 has no red zone (6.4.5.1); Darwin's 128 bytes do no harm.
pub(crate) const RED_ZONE: u64 = 128;
/// Words from the saved program counter to the saved stack pointer.
pub(crate) const STACK_POINTER_AT: isize = -1;
/// What it raises.
pub(crate) const TRAP_SIGNALS: &[libc::c_int] = &[libc::SIGTRAP];

/// The program counter.
pub(crate) fn counter(context: &libc::ucontext_t) -> u64 {
    context.uc_mcontext.pc
}

/// Lets the thread go on at another address.
pub(crate) fn set_counter(context: &mut libc::ucontext_t, to: u64) {
    context.uc_mcontext.pc = to;
}

/// The stack pointer.
pub(crate) fn stack_pointer(context: &libc::ucontext_t) -> u64 {
    context.uc_mcontext.sp
}

/// Every register that may hold the target of a jump; the last is the link register.
pub(crate) fn registers(context: &libc::ucontext_t) -> [u64; 31] {
    context.uc_mcontext.regs
}

/// Where the trap is, if a signal with this code is one: the counter stays at it.
pub(crate) fn trapped_at(counter: u64, code: libc::c_int) -> Option<u64> {
    (code == libc::TRAP_BRKPT).then_some(counter)
}

/// The instruction that traps in place of any other: `brk #0` (Arm ARM, C6.2.44).
pub(crate) fn trap(_at: u64, _first: u8) -> &'static [u8] {
    const TRAP: [u8; 4] = 0xd420_0000_u32.to_le_bytes();
    &TRAP
}

/// Whether the words around a saved program counter are those of a thread in user mode; `word`
/// reads the one so many words behind the counter.
pub(crate) fn is_saved(word: impl Fn(isize) -> Option<u64>) -> bool {
    // PSTATE: of EL0, in 64-bit state, nothing masked (Arm ARM, C5.2.19). A word of zeros is one, too, so another mark is
    // asked for: behind it, after padding, the first record is that of the vector registers (Linux:
    // arch/arm64/include/uapi/asm/sigcontext.h, and the order in arch/arm64/kernel/signal.c).
    const FPSIMD_MAGIC: u32 = 0x4650_8001;
    let is_user = |state: u64| state & 0xffff_ffff_000f_e3ff == 0;
    word(1).is_some_and(is_user) && word(3).is_some_and(|record| record as u32 == FPSIMD_MAGIC)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What lies on a stack by chance: an address in a site, with zeros behind it.
    #[test]
    fn zeros_are_no_saved_state() {
        assert!(!is_saved(|_| Some(0)));
        assert!(!is_saved(|_| None));
        let user = |magic: u64| move |offset: isize| Some(if offset == 3 { magic } else { 0x6000_0000 });
        assert!(is_saved(user(0x210_4650_8001)));
        assert!(!is_saved(user(0x210_4650_8002)));
        assert!(!is_saved(|_| Some(0x210_4650_8001)));
    }
}
