//! Serializing the core that runs this.
//!
//! After a write through another mapping, x86-64 asks for a serializing instruction before the new
//! bytes are executed (Intel SDM volume 3, 9.1.3; AMD APM volume 2, 7.6.1). `serialize` is one, and
//! cheap where it exists. `iretq` is one everywhere in user mode, unless a shadow stack is on, in
//! which the return would have to be forged. `cpuid` is one everywhere, but in a virtual machine it
//! costs microseconds, as the hypervisor emulates it.

#![allow(unsafe_code)]

use std::fmt;

/// How this machine serializes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Serializer {
    /// The `serialize` instruction.
    Serialize,
    /// `iretq` to the next instruction.
    Iret,
    /// `cpuid`.
    Cpuid,
    /// `isb` (AArch64), `isync` (PowerPC), `bcr 15,0` (SystemZ), `fence.i` (RISC-V).
    Native,
}

impl fmt::Display for Serializer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Serialize => "serialize",
            Self::Iret => "iretq",
            Self::Cpuid => "cpuid",
            Self::Native => "the architecture's instruction",
        })
    }
}

/// Makes this core discard every instruction that it has already fetched.
///
/// A runtime calls it on each thread that resumes after a stop (see
/// [`Resumption::Serializes`](super::Resumption::Serializes)). It is async-signal-safe.
#[inline]
pub fn serialize() {
    #[cfg(test)]
    tests::note();
    imp::serialize();
}

impl Serializer {
    /// What [`serialize`] uses on this machine. Chosen once; with a shadow stack on a thread,
    /// `cpuid` is used there in place of `iretq`.
    #[must_use]
    pub fn of_this_machine() -> Self {
        imp::chosen()
    }
}

#[cfg(target_arch = "x86_64")]
mod imp {
    use super::Serializer;
    use core::arch::asm;
    use std::sync::atomic::{AtomicU8, Ordering};

    const UNKNOWN: u8 = 0;
    const SERIALIZE: u8 = 1;
    const IRET: u8 = 2;

    /// Not a `OnceLock`: a signal handler may be the first to ask, and asking twice does no harm.
    static CHOSEN: AtomicU8 = AtomicU8::new(UNKNOWN);

    #[inline]
    fn choice() -> u8 {
        match CHOSEN.load(Ordering::Relaxed) {
            UNKNOWN => ask(),
            known => known,
        }
    }

    /// Leaf 7, EDX bit 14: SERIALIZE (Intel SDM volume 2, CPUID).
    #[cold]
    fn ask() -> u8 {
        let (highest, _) = cpuid(0);
        let has_serialize = highest >= 7 && cpuid(7).1 & (1 << 14) != 0;
        let choice = if has_serialize { SERIALIZE } else { IRET };
        CHOSEN.store(choice, Ordering::Relaxed);
        choice
    }

    pub(super) fn chosen() -> Serializer {
        match choice() {
            SERIALIZE => Serializer::Serialize,
            _ if shadow_stack() => Serializer::Cpuid,
            _ => Serializer::Iret,
        }
    }

    #[inline]
    pub(super) fn serialize() {
        if choice() == SERIALIZE {
            // SAFETY: the processor has the instruction, which changes no register, flag or memory. It is
            // written as bytes as older assemblers do not know it.
            unsafe { asm!(".byte 0x0f, 0x01, 0xe8", options(nostack, preserves_flags)) };
        } else if shadow_stack() {
            cpuid(0);
        } else {
            iret();
        }
    }

    /// Whether this thread has a shadow stack. `rdsspq` leaves its operand alone where there is
    /// none.
    #[inline]
    fn shadow_stack() -> bool {
        let pointer: u64;
        // SAFETY: reads a register, and is a nop on processors without shadow stacks. As bytes: `rdsspq rax`.
        unsafe {
            asm!(".byte 0xf3, 0x48, 0x0f, 0x1e, 0xc8", inout("rax") 0_u64 => pointer, options(nostack, preserves_flags));
        }
        pointer != 0
    }

    /// EAX and EDX of a leaf (subleaf 0). It serializes, for which the intrinsic is no good, as
    /// that may be moved.
    #[inline]
    pub(super) fn cpuid(leaf: u32) -> (u32, u32) {
        let (eax, edx);
        // SAFETY: every x86-64 processor has it. rbx, which the compiler keeps for itself, is saved around
        // it.
        unsafe {
            asm!(
                "mov {saved}, rbx", "cpuid", "mov rbx, {saved}",
                saved = out(reg) _, inout("eax") leaf => eax, inout("ecx") 0_u32 => _, out("edx") edx,
                options(nostack, preserves_flags),
            );
        }
        (eax, edx)
    }

    /// Returns, as from an interrupt, to the next instruction with the same stack and flags.
    #[inline]
    pub(super) fn iret() {
        // SAFETY: without `nostack` the compiler keeps the red zone out of the way. `iretq` pops the five
        // words pushed here, and with them the flags and the stack pointer of before.
        unsafe {
            asm!(
                "mov {stack}, rsp",
                "mov {word:e}, ss",
                "push {word}",
                "push {stack}",
                "pushfq",
                "mov {word:e}, cs",
                "push {word}",
                "lea {word}, [rip + 2f]",
                "push {word}",
                "iretq",
                "2:",
                stack = out(reg) _,
                word = out(reg) _,
                options(preserves_flags),
            );
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod imp {
    use super::Serializer;
    #[cfg(not(target_arch = "powerpc64"))]
    use core::arch::asm;

    pub(super) fn chosen() -> Serializer {
        Serializer::Native
    }

    #[inline]
    pub(super) fn serialize() {
        #[cfg(target_arch = "aarch64")]
        // SAFETY: synchronizes the context of this core, and changes nothing else.
        unsafe {
            asm!("dsb ish", "isb", options(nostack, preserves_flags))
        };
        #[cfg(target_arch = "powerpc64")]
        crate::icache::powerpc64::serialize();
        #[cfg(target_arch = "s390x")]
        // SAFETY: as above.
        unsafe {
            asm!("bcr 15, 0", options(nostack, preserves_flags))
        };
        #[cfg(target_arch = "riscv64")]
        // SAFETY: as above.
        unsafe {
            asm!("fence.i", options(nostack, preserves_flags))
        };
    }
}

/// How many times this thread has serialized. That it has not is nothing that a test can see
/// otherwise.
#[cfg(test)]
pub(crate) fn count() -> u64 {
    tests::COUNT.get()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::vec::Vec;

    std::thread_local! {
        pub(super) static COUNT: Cell<u64> = const { Cell::new(0) };
    }

    pub(super) fn note() {
        COUNT.set(COUNT.get() + 1);
    }

    #[test]
    fn serializing_returns_with_everything_as_it_was() {
        let before: Vec<u64> = (0..64).collect();
        for _ in 0..1000 {
            serialize();
        }
        assert_eq!(before, (0..64).collect::<Vec<u64>>());
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn the_other_ways_work_too() {
        imp::iret();
        assert!(imp::cpuid(0).0 > 0);
    }
}
