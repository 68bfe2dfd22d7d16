//! Traps beside a profiler's signals: on alternate stacks with room for one frame, and with what
//! the handler before had blocked.

use std::mem::MaybeUninit;
use std::ptr;

use super::*;
use crate::memory::testing::process::{End, end_of_child};

/// How many of the profiler's signals were handled.
static TICKS: AtomicU64 = AtomicU64::new(0);

extern "C" fn on_tick(_signal: libc::c_int) {
    TICKS.fetch_add(1, Ordering::Relaxed);
}

fn empty_action() -> libc::sigaction {
    // SAFETY: all zeros is a valid action.
    unsafe { MaybeUninit::<libc::sigaction>::zeroed().assume_init() }
}

fn install(signal: libc::c_int, action: &libc::sigaction) {
    // SAFETY: the handlers of these tests live as long as the process.
    assert_eq!(unsafe { libc::sigaction(signal, action, ptr::null_mut()) }, 0);
}

fn installed(signal: libc::c_int) -> libc::sigaction {
    let mut found = empty_action();
    // SAFETY: asks only.
    assert_eq!(unsafe { libc::sigaction(signal, ptr::null(), &raw mut found) }, 0);
    found
}

/// Where a handler was, on its stack.
static HANDLED_AT: AtomicU64 = AtomicU64::new(0);

extern "C" fn notes_where_it_is(_signal: libc::c_int) {
    let here = 0_u8;
    HANDLED_AT.store((&raw const here).addr() as u64, Ordering::Relaxed);
}

/// The bytes that the kernel takes for a frame of this thread. It tells every process how many there
/// are at most, which is three times as much where registers can be switched on that are off.
fn frame() -> usize {
    const ROOM: usize = 1 << 16;
    let room = Box::leak(vec![0_u8; ROOM].into_boxed_slice());
    let end = room.as_ptr_range().end.addr() as u64;
    set_alternate_stack(room.as_mut_ptr().cast(), ROOM);
    let mut action = empty_action();
    action.sa_sigaction = notes_where_it_is as *const () as libc::sighandler_t;
    action.sa_flags = libc::SA_ONSTACK;
    install(libc::SIGUSR1, &action);
    // SAFETY: its handler is installed.
    assert_eq!(unsafe { libc::raise(libc::SIGUSR1) }, 0);
    let taken = end.checked_sub(HANDLED_AT.load(Ordering::Relaxed)).unwrap() as usize;
    assert!((libc::MINSIGSTKSZ / 4..ROOM).contains(&taken), "{taken} bytes");
    taken
}

fn set_alternate_stack(start: *mut libc::c_void, size: usize) {
    let alternate = libc::stack_t {
        ss_sp: start,
        ss_flags: 0,
        ss_size: size,
    };
    // SAFETY: the stack is never unmapped.
    let set = unsafe { libc::sigaltstack(&raw const alternate, ptr::null_mut()) };
    assert_eq!(set, 0);
}

/// Gives this thread an alternate stack with room for one frame and a handler, and not for two
/// frames, above a page that kills.
fn small_alternate_stack() {
    // SAFETY: asks only.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap();
    let frame = frame();
    let size = frame + frame * 3 / 4;
    let pages = size.next_multiple_of(page);
    let prot = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: the place is the kernel's choice.
    let start = unsafe { libc::mmap(ptr::null_mut(), pages + page, prot, flags, -1, 0) };
    assert_ne!(start, libc::MAP_FAILED);
    // SAFETY: mapped above, and nobody uses it.
    assert_eq!(unsafe { libc::mprotect(start, page, libc::PROT_NONE) }, 0);
    // SAFETY: in the mapping.
    set_alternate_stack(unsafe { start.byte_add(page) }, size);
}

/// Sends this thread SIGPROF all the time, by a timer of its own.
fn start_profiling() {
    let mut action = empty_action();
    action.sa_sigaction = on_tick as *const () as libc::sighandler_t;
    action.sa_flags = libc::SA_ONSTACK | libc::SA_RESTART;
    install(libc::SIGPROF, &action);
    // SAFETY: all zeros is a valid event.
    let mut event = unsafe { MaybeUninit::<libc::sigevent>::zeroed().assume_init() };
    event.sigev_notify = libc::SIGEV_THREAD_ID;
    event.sigev_signo = libc::SIGPROF;
    // SAFETY: takes nothing and cannot fail.
    event.sigev_notify_thread_id = unsafe { libc::gettid() };
    let mut timer: libc::timer_t = ptr::null_mut();
    // SAFETY: the event and the place for the timer live as long as the call.
    let made = unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) };
    assert_eq!(made, 0);
    let every = libc::timespec {
        tv_sec: 0,
        tv_nsec: 15_000,
    };
    let times = libc::itimerspec {
        it_interval: every,
        it_value: every,
    };
    // SAFETY: the timer was made above.
    let set = unsafe { libc::timer_settime(timer, 0, &raw const times, ptr::null_mut()) };
    assert_eq!(set, 0);
}

/// Executes a trap until the profiler has come often, in a thread with a small alternate stack.
fn trapped_and_profiled(prepare: impl Fn()) -> End {
    end_of_child(|| {
        chain::forget();
        let code = TestCode::new();
        code.arm(Traps::install().unwrap());
        prepare();
        let thread = std::thread::spawn(move || {
            small_alternate_stack();
            start_profiling();
            let mut traps = 0_u64;
            while TICKS.load(Ordering::Relaxed) < 20_000 {
                assert_eq!(code.call(), NEW);
                traps += 1;
            }
            traps
        });
        thread.join().is_ok_and(|traps| traps > 1000)
    })
}

#[test]
fn a_profilers_signal_waits_until_the_handler_has_left_its_alternate_stack() {
    assert_eq!(trapped_and_profiled(|| ()), End::Returned(true));
    // The stack is as small as it should be: with nothing blocked the process dies.
    let let_all_nest = || {
        let mut ours = installed(SIGNAL);
        // SAFETY: empties the mask.
        unsafe { libc::sigemptyset(&raw mut ours.sa_mask) };
        install(SIGNAL, &ours);
    };
    assert_eq!(trapped_and_profiled(let_all_nest), End::Killed(libc::SIGSEGV));
}

/// The signals that were blocked in the handler before, as a set of bits.
static BLOCKED: AtomicU64 = AtomicU64::new(0);

extern "C" fn notes_its_mask(_signal: libc::c_int) {
    SEEN.fetch_add(1, Ordering::Relaxed);
    BLOCKED.store(blocked(), Ordering::Relaxed);
}

fn blocked() -> u64 {
    // SAFETY: all zeros is an empty set.
    let mut now = unsafe { MaybeUninit::<libc::sigset_t>::zeroed().assume_init() };
    // SAFETY: asks only.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), &raw mut now) };
    let is_blocked = |signal: &i32| {
        // SAFETY: the set was filled above.
        let found = unsafe { libc::sigismember(&raw const now, *signal) };
        found == 1
    };
    (1..=libc::SIGRTMAX())
        .filter(is_blocked)
        .map(|signal| 1 << (signal - 1))
        .sum()
}

fn bit(signal: libc::c_int) -> u64 {
    1 << (signal - 1)
}

#[test]
fn the_handler_before_has_its_own_mask_and_flags() {
    let with = |flags: libc::c_int, check: &dyn Fn() -> bool| {
        end_of_child(|| {
            chain::forget();
            let mut action = empty_action();
            action.sa_sigaction = notes_its_mask as *const () as libc::sighandler_t;
            action.sa_flags = flags;
            // SAFETY: the set is valid, and the signal exists.
            unsafe { libc::sigaddset(&raw mut action.sa_mask, libc::SIGUSR1) };
            install(SIGNAL, &action);
            Traps::install().unwrap();
            // Blocked where the signal comes.
            // SAFETY: all zeros is an empty set.
            let mut here = unsafe { MaybeUninit::<libc::sigset_t>::zeroed().assume_init() };
            // SAFETY: the set is valid, and the signal exists; concerns this thread.
            unsafe {
                libc::sigaddset(&raw mut here, libc::SIGUSR2);
                libc::pthread_sigmask(libc::SIG_BLOCK, &raw const here, ptr::null_mut());
            }
            let before = blocked();
            SEEN.store(0, Ordering::Relaxed);
            raise();
            check() && SEEN.load(Ordering::Relaxed) == 1 && blocked() == before
        })
    };
    let others = bit(libc::SIGUSR1) | bit(libc::SIGUSR2);
    let has = |mask| move || BLOCKED.load(Ordering::Relaxed) == mask;
    assert_eq!(with(0, &has(others | bit(SIGNAL))), End::Returned(true));
    assert_eq!(with(libc::SA_NODEFER, &has(others)), End::Returned(true));
    // Once, and then as if there were none.
    assert_eq!(
        with(libc::SA_RESETHAND, &has(others | bit(SIGNAL))),
        End::Returned(true)
    );
    let twice = || {
        raise();
        true
    };
    assert_eq!(with(libc::SA_RESETHAND, &twice), End::Killed(SIGNAL));
}
