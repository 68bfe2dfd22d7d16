//! What a signal handler finds of the thread that it interrupted, per architecture. Linux.
//!
//! Each file tells, of the `ucontext_t` that the kernel makes on the stack: the program counter,
//! the stack pointer, the registers that may hold the target of a jump; how a saved program counter
//! is known on a stack; and which signal the instruction raises that traps, and where the program
//! counter is then.

#![allow(unsafe_code)]

#[cfg_attr(target_arch = "x86_64", path = "x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
#[cfg_attr(target_arch = "powerpc64", path = "powerpc64.rs")]
#[cfg_attr(target_arch = "s390x", path = "s390x.rs")]
#[cfg_attr(target_arch = "riscv64", path = "riscv64.rs")]
mod which;

pub(super) use which::{
    RED_ZONE, STACK_POINTER_AT, TRAP_SIGNALS, counter, is_saved, registers, set_counter, stack_pointer, trap,
    trapped_at,
};

/// What the kernel has put on the stack of a thread that a signal interrupted.
#[cfg(not(target_arch = "powerpc64"))]
pub(super) use libc::ucontext_t as Context;
#[cfg(target_arch = "powerpc64")]
pub(super) use which::Context;

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::memory::testing::process::in_child;

    static FOUND: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];

    extern "C" fn on_signal(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
        // SAFETY: the kernel passes a valid context.
        let context = unsafe { &*context.cast::<Context>() };
        FOUND[0].store(counter(context), Ordering::Relaxed);
        FOUND[1].store(stack_pointer(context), Ordering::Relaxed);
        let here = registers(context).into_iter().filter(|register| *register != 0);
        FOUND[2].store(here.count() as u64, Ordering::Relaxed);
    }

    #[test]
    fn the_interrupted_thread_is_where_it_was() {
        assert!(in_child(|| {
            let action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
            // SAFETY: all zeros is a valid action.
            let mut action = unsafe { action.assume_init() };
            action.sa_sigaction = on_signal as *const () as libc::sighandler_t;
            action.sa_flags = libc::SA_SIGINFO;
            // SAFETY: the handler lives as long as the process.
            unsafe { libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut()) };
            let here = 0_u64;
            // SAFETY: sends a signal to this thread.
            unsafe { libc::raise(libc::SIGUSR1) };
            let [pc, sp, registers] = FOUND.each_ref().map(|found| found.load(Ordering::Relaxed));
            // `raise` is deeper in the same stack, and its code is in a mapping that can be
            // executed.
            let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
            let executable = maps.lines().filter(|line| line.contains(" r-x")).any(|line| {
                let bounds = line.split(' ').next().and_then(|range| range.split_once('-'));
                let parse = |text| u64::from_str_radix(text, 16).unwrap();
                bounds.is_some_and(|(from, to)| (parse(from)..parse(to)).contains(&pc))
            });
            let here = (&raw const here) as u64;
            executable && sp <= here && here - sp < 1 << 16 && registers > 2
        }));
    }

    #[test]
    fn the_stack_pointer_is_saved_where_it_is_looked_for() {
        let context = std::mem::MaybeUninit::<Context>::zeroed();
        // SAFETY: all zeros is a valid context.
        let mut context = unsafe { context.assume_init() };
        set_counter(&mut context, 0x1234_5678);
        assert_eq!(counter(&context), 0x1234_5678);
        let start = (&raw mut context).cast::<u64>();
        let words = size_of::<Context>() / 8;
        // SAFETY: all words of the context, which nothing else refers to meanwhile.
        let words = unsafe { std::slice::from_raw_parts_mut(start, words) };
        let at = words.iter().position(|word| *word == 0x1234_5678).unwrap();
        words[at.checked_add_signed(STACK_POINTER_AT).unwrap()] = 0x9876;
        assert_eq!(stack_pointer(&context), 0x9876);
    }
}
