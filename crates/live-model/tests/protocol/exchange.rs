//! That the model's rules of exchange are those by which the engine exchanges instructions.

use patchpoint_isa::{Arch, exchange};

/// What a gate holds on x86-64: a nop, a jump; and calls among each other.
#[test]
fn gates_of_x86_64_may_be_exchanged() {
    let (nop, jump) = ([0x0f, 0x1f, 0x44, 0, 0], [0xe9, 1, 2, 3, 4]);
    let other = [0xe9, 5, 6, 7, 0];
    for (old, new) in [(nop, jump), (jump, other), (jump, nop)] {
        assert!(exchange::allowed(Arch::X86_64, &old, &new));
    }
    assert_eq!(exchange::trap(Arch::X86_64).len(), 1, "the trap is one byte");
}

/// What a gate holds on AArch64, and what settled code begins with, is one of the list; what is
/// behind it is not.
#[test]
fn gates_of_aarch64_may_be_exchanged() {
    let [nop, jump, load] = [0xd503_201f_u32, 0x1400_0004, 0xf940_0000].map(u32::to_le_bytes);
    for (old, new) in [(nop, jump), (jump, nop), (jump, jump)] {
        assert!(exchange::allowed(Arch::AArch64, &old, &new));
    }
    for (old, new) in [(jump, load), (load, jump), (load, nop)] {
        assert!(!exchange::allowed(Arch::AArch64, &old, &new));
    }
}
