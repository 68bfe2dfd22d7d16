//! A thread that steps through the site, one instruction at a time, which needs x86-64's trap flag.

use std::sync::atomic::AtomicU32;

use super::*;

static SITE: AtomicU64 = AtomicU64::new(0);
/// The offset at which the stepping thread waits, plus one; 0 while it runs.
static AT: AtomicU32 = AtomicU32::new(0);

extern "C" fn on_step(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid context.
    let context = unsafe { &*context.cast::<libc::ucontext_t>() };
    let pc = context.uc_mcontext.gregs[libc::REG_RIP as usize] as u64;
    let offset = pc.wrapping_sub(SITE.load(Ordering::SeqCst));
    if offset <= 32 {
        AT.store(offset as u32 + 1, Ordering::SeqCst);
        while AT.load(Ordering::SeqCst) != 0 && SITE.load(Ordering::SeqCst) != 0 {
            std::hint::spin_loop();
        }
    }
}

/// Calls the function with the trap flag set.
fn step(entry: u64, a: u64) -> u64 {
    let value: u64;
    // SAFETY: a function of two words; the handler of single steps is installed.
    unsafe {
        std::arch::asm!(
            "pushfq", "or dword ptr [rsp], 0x100", "popfq",
            "call {entry}",
            "pushfq", "and dword ptr [rsp], 0xfffffeff", "popfq",
            entry = in(reg) entry, in("rdi") a, in("rsi") 1_u64, out("rax") value, clobber_abi("C"),
        );
    }
    value
}

#[test]
fn a_thread_at_every_instruction_boundary_of_a_site() {
    let _alone = alone();
    // SAFETY: all zeros is a valid action.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = on_step as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO;
    // SAFETY: the handler lives as long as the process.
    assert_eq!(
        unsafe { libc::sigaction(libc::SIGTRAP, &raw const action, std::ptr::null_mut()) },
        0
    );
    let lab = Lab::new(WhenInside::Fail);
    lab.patch(1000, 3).unwrap();
    SITE.store(lab.site.addr().get(), Ordering::SeqCst);
    let (mut outcomes, mut by) = (Vec::new(), 1000);
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let _attached = lab.world.attach().unwrap();
            step(lab.entry, 7)
        });
        // It waits there no more, nor where it does now.
        let _release = Release(|| {
            SITE.store(0, Ordering::SeqCst);
            AT.store(0, Ordering::SeqCst);
        });
        while !thread.is_finished() {
            let at = AT.load(Ordering::SeqCst);
            if at == 0 {
                std::thread::yield_now();
                continue;
            }
            let offset = at - 1;
            outcomes.push((offset, lab.patch(by + 1, 1 + by % 4)));
            by += u64::from(outcomes.last().is_some_and(|(_, outcome)| outcome.is_ok()));
            AT.store(0, Ordering::SeqCst);
        }
        // It was patched once before the thread executed the site, and once after.
        assert_eq!(thread.join().unwrap(), 7 + 1001);
    });
    assert_eq!(by, 1002);
    for (offset, outcome) in &outcomes {
        // The handler of the test has the program counter on its stack, too: it is found as either.
        match outcome {
            Ok(()) => assert!([0, 32].contains(offset), "patched under a thread at {offset}"),
            Err(Error::ThreadInSite { offset: found, .. }) => assert_eq!(found.get(), *offset),
            Err(other) => panic!("{other}"),
        }
    }
    let boundaries: Vec<u32> = outcomes.iter().map(|(offset, _)| *offset).collect();
    println!("boundaries {boundaries:?}: patched at the first and behind the last, refused at the others");
    assert!(boundaries.len() >= 5 && boundaries[0] == 0 && boundaries.last() == Some(&32));
}
