//! Traps that are executed, in code made by hand: a function whose first instructions are the site,
//! and an exit stub.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::vec::Vec;

use super::*;
use crate::addr::{CodeRange, Len};
use crate::memory::testing::host_code::{HOST, pointer};
use crate::memory::testing::process::in_child;
use crate::memory::{Arena, CodeMemory, PlacedSegments, Reach, SegmentKind, SegmentNeed};
use crate::publish::{Level, Publisher};

mod profiled;

type Function = extern "C" fn(u64, u64, u64, u64, u64, u64) -> u64;

struct TestCode {
    placed: PlacedSegments,
    site: CodeAddr,
    exit_stub: CodeAddr,
    /// A trap that is nobody's, and a return.
    foreign: CodeAddr,
}

impl TestCode {
    fn new() -> Self {
        let need = SegmentNeed {
            kind: SegmentKind::Code,
            len: 256,
            align: 64,
        };
        let mut placement = Arena::default().place(&[need], Reach::Anywhere).unwrap();
        let start = placement.segments()[0].range.start();
        let at = |offset| start.plus(Len::new(offset)).unwrap();
        // The site, some nops, a return; and an exit stub that adds up what the caller passed.
        let function = [HOST.increment, &HOST.nop.repeat(20), HOST.ret].concat();
        placement.fill(start, &function).unwrap();
        placement.fill(at(128), HOST.sum).unwrap();
        placement.fill(at(192), HOST.trap).unwrap();
        Self {
            placed: placement.finalize().unwrap(),
            site: start,
            exit_stub: at(128),
            foreign: at(192),
        }
    }

    fn call(&self) -> u64 {
        call(self.site)
    }

    fn arm(&self, traps: &Traps) {
        let memory = self.placed.memory();
        // SAFETY: the exit stub takes what the function does, and only this code's owner writes.
        unsafe { traps.arm(&memory, self.site, self.exit_stub) }.unwrap();
        self.publish();
    }

    fn disarm(&self) {
        let memory = self.placed.memory();
        let mut trapped = [0; 8];
        memory.read(self.site, &mut trapped).unwrap();
        let mut original = trapped;
        original[..HOST.increment.len()].copy_from_slice(HOST.increment);
        memory.exchange(self.site, trapped, original).unwrap();
        self.publish();
    }

    fn publish(&self) {
        let site = CodeRange::new(self.site, 8).unwrap();
        Publisher::new().publish(&[site], Level::Immediate).unwrap();
    }
}

fn call(at: CodeAddr) -> u64 {
    // SAFETY: code of a function of that type, or a trap and a return.
    let function: Function = unsafe { std::mem::transmute(pointer(at)) };
    function(1, 20, 300, 4000, 50_000, 600_000)
}

/// What a trap raises.
const SIGNAL: libc::c_int = interrupted::TRAP_SIGNALS[0];

const OLD: u64 = 2;
const NEW: u64 = 654_321;

/// The signal that a child died of, or 0.
fn died_of(work: impl FnOnce()) -> i32 {
    // SAFETY: the child uses what is async-signal-safe or works after fork with glibc, and leaves.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(i32::from(done.is_err())) };
    }
    let mut status = 0;
    // SAFETY: the child is ours.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    if libc::WIFSIGNALED(status) {
        return libc::WTERMSIG(status);
    }
    assert_eq!(libc::WEXITSTATUS(status), 0);
    0
}

static SEEN: AtomicU64 = AtomicU64::new(0);

extern "C" fn plain(_signal: libc::c_int) {
    SEEN.fetch_add(1, Ordering::Relaxed);
}

extern "C" fn with_info(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    assert!(interrupted::TRAP_SIGNALS.contains(&signal) && !info.is_null() && !context.is_null());
    SEEN.fetch_add(100, Ordering::Relaxed);
    // SAFETY: what the kernel passed.
    if !HOST.passes_traps && unsafe { (*info).si_code } > 0 {
        // SAFETY: as above; nothing else refers to it.
        let context = unsafe { &mut *context.cast::<interrupted::Context>() };
        interrupted::set_counter(context, interrupted::counter(context) + 4);
    }
}

fn handle(handler: libc::sighandler_t, flags: libc::c_int) {
    let action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: all zeros is a valid action.
    let mut action = unsafe { action.assume_init() };
    (action.sa_sigaction, action.sa_flags) = (handler, flags);
    for signal in interrupted::TRAP_SIGNALS {
        // SAFETY: the handlers of these tests live as long as the process.
        let done = unsafe { libc::sigaction(*signal, &raw const action, std::ptr::null_mut()) };
        assert_eq!(done, 0);
    }
}

fn raise() {
    // SAFETY: sends a signal to this thread.
    unsafe { libc::raise(SIGNAL) };
}

#[test]
fn a_trap_goes_to_its_exit_stub_with_all_registers_and_back_when_it_is_cleared() {
    let code = TestCode::new();
    assert_eq!(code.call(), OLD);
    let traps = Traps::install().unwrap();
    code.arm(traps);
    assert_eq!(traps.exit_stub(code.site), Some(code.exit_stub));
    let before = chain::taken();
    assert_eq!(code.call(), NEW);
    assert!(chain::taken() > before);
    code.disarm();
    traps.clear(code.site);
    assert_eq!((code.call(), traps.exit_stub(code.site)), (OLD, None));
}

/// Ours, as a handler found it that was installed after it.
static OURS: AtomicU64 = AtomicU64::new(0);

extern "C" fn hands_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    SEEN.fetch_add(1000, Ordering::Relaxed);
    let ours = OURS.load(Ordering::Relaxed) as usize;
    // SAFETY: what `sigaction` has told, of a handler with SA_SIGINFO.
    let ours: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
        unsafe { std::mem::transmute(ours) };
    ours(signal, info, context);
}

#[test]
fn a_handler_that_came_after_ours_and_hands_on_to_it_is_not_handed_on_to() {
    assert!(in_child(|| {
        chain::forget();
        handle(with_info as *const () as libc::sighandler_t, libc::SA_SIGINFO);
        Traps::install().unwrap();
        let found = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: all zeros is a valid action.
        let mut found = unsafe { found.assume_init() };
        // SAFETY: asks only.
        unsafe { libc::sigaction(SIGNAL, std::ptr::null(), &raw mut found) };
        OURS.store(found.sa_sigaction as u64, Ordering::Relaxed);
        handle(hands_on as *const () as libc::sighandler_t, libc::SA_SIGINFO);
        Traps::install().unwrap();
        SEEN.store(0, Ordering::Relaxed);
        raise();
        SEEN.load(Ordering::Relaxed) == 1100
    }));
}

#[test]
fn a_write_that_is_refused_leaves_no_trap() {
    let (code, other) = (TestCode::new(), TestCode::new());
    let traps = Traps::install().unwrap();
    // SAFETY: refused, as the memory is another's.
    assert!(unsafe { traps.arm(&other.placed.memory(), code.site, code.exit_stub) }.is_err());
    assert_eq!((traps.exit_stub(code.site), code.call()), (None, OLD));
}

#[test]
fn what_is_not_ours_goes_to_the_handler_that_was_there() {
    for (handler, flags, each) in [
        (plain as *const () as libc::sighandler_t, 0, 1),
        (
            with_info as *const () as libc::sighandler_t,
            libc::SA_SIGINFO,
            100,
        ),
    ] {
        assert!(in_child(|| {
            chain::forget();
            handle(handler, flags);
            let code = TestCode::new();
            code.arm(Traps::install().unwrap());
            SEEN.store(0, Ordering::Relaxed);
            // Where the counter stays at a trap, a handler that cannot move it never gets past.
            let passes = HOST.passes_traps || flags & libc::SA_SIGINFO != 0;
            let trap = || {
                if passes {
                    call(code.foreign);
                } else {
                    raise();
                }
            };
            trap();
            raise();
            Traps::install().unwrap();
            trap();
            // And ours does not go there.
            let new = code.call();
            SEEN.load(Ordering::Relaxed) == 3 * each && new == NEW
        }));
    }
}

#[test]
fn without_a_handler_before_a_foreign_breakpoint_kills() {
    let dies = |before: libc::sighandler_t, work: &dyn Fn(&TestCode)| {
        died_of(|| {
            chain::forget();
            handle(before, 0);
            let code = TestCode::new();
            code.arm(Traps::install().unwrap());
            assert_eq!(code.call(), NEW);
            work(&code);
        })
    };
    let breakpoint = |code: &TestCode| assert_ne!(call(code.foreign), OLD);
    let raise = |_: &TestCode| raise();
    assert_eq!(dies(libc::SIG_DFL, &breakpoint), SIGNAL);
    assert_eq!(dies(libc::SIG_DFL, &raise), SIGNAL);
    assert_eq!(dies(libc::SIG_IGN, &breakpoint), SIGNAL);
    assert_eq!(dies(libc::SIG_IGN, &raise), 0);
    assert_eq!(dies(libc::SIG_DFL, &|_| ()), 0);
}

static NESTED: AtomicU64 = AtomicU64::new(0);

extern "C" fn calls_a_trapped_function(_signal: libc::c_int) {
    let site = NESTED.load(Ordering::Relaxed);
    SEEN.store(call(CodeAddr::new(site)), Ordering::Relaxed);
}

#[test]
fn a_handler_that_was_handed_a_trap_may_trap_itself() {
    assert!(in_child(|| {
        chain::forget();
        let code = TestCode::new();
        // One that does not ask for it has the signal blocked, as it would have without us.
        let handler = calls_a_trapped_function as *const () as libc::sighandler_t;
        handle(handler, libc::SA_NODEFER);
        code.arm(Traps::install().unwrap());
        NESTED.store(code.site.get(), Ordering::Relaxed);
        if HOST.passes_traps {
            call(code.foreign);
        } else {
            raise();
        }
        SEEN.load(Ordering::Relaxed) == NEW
    }));
}

#[test]
fn on_an_alternate_stack_and_with_errno_kept() {
    let code = TestCode::new();
    code.arm(Traps::install().unwrap());
    std::thread::spawn(move || {
        let stack = Vec::<u8>::leak(std::vec![0; 64 << 10]);
        let alternate = libc::stack_t {
            ss_sp: stack.as_mut_ptr().cast(),
            ss_flags: 0,
            ss_size: stack.len(),
        };
        // SAFETY: the stack is never freed.
        let set = unsafe { libc::sigaltstack(&raw const alternate, std::ptr::null_mut()) };
        assert_eq!(set, 0);
        // SAFETY: a thread's errno is always there.
        unsafe { *libc::__errno_location() = 77 };
        assert_eq!(code.call(), NEW);
        // SAFETY: as above.
        assert_eq!(unsafe { *libc::__errno_location() }, 77);
        // SAFETY: fills this thread's own stack, which nothing else refers to now.
        let used = unsafe { std::slice::from_raw_parts(stack.as_ptr(), stack.len()) };
        assert!(
            used.iter().any(|byte| *byte != 0),
            "the handler ran on another stack"
        );
    })
    .join()
    .unwrap();
}

#[test]
fn a_forks_child_takes_its_traps_and_sets_its_own() {
    let (code, own) = (TestCode::new(), TestCode::new());
    let traps = Traps::install().unwrap();
    code.arm(traps);
    // There was other code at these addresses, which may have left a note.
    let before = traps.exit_stub(own.site);
    // Somebody is setting a trap at the moment of the fork.
    let turn = WRITERS.wait(None);
    assert!(in_child(|| {
        // SAFETY: nothing executes there; only the table is changed.
        unsafe { traps.set(own.site, own.exit_stub) };
        code.call() == NEW && traps.exit_stub(own.site) == Some(own.exit_stub)
    }));
    drop(turn);
    assert_ne!(before, Some(own.exit_stub));
    assert_eq!((code.call(), traps.exit_stub(own.site)), (NEW, before));
}

#[test]
fn many_threads_trap_at_once_while_others_are_past_the_site() {
    let traps = Traps::install().unwrap();
    let (stop, calls, new) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let code = TestCode::new();
    // Odd while nothing but the exit stub may be executed.
    let phase = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let before = phase.load(Ordering::SeqCst);
                    let found = code.call();
                    let must_be_new = before % 2 == 1 && phase.load(Ordering::SeqCst) == before;
                    assert!(found == NEW || (found == OLD && !must_be_new), "{found}");
                    calls.fetch_add(1, Ordering::Relaxed);
                    new.fetch_add(u64::from(found == NEW), Ordering::Relaxed);
                }
            });
        }
        let wait = |more| {
            let from = calls.load(Ordering::Relaxed);
            while calls.load(Ordering::Relaxed) < from + more {
                std::thread::yield_now();
            }
        };
        for _ in 0..50 {
            wait(200);
            code.arm(traps);
            phase.fetch_add(1, Ordering::SeqCst);
            wait(200);
            phase.fetch_add(1, Ordering::SeqCst);
            code.disarm();
        }
        stop.store(true, Ordering::Relaxed);
    });
    let (calls, new) = (calls.into_inner(), new.into_inner());
    std::println!("{calls} calls, {new} of them through the trap, in 50 rounds");
    assert!(new > 5000 && calls > new);
}
