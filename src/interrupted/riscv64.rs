//! RISC-V 64 (arch/riscv/include/uapi/asm/{sigcontext,ptrace}.h).

/// There is no red zone (RISC-V ELF psABI, integer calling convention).
pub(crate) const RED_ZONE: u64 = 0;
/// Words from the saved program counter to the saved stack pointer: pc, ra, sp.
pub(crate) const STACK_POINTER_AT: isize = 2;
/// What it raises.
pub(crate) const TRAP_SIGNALS: &[libc::c_int] = &[libc::SIGTRAP];

/// The program counter, which is where a register x0 would be.
pub(crate) fn counter(context: &libc::ucontext_t) -> u64 {
    context.uc_mcontext.__gregs[0]
}

/// Lets the thread go on at another address.
pub(crate) fn set_counter(context: &mut libc::ucontext_t, to: u64) {
    context.uc_mcontext.__gregs[0] = to;
}

/// The stack pointer.
pub(crate) fn stack_pointer(context: &libc::ucontext_t) -> u64 {
    context.uc_mcontext.__gregs[2]
}

/// Every register that may hold the target of a jump, and the program counter.
pub(crate) fn registers(context: &libc::ucontext_t) -> [u64; 32] {
    context.uc_mcontext.__gregs
}

/// Where the trap is, if a signal with this code is one: the counter stays at it, `ebreak` or
/// `c.ebreak`.
pub(crate) fn trapped_at(counter: u64, code: libc::c_int) -> Option<u64> {
    (code == libc::TRAP_BRKPT).then_some(counter)
}

/// The instruction that traps in place of the one at `at` that begins with `first`: `ebreak`
/// (unprivileged ISA, 2.8) for one of 32 bits, and `c.ebreak` (26.5) for a compressed one, and
/// where a word could not be written by one store.
pub(crate) fn trap(at: u64, first: u8) -> &'static [u8] {
    if first & 3 == 3 && at % 4 == 0 {
        &[0x73, 0x00, 0x10, 0x00]
    } else {
        &[0x02, 0x90]
    }
}

/// Whether the words around a saved program counter are those of a thread in user mode; `word`
/// reads the one so many words behind the counter.
pub(crate) fn is_saved(word: impl Fn(isize) -> Option<u64>) -> bool {
    let pointer: u64;
    // SAFETY: reads a register.
    unsafe { core::arch::asm!("mv {}, tp", out(reg) pointer, options(nomem, nostack, preserves_flags)) };
    // The thread pointer, which is this thread's.
    word(4) == Some(pointer)
}
