//! While the world is stopped the engine neither allocates nor frees: a stopped thread may hold the
//! allocator's lock.
#![cfg(target_os = "linux")]
#![allow(
    unsafe_code,
    missing_docs,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use patchpoint::CallShape;
use patchpoint::addr::CodeAddr;
use patchpoint::deopt::ExitStubs;
use patchpoint::engine::Engine;
use patchpoint::image::Adoption;
use patchpoint::memory::StrategyChoice;
use patchpoint::publish::{Level, Publisher, Resumption, SingleThreaded, Stopped, Vacated, World};
use patchpoint::sequence::{Field, Sequence, Target, arg, result};
use patchpoint::site::{Candidate, Module};

#[path = "../examples/objects/mod.rs"]
mod compiled;

use compiled::INLINE_CACHE as OBJECT;

/// Counts the calls of the allocator by all threads; the file has one test.
struct Counting;

static CALLS: AtomicU64 = AtomicU64::new(0);

// SAFETY: everything is the system's allocator's.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        CALLS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Counts stops, and the allocator's calls during them.
#[derive(Debug, Default)]
struct Watch {
    stops: AtomicU64,
    calls: AtomicU64,
}

#[derive(Debug)]
struct Watched(Arc<Watch>);

// SAFETY: the test has one thread that patches, and no code is called.
unsafe impl World for Watched {
    fn while_stopped(
        &self,
        vacated: &[Vacated],
        work: &mut dyn FnMut(&Stopped),
    ) -> patchpoint::publish::Result<()> {
        self.0.stops.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as above.
        let world = unsafe { SingleThreaded::promise() };
        world.while_stopped(vacated, &mut |stopped| {
            let before = CALLS.load(Ordering::Relaxed);
            work(stopped);
            let during = CALLS.load(Ordering::Relaxed) - before;
            self.0.calls.fetch_add(during, Ordering::Relaxed);
        })
    }

    fn resumption(&self) -> Resumption {
        Resumption::Alone
    }
}

fn shape(record: &Candidate<'_>) -> Option<CallShape> {
    match record.id().get() {
        78 => Some(CallShape::any_reg(32).result().args(1)),
        _ => Some(CallShape::shadow(24)),
    }
}

/// An inline cache with so many guards: with more than one it needs a stub.
fn cache(guards: u32) -> Sequence {
    let start = Sequence::new();
    let guarded = (0..guards).fold(start, |sequence, at| {
        sequence.guard_eq(u32::at(arg(0), 4 * at as i32), 7, Target::Miss)
    });
    guarded.load(result(), u64::at(arg(0), 8))
}

/// The object's code once more, in private pages, for the strategies for foreign memory.
fn foreign(engine: &Engine, ask: StrategyChoice) -> Module {
    let loaded = engine.load(OBJECT, |_| None).unwrap();
    let range = loaded.areas()[0].range();
    let len = range.len() as usize;
    // SAFETY: a mapping wherever there is room.
    let at = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            len.next_multiple_of(4096),
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    assert_ne!(at, libc::MAP_FAILED);
    let from = std::ptr::with_exposed_provenance::<u8>(range.start().get() as usize);
    // SAFETY: the code that was loaded, and the mapping with room for it.
    unsafe { std::ptr::copy_nonoverlapping(from, at.cast(), len) };
    // SAFETY: the mapping is the test's, and stays.
    let done = unsafe { libc::mprotect(at, len.next_multiple_of(4096), libc::PROT_READ | libc::PROT_EXEC) };
    assert_eq!(done, 0);
    let start = at.expose_provenance() as u64;
    let image = loaded.image();
    let mut adoption = Adoption::new(image.arch, image.endian, image.stack_maps.clone()).not_yet_run();
    let mut addrs = Vec::new();
    for function in &image.functions {
        let addr = CodeAddr::new(start + function.addr.get() - range.start().get());
        adoption = adoption.function(&*function.name, addr, function.len);
        addrs.push(addr);
    }
    // SAFETY: the copy stays mapped read-execute, nobody else writes it, and it is not executed.
    let code = unsafe { adoption.function_addresses(&addrs).unwrap().promise().unwrap() };
    let code = engine.adopt(code, ask).unwrap();
    // SAFETY: what is told is true of the object's code, or refused.
    unsafe { engine.register(code, shape) }.unwrap()
}

fn exercise(ask: Option<StrategyChoice>) -> Arc<Watch> {
    let watch = Arc::new(Watch::default());
    let exit_stubs = ExitStubs::new()
        .on_miss(|frame| frame.resume())
        .on_deopt(|frame| frame.resume());
    let builder = Engine::builder()
        .world(Watched(Arc::clone(&watch)))
        .exits(exit_stubs);
    let engine = builder.build().unwrap();
    let module = match ask {
        None => {
            let code = engine.load(OBJECT, |_| None).unwrap();
            // SAFETY: what is told is true of the object's code, or refused.
            unsafe { engine.register(code, shape) }.unwrap()
        }
        Some(ask) => foreign(&engine, ask),
    };
    let sites: Vec<_> = module.sites().filter(|site| site.id().get() == 78).collect();
    assert_eq!(sites.len(), 2);
    engine.patch_site(&sites[0], &cache(1)).unwrap();
    // In a stub, twice, so that one is freed; both sites in one transaction.
    engine.patch(78, &cache(4)).unwrap();
    let with_stubs = engine.stub_stats().slots;
    engine.patch(78, &cache(5)).unwrap();
    engine.patch(78, &cache(1)).unwrap();
    assert_eq!(engine.stub_stats().slots, with_stubs - 2);
    // Refused in the stopped world: the transaction was prepared for what was there before.
    let stale = engine.plan(78, &cache(2)).unwrap();
    engine.restore(78).unwrap();
    let stopped = watch.stops.load(Ordering::Relaxed);
    stale.commit().unwrap_err();
    assert_eq!(watch.stops.load(Ordering::Relaxed), stopped + 1);
    engine.patch_site(&sites[1], &cache(1)).unwrap();
    engine
        .invalidate(&module.function("sum_fields").unwrap())
        .unwrap();
    engine.patch_site(&sites[0], &cache(4)).unwrap();
    engine.invalidate(&module.function("get").unwrap()).unwrap();
    watch
}

/// Refuses `membarrier` to this process from now on.
fn deny_membarrier() {
    let code = |code: u32| code as u16;
    let (load, jump, answer) = (
        code(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS),
        code(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K),
        code(libc::BPF_RET | libc::BPF_K),
    );
    let refuse = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
    // SAFETY: these only make values.
    let mut filter = unsafe {
        [
            libc::BPF_STMT(load, 0),
            libc::BPF_JUMP(jump, libc::SYS_membarrier as u32, 0, 1),
            libc::BPF_STMT(answer, refuse),
            libc::BPF_STMT(answer, libc::SECCOMP_RET_ALLOW),
        ]
    };
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: only takes rights away.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }, 0);
    // SAFETY: the program outlives the call, which copies it.
    let filtered = unsafe {
        libc::prctl(
            libc::PR_SET_SECCOMP,
            libc::SECCOMP_MODE_FILTER,
            &raw const program,
        )
    };
    assert_eq!(filtered, 0);
}

/// How often the allocator is called while other threads are made to serialize by signals.
fn calls_of_a_barrier_by_signals() -> u64 {
    deny_membarrier();
    let publisher = Publisher::new();
    assert!(publisher.to_string().contains("signal handler"), "{publisher}");
    let started = Arc::new(AtomicU64::new(0));
    for _ in 0..3 {
        let started = Arc::clone(&started);
        std::thread::spawn(move || {
            started.fetch_add(1, Ordering::SeqCst);
            loop {
                std::hint::spin_loop();
            }
        });
    }
    while started.load(Ordering::SeqCst) < 3 {
        std::thread::yield_now();
    }
    let before = CALLS.load(Ordering::Relaxed);
    for _ in 0..10 {
        publisher.serialize(Level::Immediate).unwrap();
    }
    CALLS.load(Ordering::Relaxed) - before
}

/// The same in a process of its own, whose threads go with it.
fn barrier_by_signals() {
    // SAFETY: the child uses what a fork leaves it, and ends itself.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let calls = std::panic::catch_unwind(calls_of_a_barrier_by_signals);
        // SAFETY: ends the child.
        unsafe { libc::_exit(calls.map_or(99, |calls| calls.min(98) as i32)) };
    }
    let mut status = 0;
    // SAFETY: the child is ours.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert!(libc::WIFEXITED(status), "{status:#x}");
    assert_eq!(libc::WEXITSTATUS(status), 0, "calls of the allocator, or 99");
}

#[test]
fn nothing_is_allocated_or_freed() {
    // qemu-user has no seccomp, so nothing can be denied.
    if !cfg!(emulated) {
        barrier_by_signals();
    }
    let choices = [
        None,
        Some(StrategyChoice::ProcMem),
        Some(StrategyChoice::Toggle),
        Some(StrategyChoice::Remap),
    ];
    // An emulator does not tell the flags of mappings, without which nothing is remapped.
    for ask in choices.into_iter().take(if cfg!(emulated) { 3 } else { 4 }) {
        let watch = exercise(ask);
        assert_eq!(watch.stops.load(Ordering::Relaxed), 10, "{ask:?}");
        assert_eq!(watch.calls.load(Ordering::Relaxed), 0, "{ask:?}");
    }
}
