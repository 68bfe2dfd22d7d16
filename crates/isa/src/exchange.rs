//! Instructions that may be exchanged while threads execute them, as the assembler and the engine
//! know them.
//!
//! The checker has a rule of its own for each architecture and knows nothing of this.

use crate::Arch;

/// Whether an instruction that lies where one store writes it may be exchanged for another while
/// threads execute either: each of them executes the old one or the new one. The module of each
/// architecture names the rule in its manual.
///
/// ```
/// use patchpoint_isa::{Arch, exchange};
/// let (nop, jump) = ([0x1f, 0x20, 0x03, 0xd5], [0x04, 0, 0, 0x14]);
/// let branch_if_equal = [0x80, 0, 0, 0x54];
/// assert!(exchange::allowed(Arch::AArch64, &nop, &jump));
/// assert!(!exchange::allowed(Arch::AArch64, &nop, &branch_if_equal));
/// ```
#[must_use]
pub fn allowed(arch: Arch, old: &[u8], new: &[u8]) -> bool {
    arch.isa().exchangeable(old, new)
}

/// The instruction that traps and is no longer than any other: it may be put in place of the first
/// instruction of anything.
#[must_use]
pub fn trap(arch: Arch) -> &'static [u8] {
    arch.isa().trap()
}
