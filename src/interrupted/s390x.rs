//! SystemZ (arch/s390/include/uapi/asm/{sigcontext,ucontext}.h).

/// There is no red zone (ELF ABI supplement, 1.2.2).
pub(crate) const RED_ZONE: u64 = 0;
/// Words from the saved program counter to the saved stack pointer: the counter is in front of the
/// 16 general registers.
pub(crate) const STACK_POINTER_AT: isize = 16;
/// What it raises: the second under a debugger (arch/s390/kernel/traps.c, `illegal_op`).
pub(crate) const TRAP_SIGNALS: &[libc::c_int] = &[libc::SIGILL, libc::SIGTRAP];

const STACK: usize = 15;
/// `ILL_ILLOPC`; `TRAP_BRKPT` has the same number.
const ILLEGAL_OPERATION: libc::c_int = 1;

/// The program counter.
pub(crate) fn counter(context: &libc::ucontext_t) -> u64 {
    context.uc_mcontext.psw.addr
}

/// Lets the thread go on at another address.
pub(crate) fn set_counter(context: &mut libc::ucontext_t, to: u64) {
    context.uc_mcontext.psw.addr = to;
}

/// The stack pointer.
pub(crate) fn stack_pointer(context: &libc::ucontext_t) -> u64 {
    context.uc_mcontext.gregs[STACK]
}

/// Every register that may hold the target of a jump.
pub(crate) fn registers(context: &libc::ucontext_t) -> [u64; 16] {
    context.uc_mcontext.gregs
}

/// Where the trap is, if a signal with this code is one: the counter is behind it.
pub(crate) fn trapped_at(counter: u64, code: libc::c_int) -> Option<u64> {
    (code == ILLEGAL_OPERATION).then(|| counter.wrapping_sub(2))
}

/// The instruction that traps in place of any other: an operation code that is invalid for good and
/// that Linux takes for a breakpoint, of the least length.
pub(crate) fn trap(_at: u64, _first: u8) -> &'static [u8] {
    &[0x00, 0x01]
}

/// Whether the words around a saved program counter are those of a thread in user mode; `word`
/// reads the one so many words behind the counter.
pub(crate) fn is_saved(word: impl Fn(isize) -> Option<u64>) -> bool {
    // PSW: problem state, 64-bit addressing (Principles of Operation, 4-5).
    const USER: u64 = 1 << 48 | 1 << 32 | 1 << 31;
    word(-1).is_some_and(|state| state & USER == USER)
}
