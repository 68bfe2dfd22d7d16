//! Live sites changed while a thread is parked at each instruction boundary of the site and of the
//! stub that it branched to: what that thread's call returns, and what the next one does. On x86-64
//! alone, where a thread can step itself: on the others that takes a debugger, and an emulator is
//! none.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use asm_tests::live::{self, CALLEE, KINDS, adding};
use patchpoint::deopt::ExitStubs;
use patchpoint::publish::{Attached, NeverStopped};
use patchpoint::sequence::{Sequence, result};
use patchpoint::site::{Module, Site};
use patchpoint::{CallShape, Engine};

// ---- the thread that steps ----

/// The ranges of program counters that are counted: site and stub.
static WATCHED: [[AtomicU64; 2]; 2] = [const { [const { AtomicU64::new(0) }; 2] }; 2];
/// How many boundaries in them the thread still passes before it waits at one.
static PASSES: AtomicU64 = AtomicU64::new(0);
/// Where the thread waits; 0 while it runs.
static PARKED: AtomicU64 = AtomicU64::new(0);

/// Not `futex` nor a condition: what waits is in a signal handler.
fn wait(until: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !until() {
        assert!(Instant::now() < end, "a minute has passed");
        std::thread::yield_now();
    }
}

extern "C" fn on_step(_: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid context, to nobody else.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    let registers = &mut context.uc_mcontext.gregs;
    let pc = registers[libc::REG_RIP as usize] as u64;
    // SAFETY: as above.
    if unsafe { (*info).si_code } != libc::TRAP_TRACE {
        // No breakpoint of the engine's gets here, and there are no others.
        // SAFETY: ends the process.
        unsafe { libc::abort() };
    }
    let watched =
        |[from, to]: &[AtomicU64; 2]| (from.load(Ordering::SeqCst)..=to.load(Ordering::SeqCst)).contains(&pc);
    if !WATCHED.iter().any(watched) || PASSES.fetch_sub(1, Ordering::SeqCst) != 0 {
        return;
    }
    PARKED.store(pc, Ordering::SeqCst);
    while PARKED.load(Ordering::SeqCst) != 0 {
        // SAFETY: async-signal-safe.
        unsafe { libc::sched_yield() };
    }
    // The rest of the call in one go.
    registers[libc::REG_EFL as usize] &= !0x100;
}

/// The thread goes on when this is dropped, also by a panic.
struct Parked;

impl Drop for Parked {
    fn drop(&mut self) {
        PARKED.store(0, Ordering::SeqCst);
    }
}

fn install() {
    // SAFETY: all zeros is a valid action.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = on_step as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO;
    // SAFETY: the handler lives as long as the process.
    let done = unsafe { libc::sigaction(libc::SIGTRAP, &raw const action, std::ptr::null_mut()) };
    assert_eq!(done, 0);
}

/// What sites without a result leave of the register of the result.
const NOTHING: u64 = 0xdead_beef;

/// Calls the function, with the trap flag set or not.
fn call(entry: u64, x: u64, flag: u32) -> u64 {
    let value: u64;
    // SAFETY: a function of a word that returns one; the handler of single steps is installed. What is pushed may not
    // lie in a red zone: no caller's frame is a leaf's, as this calls.
    unsafe {
        std::arch::asm!(
            "pushfq", "or dword ptr [rsp], {flag:e}", "popfq",
            "call {entry}",
            "pushfq", "and dword ptr [rsp], 0xfffffeff", "popfq",
            entry = in(reg) entry, flag = in(reg) flag, in("rdi") x, inout("rax") NOTHING => value,
            clobber_abi("C"),
        );
    }
    value
}

// ---- what sites are made ----

/// What a site is made.
#[derive(Clone, Copy, Debug, PartialEq)]
enum SiteForm {
    /// As armed: a nop, or a jump to LLVM's call.
    Restored,
    Adds(u64),
    /// Whose stub calls LLVM's callee, and adds.
    Calls(u64),
    Invalidated,
}

use SiteForm::{Adds, Calls, Invalidated, Restored};

extern "C" fn second(x: u64) -> u64 {
    x + 2 * CALLEE
}

impl SiteForm {
    fn sequence(self) -> Sequence {
        let callee = patchpoint::addr::CodeAddr::new(second as *const () as u64);
        match self {
            Adds(number) => adding(number),
            // SAFETY: the function can be called from the site.
            Calls(number) => unsafe { Sequence::new().call(callee, patchpoint::arch::OnReturn::FollowsC) }
                .add(result(), number),
            Restored | Invalidated => Sequence::new(),
        }
    }

    fn put(self, engine: &Engine, site: &Site) {
        let mut transaction = engine.transaction();
        let transaction = match self {
            Restored => transaction.restore(site),
            Invalidated => transaction.invalidate_site(site),
            _ => transaction.patch_site(site, &self.sequence()),
        };
        transaction.unwrap().commit().unwrap();
    }

    /// What a call of a site then returns; one that is invalidated does as it did before.
    fn value(self, id: u64, before: SiteForm, x: u64) -> u64 {
        match self {
            Restored if id < 200 => NOTHING,
            Restored => x + CALLEE,
            Adds(number) => x + number,
            Calls(number) => x + 2 * CALLEE + number,
            Invalidated => before.value(id, before, x),
        }
    }
}

/// The patchable jump's target and its own address, if it is a jump. No nop before it holds its
/// first byte.
fn patchable_jump(site: &Site) -> Option<(u64, u64)> {
    let bytes = site.read().unwrap();
    let at = bytes.iter().position(|byte| *byte == 0xe9)?;
    let displacement = i32::from_le_bytes(bytes[at + 1..at + 5].try_into().unwrap());
    let at = site.addr().get() + at as u64;
    Some((at, (at + 5).wrapping_add_signed(i64::from(displacement))))
}

fn watch(number: usize, from: u64, to: u64) {
    WATCHED[number][0].store(from, Ordering::SeqCst);
    WATCHED[number][1].store(to, Ordering::SeqCst);
}

// ---- the test ----

#[derive(Default)]
struct Totals {
    parked: u64,
    patches: u64,
    sites: BTreeSet<(u64, u64)>,
    in_stubs: u64,
}

struct Lab {
    engine: Engine,
    module: Module,
    attached: Attached,
    totals: Totals,
}

impl Lab {
    fn reclaim(&self) -> usize {
        self.engine.reclaim_passed(&self.attached).unwrap()
    }

    fn free_all(&self) {
        while !self.engine.retired().is_empty() {
            self.reclaim();
        }
    }

    /// Changes a site from one form to the other while a thread is at the boundary with that
    /// number. False where it has no such boundary.
    fn change_at(&mut self, id: u64, from: SiteForm, to: SiteForm, boundary: u64) -> bool {
        let (site, entry) = (live::site(&self.module, id), live::entry(&self.module, id));
        Adds(1).put(&self.engine, &site);
        let (patchable_jump_at, _) = patchable_jump(&site).unwrap();
        from.put(&self.engine, &site);
        let stub = patchable_jump(&site).map_or(0, |(_, stub)| stub);
        watch(0, site.addr().get(), site.end().get());
        watch(1, stub, if stub == 0 { 0 } else { stub + 64 });
        PASSES.store(boundary, Ordering::SeqCst);
        self.free_all();
        let done = AtomicU64::new(0);
        let x = 1000 + boundary;
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let handle = self.engine.attach_thread();
                let value = call(entry, x, 0x100);
                done.store(1, Ordering::SeqCst);
                drop(handle);
                value
            });
            wait(|| PARKED.load(Ordering::SeqCst) != 0 || done.load(Ordering::SeqCst) != 0);
            let pc = PARKED.load(Ordering::SeqCst);
            if pc == 0 {
                assert_eq!(thread.join().unwrap(), from.value(id, from, x));
                return false;
            }
            let parked = Parked;
            to.put(&self.engine, &site);
            // Twice, as stubs are given a number first. The thread has not reported: nothing is
            // freed.
            assert_eq!((self.reclaim(), self.reclaim()), (0, 0));
            drop(parked);
            let found = thread.join().unwrap();
            let (old, new) = (from.value(id, from, x), to.value(id, from, x));
            // What is before the patchable jump comes by the new one, and what is behind it or in
            // the stub does not.
            let expected = if (site.addr().get()..=patchable_jump_at).contains(&pc) {
                new
            } else {
                old
            };
            let offset = pc.wrapping_sub(site.addr().get());
            assert_eq!(
                found, expected,
                "site {id} at {offset:#x}: {from:?} became {to:?}"
            );
            assert_eq!(
                call(entry, x, 0),
                new,
                "site {id}: the call after {from:?} became {to:?}"
            );
            self.totals.parked += 1;
            self.totals.patches += 1;
            match (site.addr()..=site.end()).contains(&patchpoint::addr::CodeAddr::new(pc)) {
                true => self.totals.sites.extend([(id, offset)]),
                false => self.totals.in_stubs += 1,
            }
            true
        })
    }

    /// At every boundary. How many there are.
    fn change_everywhere(&mut self, id: u64, from: SiteForm, to: SiteForm) -> u64 {
        let mut boundary = 0;
        while self.change_at(id, from, to, boundary) {
            boundary += 1;
            if to == Invalidated {
                self.module = live::register(&self.engine, true);
            }
        }
        // The patchable jump and what is behind the site at least, and in a stub at least its jump
        // back.
        assert!(boundary >= 2, "site {id}: {boundary} boundaries as {from:?}");
        boundary
    }
}

/// Puts the engine's handler of traps before the test's.
fn invalidate_a_shadow(engine: &Engine) {
    let object = include_bytes!("../../examples/objects/inline_cache.o");
    let code = engine.load(object, |_| None).unwrap();
    // SAFETY: what is told is true of the object's code, or refused.
    let module = unsafe {
        engine
            .registration(code)
            .live()
            .register(|record| match record.id().get() {
                90 => Some(CallShape::shadow(24)),
                _ => None,
            })
    };
    let function = module.unwrap().function("sum_fields").unwrap();
    assert!(engine.invalidate(&function).unwrap().sites > 0);
}

#[test]
fn a_live_site_changes_while_a_thread_is_at_any_of_its_boundaries_or_of_its_stubs() {
    install();
    let exit_stubs = ExitStubs::new().on_deopt(|frame| frame.resume());
    let engine = Engine::builder()
        .world(NeverStopped)
        .exits(exit_stubs)
        .build()
        .unwrap();
    invalidate_a_shadow(&engine);
    let mut lab = Lab {
        module: live::register(&engine, true),
        engine,
        // SAFETY: the thread that steps is attached and reports when its call has returned; this one is in no call
        // when it frees.
        attached: unsafe { Attached::promise() },
        totals: Totals::default(),
    };
    for id in (100..100 + KINDS).chain(200..200 + KINDS) {
        let calls: &[SiteForm] = if id < 200 { &[] } else { &[Calls(7)] };
        let mut forms = vec![Restored, Adds(5)];
        forms.extend(calls);
        for from in forms {
            for to in [Restored, Adds(9), Invalidated].iter().chain(calls) {
                if (from, *to) != (Restored, Restored) {
                    lab.change_everywhere(id, from, *to);
                }
            }
        }
    }
    let Totals {
        parked,
        patches,
        sites,
        in_stubs,
    } = &lab.totals;
    println!(
        "{parked} times parked at {} boundaries of 16 sites, {in_stubs} of them in stubs; {patches} patches, 0 failures",
        sites.len()
    );
    assert!(*parked > 500 && *in_stubs > 100 && sites.len() > 50);
}
