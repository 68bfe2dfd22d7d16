//! PowerPC64, either byte order (arch/powerpc/include/uapi/asm/{ucontext,sigcontext,ptrace}.h).

use crate::invariant::OrAbort;

/// The beginning of the kernel's `ucontext`: the `libc` crate has none for musl.
#[repr(C)]
pub(crate) struct Context {
    uc_flags: u64,
    uc_link: *mut Context,
    uc_stack: libc::stack_t,
    pub(crate) uc_sigmask: libc::sigset_t,
    uc_mcontext: Machine,
}

/// The beginning of its `sigcontext`.
#[repr(C)]
struct Machine {
    unused: [u64; 4],
    signal: libc::c_int,
    padding: libc::c_int,
    handler: u64,
    oldmask: u64,
    regs: *mut u64,
    gp_regs: [u64; 48],
}

// The kernel's set of signals has 8 bytes, with room behind it for as many as a library's has.
const _: () = assert!(size_of::<libc::sigset_t>() == 128);
const _: () = assert!(core::mem::offset_of!(Context, uc_mcontext) == 168);
const _: () = assert!(core::mem::offset_of!(Machine, gp_regs) == 64);

#[cfg(target_env = "gnu")]
const _: () = {
    use core::mem::offset_of;
    assert!(offset_of!(Context, uc_sigmask) == offset_of!(libc::ucontext_t, uc_sigmask));
    assert!(offset_of!(Context, uc_mcontext) == offset_of!(libc::ucontext_t, uc_mcontext));
    assert!(offset_of!(Machine, gp_regs) == offset_of!(libc::mcontext_t, gp_regs));
};

/// What a leaf function may use below the stack pointer: 288 bytes with ELFv1, 512 with ELFv2
/// (ELFv2 ABI, 2.2.2.4).
pub(crate) const RED_ZONE: u64 = 512;
/// Words from the saved program counter to the saved stack pointer.
pub(crate) const STACK_POINTER_AT: isize = STACK as isize - COUNTER as isize;
/// What it raises.
pub(crate) const TRAP_SIGNALS: &[libc::c_int] = &[libc::SIGTRAP];

const STACK: usize = 1;
const COUNTER: usize = 32;
const COUNT_REGISTER: usize = 35;
const LINK: usize = 36;

/// The program counter.
pub(crate) fn counter(context: &Context) -> u64 {
    context.uc_mcontext.gp_regs[COUNTER]
}

/// Lets the thread go on at another address.
pub(crate) fn set_counter(context: &mut Context, to: u64) {
    context.uc_mcontext.gp_regs[COUNTER] = to;
}

/// The stack pointer.
pub(crate) fn stack_pointer(context: &Context) -> u64 {
    context.uc_mcontext.gp_regs[STACK]
}

/// Every register that may hold the target of a jump: the last two are CTR and LR.
pub(crate) fn registers(context: &Context) -> [u64; 34] {
    let all = &context.uc_mcontext.gp_regs;
    let first = all.first_chunk::<34>();
    let mut registers = *first.or_abort("the general registers are the first of more than so many");
    registers[32] = all[COUNT_REGISTER];
    registers[33] = all[LINK];
    registers
}

/// Where the trap is, if a signal with this code is one: the counter stays at it.
pub(crate) fn trapped_at(counter: u64, code: libc::c_int) -> Option<u64> {
    (code == libc::TRAP_BRKPT).then_some(counter)
}

/// The instruction that traps in place of any other: `trap`, which is `tw 31,0,0` (Power ISA, book
/// I, 3.3.11).
pub(crate) fn trap(_at: u64, _first: u8) -> &'static [u8] {
    const TRAP: [u8; 4] = 0x7fe0_0008_u32.to_ne_bytes();
    &TRAP
}

/// Whether the words around a saved program counter are those of a thread in user mode; `word`
/// reads the one so many words behind the counter.
pub(crate) fn is_saved(word: impl Fn(isize) -> Option<u64>) -> bool {
    // MSR: 64-bit mode and problem state (Power ISA, book III, 4.2.1).
    const USER: u64 = 1 << 63 | 1 << 14;
    word(1).is_some_and(|state| state & USER == USER)
}
