//! What keeps threads safe, one protection at a time: with it the test passes, and in a forked
//! child, without it, the process dies.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::{Entries, adding, call, engine, entry, live_module, returning, site};
use crate::Result;
use crate::addr::{CodeAddr, Len};
use crate::arch::Arch;
use crate::arch::OnReturn;
use crate::deopt::ExitStubs;
use crate::engine::{Engine, ExitCode, ExitRequest, ExitResumption, Exits, Receipt, Role};
use crate::memory::testing::process::{End, end_of_child, in_child};
use crate::publish::{Attached, GracePeriod, NeverStopped, QuiescentState};
use crate::sequence::{Sequence, Target, result};
use crate::site::{Module, ModuleId, Site};
use patchpoint_asm::backend_of;
use patchpoint_asm::live::PatchableJump;

/// A callee that says that it was entered and waits until it may return, or a minute.
static ENTERED: AtomicBool = AtomicBool::new(false);
static RETURN: AtomicBool = AtomicBool::new(false);

extern "C" fn blocking(x: u64) -> u64 {
    ENTERED.store(true, Ordering::Release);
    wait_for(&RETURN);
    x
}

fn wait_for(flag: &AtomicBool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !flag.load(Ordering::Acquire) && Instant::now() < end {
        thread::yield_now();
    }
}

fn calling() -> Sequence {
    let callee = CodeAddr::new(blocking as *const () as u64);
    // SAFETY: it takes what the site passes.
    let called = unsafe { Sequence::new().call(callee, OnReturn::FollowsC) };
    called.add(result(), 5)
}

/// Patches a site while a thread is in a callee of its stub; frees what `free` frees; lets the
/// callee return into the stub. Whether the result was right.
fn return_into_a_replaced_stub(free: impl Fn(&Engine)) -> bool {
    ENTERED.store(false, Ordering::Relaxed);
    RETURN.store(false, Ordering::Relaxed);
    let engine = engine();
    let module = live_module(&engine);
    engine.patch(200, &calling()).unwrap();
    let ready = AtomicBool::new(false);
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let handle = engine.attach_thread();
            ready.store(true, Ordering::Release);
            let first = call(&module, "call_0", 100);
            handle.quiescent();
            first
        });
        wait_for(&ready);
        wait_for(&ENTERED);
        engine.patch(200, &adding(7)).unwrap();
        free(&engine);
        // The stub's memory is used again if it was freed.
        for _ in 0..8 {
            engine.patch(201, &Sequence::new().trap()).unwrap();
        }
        RETURN.store(true, Ordering::Release);
        thread.join().unwrap() == 105 && call(&module, "call_0", 100) == 107
    })
}

/// One test, as the callee's flags are shared.
#[test]
fn a_stub_with_a_thread_in_a_callee_outlives_its_replacement() {
    let reclaim = |engine: &Engine| {
        // SAFETY: the thread that executes is attached.
        let attached = unsafe { Attached::promise() };
        assert_eq!(engine.reclaim_passed(&attached).unwrap(), 0);
        assert_eq!(engine.reclaim_passed(&attached).unwrap(), 0);
    };
    assert!(return_into_a_replaced_stub(reclaim));
    // Without the grace period: by a promise that is false.
    assert!(dies(|| {
        return_into_a_replaced_stub(|engine| {
            // SAFETY: it is not true, and the process dies of it, which is what is shown.
            engine.reclaim(&unsafe { GracePeriod::promise() }).unwrap();
        })
    }));
}

#[test]
fn stubs_are_freed_after_the_reports_that_they_need() {
    let engine = engine();
    let module = live_module(&engine);
    let mut handle = engine.attach_thread();
    // SAFETY: this thread is attached and reports what is true.
    let attached = unsafe { Attached::promise() };
    engine.patch(200, &adding(1)).unwrap();
    engine.patch(201, &calling()).unwrap();
    let in_use = engine.stub_stats().slots;
    engine.patch(200, &adding(2)).unwrap();
    engine.patch(201, &adding(2)).unwrap();
    assert_eq!(engine.reclaim_passed(&attached).unwrap(), 0);
    handle.checkpoint();
    assert_eq!(engine.reclaim_passed(&attached).unwrap(), 1);
    drop(handle.offline(QuiescentState::Checkpoint));
    assert_eq!(engine.reclaim_passed(&attached).unwrap(), 0);
    handle.quiescent();
    assert_eq!(engine.reclaim_passed(&attached).unwrap(), 1);
    assert_eq!(engine.stub_stats().slots, in_use);
    drop(module);
}

/// A function whose site a thread executes without pause.
struct Race {
    engine: Engine,
    module: Module,
    site: Site,
    patchable_jump: PatchableJump,
    _entries: Entries,
}

impl Race {
    fn new() -> Self {
        let (engine, entries) = (engine(), Entries::new(1));
        let module = entries.live(&engine);
        let site = site(&engine, 0);
        let patchable_jump = backend_of(Arch::X86_64)
            .plan_patchable_jump(site.addr(), site.reserved())
            .unwrap();
        Self {
            engine,
            module,
            site,
            patchable_jump,
            _entries: entries,
        }
    }

    /// The bytes of the site now.
    fn bytes(&self) -> Vec<u8> {
        self.site.read().unwrap()
    }

    /// Writes past the engine.
    fn write(&self, offset: usize, bytes: &[u8]) {
        let at = self.site.addr().plus(Len::new(offset as u32)).unwrap();
        let memory = self.site.memory().unwrap().live().unwrap();
        memory.write_unexecuted(at, bytes).unwrap();
    }

    /// Lets `write` run again and again for `limit`, and until the site has been executed. Whether
    /// every result was one of those allowed.
    fn run(&self, limit: Duration, allowed: &[u64], mut write: impl FnMut(usize)) -> bool {
        let (stop, wrong, calls) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            scope.spawn(|| {
                // Found before, so that the thread is in the site for a good part of its time.
                let function = entry(&self.module, "f0");
                while !stop.load(Ordering::Acquire) {
                    if !allowed.contains(&function(0)) {
                        wrong.fetch_add(1, Ordering::Relaxed);
                    }
                    calls.store(1, Ordering::Relaxed);
                }
            });
            let (end, mut round) = (Instant::now() + limit, 0);
            let is_called = || calls.load(Ordering::Relaxed) > 0;
            while (Instant::now() < end || !is_called()) && wrong.load(Ordering::Relaxed) == 0 {
                write(round);
                round += 1;
            }
            stop.store(true, Ordering::Release);
        });
        wrong.load(Ordering::Relaxed) == 0
    }
}

/// Whether the child dies of what it executes.
fn dies(work: impl FnOnce() -> bool) -> bool {
    let end = end_of_child(work);
    matches!(
        end,
        End::Killed(libc::SIGSEGV | libc::SIGBUS | libc::SIGILL | libc::SIGTRAP | libc::SIGFPE)
    )
}

/// Nops, and the function's own 7; or a stub, and 40.
const EITHER: [u64; 2] = [7, 40];

/// The patchable jump's bytes as a nop and as a jump, written in one piece or in two.
fn exchange_in(pieces: &[std::ops::Range<usize>]) -> bool {
    let race = Race::new();
    let armed = race.bytes();
    race.engine.patch(0, &returning::<40>()).unwrap();
    let forms = [armed, race.bytes()];
    let offset = race.patchable_jump.offset.as_usize();
    let limit = Duration::from_secs(if pieces.len() == 1 { 1 } else { 60 });
    race.run(limit, &EITHER, |round| {
        for piece in pieces {
            let piece = offset + piece.start..offset + piece.end;
            race.write(piece.start, &forms[round % 2][piece]);
            thread::sleep(Duration::from_micros(20));
        }
    })
}

#[test]
fn a_patchable_jump_exchanged_by_two_stores_kills_the_process() {
    assert!(in_child(|| exchange_in(std::slice::from_ref(&(0..5)))));
    assert!(dies(|| exchange_in(&[0..1, 1..5])));
}

#[test]
fn a_patchable_jump_to_an_empty_stub_kills_the_process() {
    let jump_to_stub = |fill: bool| {
        let race = Race::new();
        // mov eax, 40; ret.
        let code = [0xb8, 40, 0, 0, 0, 0xc3];
        let limit = Duration::from_millis(if fill { 200 } else { 60_000 });
        race.run(limit, &EITHER, |_| {
            let stubs = &race.engine.shared.stubs;
            let slot = stubs.alloc(Len::new(16), race.site.range()).unwrap();
            if fill {
                stubs.fill(&slot, &code).unwrap();
            }
            race.write(
                race.patchable_jump.offset.as_usize(),
                &backend_of(Arch::X86_64)
                    .jump(race.patchable_jump, slot.addr())
                    .unwrap(),
            );
            if !fill {
                thread::sleep(Duration::from_micros(20));
                stubs.fill(&slot, &code).unwrap();
            }
        })
    };
    assert!(in_child(|| jump_to_stub(true)));
    assert!(dies(|| jump_to_stub(false)));
}

/// Where a thread waits that executes step by step, and whether one does.
static WAITS_IN: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
static WAITS: AtomicBool = AtomicBool::new(false);

/// Takes place after each instruction of a thread that [steps](step).
extern "C" fn stepped(_signal: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel's context of this signal.
    let at =
        unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs[libc::REG_RIP as usize] } as u64;
    let [start, end] = [&WAITS_IN[0], &WAITS_IN[1]].map(|at| at.load(Ordering::Relaxed));
    if (start..end).contains(&at) {
        WAITS.store(true, Ordering::Release);
        while WAITS.load(Ordering::Acquire) {
            thread::yield_now();
        }
    }
}

/// Makes this process [wait](stepped) where it is to, when it executes step by step.
fn catch_steps() {
    // SAFETY: all zeros is an action; the handler has the signature that is asked for, and uses atomics only.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = stepped as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigaction(libc::SIGTRAP, &raw const action, std::ptr::null_mut());
    }
}

/// Calls a function step by step: with the trap flag set.
fn step(function: extern "C" fn(u64) -> u64) -> u64 {
    // SAFETY: sets and clears a flag of this thread, whose signal has a handler; no red zone is in use at a call of asm
    // that may use the stack.
    unsafe { std::arch::asm!("pushfq", "or dword ptr [rsp], 0x100", "popfq") };
    let result = function(0);
    // SAFETY: as above.
    unsafe { std::arch::asm!("pushfq", "and dword ptr [rsp], 0xfffffeff", "popfq") };
    result
}

/// Nops whose boundaries move: a thread that is between two of them decodes the middle of one.
#[test]
fn a_tail_that_changes_kills_the_process() {
    let with = |changing: bool| {
        let race = Race::new();
        let ones = [0x90; 11].to_vec();
        // nopw 0x5c5c5c5c(rax,rax): from its sixth byte on, pop rsp four times.
        let long = [0x66, 0x0f, 0x1f, 0x84, 0x00, 0x5c, 0x5c, 0x5c, 0x5c, 0x66, 0x90].to_vec();
        let tail = race.patchable_jump.offset.as_usize() + 5;
        let sixth = race.site.addr().get() + tail as u64 + 5;
        WAITS_IN[0].store(sixth, Ordering::Relaxed);
        WAITS_IN[1].store(sixth + 1, Ordering::Relaxed);
        catch_steps();
        let function = entry(&race.module, "f0");
        let mut results = Vec::new();
        race.write(tail, &ones);
        thread::scope(|scope| {
            let reader = scope.spawn(|| (0..4).map(|_| step(function)).collect());
            loop {
                while !WAITS.load(Ordering::Acquire) && !reader.is_finished() {
                    thread::yield_now();
                }
                if reader.is_finished() {
                    break;
                }
                race.write(tail, if changing { &long } else { &ones });
                WAITS.store(false, Ordering::Release);
            }
            results = reader.join().unwrap_or_default();
        });
        results == [7; 4]
    };
    assert!(dies(|| with(true)));
    assert!(in_child(|| with(false)));
}

/// Exit stubs that are made so slowly that another thread, which is told of it, waits for the
/// engine's lock meanwhile.
struct Slow {
    exit_stubs: ExitStubs,
    being_made: Arc<AtomicBool>,
}

// SAFETY: all that is written is what the exit stubs make.
unsafe impl Exits for Slow {
    fn handles(&self, role: Role) -> bool {
        self.exit_stubs.handles(role)
    }

    fn bound(&self, site: &Site, role: Role, resumption: &ExitResumption<'_>) -> Result<Len> {
        self.exit_stubs.bound(site, role, resumption)
    }

    fn encode(&self, request: &ExitRequest<'_>) -> Result<ExitCode> {
        self.being_made.store(true, Ordering::Release);
        // Long enough that whoever frees the lock then hands it to who waits.
        thread::sleep(Duration::from_millis(50));
        self.exit_stubs.encode(request)
    }

    fn check_leavable(&self, site: &Site) -> Result<()> {
        self.exit_stubs.check_leavable(site)
    }

    fn forget(&self, module: ModuleId) {
        self.exit_stubs.forget(module);
    }
}

/// Changes a site by `change` to a sequence with an exit stub; another thread patches it as soon as
/// the exit stub is made.
fn overtake(change: impl Fn(&Engine, &Sequence) -> Result<Receipt>) {
    let being_made = Arc::new(AtomicBool::new(false));
    let exits = Slow {
        exit_stubs: ExitStubs::new().on_deopt(|frame| frame.resume()),
        being_made: Arc::clone(&being_made),
    };
    let engine = Engine::builder()
        .world(NeverStopped)
        .exits(exits)
        .build()
        .unwrap();
    let module = live_module(&engine);
    being_made.store(false, Ordering::Relaxed);
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            wait_for(&being_made);
            engine.patch(200, &adding(1)).unwrap()
        });
        let leaving = Sequence::new().jump(Target::Deopt);
        assert_eq!(change(&engine, &leaving).unwrap().sites, 1);
        assert_eq!(other.join().unwrap().sites, 1);
    });
    assert_eq!(call(&module, "call_0", 100), 101, "the later one");
}

#[test]
fn changes_of_one_site_wait_for_a_patch_that_is_prepared() {
    overtake(|engine, leaving| engine.patch(200, leaving));
}

#[test]
fn changes_of_one_site_wait_for_a_transaction_that_is_prepared() {
    overtake(|engine, leaving| engine.transaction().patch(200, leaving)?.commit());
}

#[test]
fn changes_of_one_site_by_several_threads_are_all_made() {
    let engine = engine();
    let module = live_module(&engine);
    thread::scope(|scope| {
        for by in [1, 2] {
            let (engine, sequence) = (&engine, adding(by));
            scope.spawn(move || {
                for _ in 0..1000 {
                    assert_eq!(engine.patch(200, &sequence).unwrap().sites, 1);
                    let mut transaction = engine.transaction();
                    transaction.patch(200, &sequence).unwrap();
                    assert_eq!(transaction.commit().unwrap().sites, 1);
                }
            });
        }
    });
    assert!([101, 102].contains(&call(&module, "call_0", 100)));
}

/// Two threads execute a site while it is patched and settled. How many times it was settled, if
/// every result was right.
fn settled_while_executed(limit: Duration, settle: impl Fn(&Engine, &Attached) -> usize) -> Option<usize> {
    let engine = engine();
    let module = live_module(&engine);
    // SAFETY: the readers are attached, and report what is true.
    let attached = unsafe { Attached::promise() };
    engine.patch(107, &adding(1)).unwrap();
    let (stop, wrong, calls) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let settled = thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let (handle, function) = (engine.attach_thread(), entry(&module, "any_7"));
                while !stop.load(Ordering::Acquire) {
                    for x in 0..64 {
                        let right = [x, x + 1, x + 2, x + 3].contains(&function(x));
                        wrong.fetch_add(u64::from(!right), Ordering::Relaxed);
                    }
                    calls.fetch_add(64, Ordering::Relaxed);
                    handle.checkpoint();
                }
            });
        }
        let (end, mut settled, mut round) = (Instant::now() + limit, 0, 0);
        // On a busy machine the others report seldom.
        let (busy, enough) = (end + Duration::from_secs(60), 20);
        while (Instant::now() < end || settled < enough && Instant::now() < busy)
            && wrong.load(Ordering::Relaxed) == 0
        {
            // Of different lengths: what is behind the gate begins and ends at another offset each time.
            let sequence = match round % 3 {
                0 => adding(1),
                1 => adding(1).add(result(), 1_u64),
                _ => adding(1).add(result(), 1_u64).add(result(), 1_u64),
            };
            engine.patch(107, &sequence).unwrap();
            let until = Instant::now() + Duration::from_millis(2);
            while Instant::now() < until {
                settled += settle(&engine, &attached);
            }
            engine.reclaim_passed(&attached).unwrap();
            round += 1;
        }
        stop.store(true, Ordering::Release);
        settled
    });
    let calls = calls.load(Ordering::Relaxed);
    println!("{settled} times settled beside {calls} executions by two threads");
    (wrong.load(Ordering::Relaxed) == 0).then_some(settled)
}

#[test]
fn a_site_is_settled_while_threads_execute_it() {
    let settle = |engine: &Engine, attached: &Attached| engine.settle(attached).unwrap().settled;
    let settled = settled_while_executed(Duration::from_secs(3), settle);
    assert!(settled.is_some_and(|settled| settled > 10), "{settled:?}");
}

/// Settles a site while a thread waits behind its gate: when it has reported, or at once.
fn settled_behind_a_thread(at_once: bool) -> bool {
    let engine = engine();
    let module = live_module(&engine);
    let own = engine.attach_thread();
    // SAFETY: both threads are attached, and report what is true.
    let attached = unsafe { Attached::promise() };
    let settle = || engine.settle(&attached).unwrap();
    // mov rax, rbx; add rax, 2; add rax, 2.
    engine.patch(107, &adding(2).add(result(), 2_u64)).unwrap();
    settle();
    own.checkpoint();
    assert_eq!(settle().settled, 1);
    drop(own);
    let site = site(&engine, 107);
    let behind = site.plan_patchable_jump().unwrap().end().as_usize();
    let second_add = site.addr().get() + behind as u64 + 7;
    WAITS_IN[0].store(second_add, Ordering::Relaxed);
    WAITS_IN[1].store(second_add + 1, Ordering::Relaxed);
    catch_steps();
    let function = entry(&module, "any_7");
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let handle = engine.attach_thread();
            let result = step(function);
            handle.checkpoint();
            // It is stopped no more, and stays attached until what it says has been of use.
            while !STOP.load(Ordering::Acquire) {
                handle.checkpoint();
                thread::yield_now();
            }
            result
        });
        while !WAITS.load(Ordering::Acquire) {
            thread::yield_now();
        }
        // mov rax, rbx; add rax, 0x0b0f0b0f: where the other thread is, ud2.
        engine.patch(107, &adding(0x0b0f_0b0f)).unwrap();
        assert_eq!(settle().waiting, 1);
        if at_once {
            let mut states = engine.shared.states.lock();
            states.settling.iter_mut().for_each(|settling| settling.pass());
        }
        let early = settle().settled;
        assert_eq!((early, at_once), (usize::from(at_once), early == 1));
        if at_once {
            assert_eq!(site.read().unwrap()[behind + 7..behind + 9], [0x0f, 0x0b]);
        }
        WAITS.store(false, Ordering::Release);
        let mut settled = early;
        while settled == 0 {
            settled += settle().settled;
        }
        STOP.store(true, Ordering::Release);
        reader.join().unwrap() == 4 && function(0) == 0x0b0f_0b0f
    })
}

static STOP: AtomicBool = AtomicBool::new(false);

#[test]
fn settling_what_a_thread_is_in_kills_the_process() {
    assert!(in_child(|| settled_behind_a_thread(false)));
    assert!(dies(|| settled_behind_a_thread(true)));
}
