//! PowerPC64, either byte order (arch/powerpc/include/uapi/asm/{sigcontext,ptrace}.h).

/// What a leaf function may use below the stack pointer: 288 bytes with ELFv1, 512 with ELFv2 (ELFv2 ABI, 2.2.2.4).
pub(in crate::publish) const RED_ZONE: u64 = 512;
/// Words from the saved program counter to the saved stack pointer.
pub(in crate::publish) const STACK_POINTER_AT: isize = STACK as isize - COUNTER as isize;
/// What it raises.
pub(in crate::publish) const TRAP_SIGNALS: &[libc::c_int] = &[libc::SIGTRAP];

const STACK: usize = 1;
const COUNTER: usize = 32;
const COUNT_REGISTER: usize = 35;
const LINK: usize = 36;

fn register(context: &libc::ucontext_t, index: usize) -> u64 {
    let registers = &context.uc_mcontext.gp_regs;
    registers.get(index).copied().unwrap_or_default() as u64
}

/// The program counter.
pub(in crate::publish) fn counter(context: &libc::ucontext_t) -> u64 {
    register(context, COUNTER)
}

/// Lets the thread go on elsewhere.
pub(in crate::publish) fn set_counter(context: &mut libc::ucontext_t, to: u64) {
    if let Some(counter) = context.uc_mcontext.gp_regs.get_mut(COUNTER) {
        *counter = to;
    }
}

/// The stack pointer.
pub(in crate::publish) fn stack_pointer(context: &libc::ucontext_t) -> u64 {
    register(context, STACK)
}

/// Every register that may hold the target of a jump: the last two are CTR and LR.
pub(in crate::publish) fn registers(context: &libc::ucontext_t) -> [u64; 34] {
    core::array::from_fn(|index| match index {
        32 => register(context, COUNT_REGISTER),
        33 => register(context, LINK),
        general => register(context, general),
    })
}

/// Where the trap is, if a signal with this code is one: the counter stays at it.
pub(in crate::publish) fn trapped_at(counter: u64, code: libc::c_int) -> Option<u64> {
    (code == libc::TRAP_BRKPT).then_some(counter)
}

/// The instruction that traps in place of any other: `trap`, which is `tw 31,0,0` (Power ISA, book I, 3.3.11).
pub(in crate::publish) fn trap(_at: u64, _first: u8) -> &'static [u8] {
    const TRAP: [u8; 4] = 0x7fe0_0008_u32.to_ne_bytes();
    &TRAP
}

/// Whether the words around a saved program counter are those of a thread in user mode; `word` reads the one so many
/// words behind the counter.
pub(in crate::publish) fn is_saved(word: impl Fn(isize) -> u64) -> bool {
    // MSR: 64-bit mode and problem state (Power ISA, book III, 4.2.1).
    const USER: u64 = 1 << 63 | 1 << 14;
    word(1) & USER == USER
}
