//! Sites that are changed behind a trap: of every content, at every alignment, by one thread, with
//! every failure on the way, and beside threads.

use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use super::*;
use crate::arch::x86_64;
use crate::memory::testing::process::system_calls;
use crate::publish::trap::Traps;
use crate::publish::{Attached, ThreadHandle};
use crate::site::SiteSpec;

/// What a site holds, and what it adds to its function's argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    /// One nop of five bytes.
    Nop,
    /// Five nops, between which threads may be.
    Nops,
    /// A call of a function that adds 100 to its result.
    Call,
    /// A jump past an instruction that adds 7.
    Jump,
    /// A short jump past a nop, as XRay's sleds have it.
    Sled,
    /// Three instructions that add 3.
    Instructions,
}

const CONTENTS: [Content; 6] = [
    Content::Nop,
    Content::Nops,
    Content::Call,
    Content::Jump,
    Content::Sled,
    Content::Instructions,
];

impl Content {
    /// The bytes of a site, behind which are an instruction that adds 7 and the function's end. The
    /// callee lies `callee` bytes behind the site's start.
    fn bytes(self, callee: u32) -> Vec<u8> {
        match self {
            Self::Nop => vec![0x0f, 0x1f, 0x44, 0, 0],
            Self::Nops => vec![0x90; 5],
            Self::Call => [&[0xe8][..], &(callee - 5).to_le_bytes()].concat(),
            Self::Jump => vec![0xe9, 4, 0, 0, 0],
            Self::Sled => vec![0xeb, 9, 0x66, 0x0f, 0x1f, 0x84, 0, 0, 2, 0, 0],
            // inc rax; inc rax; inc rax
            Self::Instructions => [[0x48, 0xff, 0xc0]; 3].concat(),
        }
    }

    /// What a call of the function adds.
    const fn adds(self) -> u64 {
        match self {
            Self::Nop | Self::Nops | Self::Sled => 7,
            Self::Call => 107,
            Self::Jump => 0,
            Self::Instructions => 10,
        }
    }

    fn spec(self, offset: u32, reserved: u32) -> SiteSpec {
        let spec = match self {
            Self::Nop | Self::Nops => SiteSpec::nops("f", offset, reserved),
            Self::Call => SiteSpec::call("f", offset, reserved),
            Self::Jump => SiteSpec::jump("f", offset, reserved),
            Self::Sled | Self::Instructions => SiteSpec::instructions("f", offset, self.bytes(0)),
        };
        spec.id(ID).arg(x86_64::RDI).result(x86_64::RAX).free_flags()
    }

    /// Whether threads may be between its bytes.
    fn is_several(self) -> bool {
        matches!(self, Self::Nops | Self::Instructions)
    }
}

const ID: u64 = 31;
/// What is behind the site: `add rax, 7; ret`, and then a function: `add rax, 100; ret`.
const BEHIND: [u8; 5] = [0x48, 0x83, 0xc0, 7, 0xc3];
const ADDS_100: [u8; 5] = [0x48, 0x83, 0xc0, 100, 0xc3];

/// A function `f` with a site at an alignment: `mov rax, rdi`, nops, the site.
struct Emitted {
    memory: Arc<FailingMemory<Alias>>,
    start: CodeAddr,
    len: u32,
    content: Content,
    offset: u32,
    _placed: PlacedSegments,
}

impl Emitted {
    /// The site lies so many bytes behind a cache line.
    fn new(content: Content, into: u32) -> Self {
        let reserved = content.bytes(5).len() as u32;
        Self::holding(content, &content.bytes(reserved + BEHIND.len() as u32), into)
    }

    fn holding(content: Content, bytes: &[u8], into: u32) -> Self {
        let (mut code, offset) = (vec![0x48, 0x89, 0xf8], 64 + into);
        code.resize(offset as usize, 0x90);
        code.extend(bytes);
        code.extend(BEHIND);
        code.extend(ADDS_100);
        let need = SegmentNeed {
            kind: SegmentKind::Code,
            len: 4096,
            align: 64,
        };
        let mut placement = Arena::default().place(&[need], Reach::Anywhere).unwrap();
        let start = placement.segments()[0].range.start();
        placement.fill(start, &code).unwrap();
        let placed = placement.finalize().unwrap();
        Self {
            memory: Arc::new(FailingMemory::new(placed.memory())),
            start,
            len: code.len() as u32,
            content,
            offset,
            _placed: placed,
        }
    }

    /// Live, in code that has run already or may run at any time.
    fn running(&self, engine: &Engine) -> Module {
        self.try_running(engine).unwrap()
    }

    fn try_running(&self, engine: &Engine) -> crate::Result<Module> {
        let reserved = self.content.bytes(5).len() as u32;
        self.running_with(engine, self.content.spec(self.offset, reserved))
    }

    fn running_with(&self, engine: &Engine, spec: SiteSpec) -> crate::Result<Module> {
        let adoption =
            Adoption::without_stack_maps(Arch::X86_64).function("f", self.start, Len::new(self.len));
        // SAFETY: the memory lives as long as `self`, which outlives the engine's use of it in every test.
        let adopted = unsafe { adoption.promise() }.unwrap();
        let memory: Arc<dyn CodeMemory> = self.memory.clone();
        let code = engine.adopt_with(adopted, &memory).unwrap();
        // SAFETY: what is told is true of the code.
        unsafe { engine.registration(code).site(spec).live().finish() }
    }

    fn function(&self) -> extern "C" fn(u64) -> u64 {
        // SAFETY: the code is a function of that type.
        unsafe { std::mem::transmute(pointer(self.start)) }
    }
}

/// A sequence by which the function adds so much.
fn adds(number: u64) -> Sequence {
    Sequence::new().mov(result(), arg(0)).add(result(), number - 7)
}

fn attached(engine: &Engine) -> (ThreadHandle, Attached) {
    // SAFETY: only this thread executes, and it reports what is true.
    (engine.attach_thread(), unsafe { Attached::promise() })
}

/// Settles what was changed before: how many sites were.
fn settle(engine: &Engine, thread: &ThreadHandle, attached: &Attached) -> usize {
    let first = engine.settle(attached).unwrap();
    thread.quiescent();
    let second = engine.settle(attached).unwrap();
    assert_eq!(second.waiting, 0);
    first.settled + second.settled
}

/// Whether a trap is at the site's start.
fn is_closed(site: &Site) -> bool {
    site.read().unwrap()[0] == 0xcc
}

#[test]
fn sites_of_every_content_are_changed_at_every_alignment() {
    for content in CONTENTS {
        for into in 0..64 {
            let (engine, entered) = engine_in(NeverStopped);
            let emitted = Emitted::new(content, into);
            let f = emitted.function();
            assert_eq!(f(1000), 1000 + content.adds(), "{content:?}");
            let original = {
                let mut bytes = vec![0; content.bytes(5).len()];
                emitted
                    .memory
                    .read(emitted.start.plus(Len::new(emitted.offset)).unwrap(), &mut bytes)
                    .unwrap();
                bytes
            };
            let module = emitted.running(&engine);
            let (thread, attached) = attached(&engine);
            let site = site(&engine, ID);
            assert_eq!(emitted.memory.count(Call::Write), 0, "arming writes nothing");
            assert_eq!(site.read().unwrap(), original);
            for round in 0..3 {
                for number in [20, 30] {
                    engine.patch(ID, &adds(number)).unwrap();
                    assert_eq!(f(1000), 1000 + number, "{content:?} at {into}");
                    // Its gate is closed by a trap if threads could be between the bytes that change.
                    assert_eq!(is_closed(&site), content.is_several(), "{content:?} at {into}");
                }
                if round == 1 {
                    let settled = settle(&engine, &thread, &attached);
                    assert!(!is_closed(&site), "{content:?} at {into}");
                    assert!(settled == 1 || !content.is_several(), "{content:?} at {into}");
                    assert_eq!(f(1000), 1030);
                    engine.patch(ID, &adds(40)).unwrap();
                    assert!(!is_closed(&site) && f(1000) == 1040);
                }
                engine.restore(ID).unwrap();
                assert_eq!(site.read().unwrap(), original, "{content:?} at {into}");
                assert_eq!(f(1000), 1000 + content.adds());
            }
            engine.patch(ID, &adds(50)).unwrap();
            engine.invalidate_site(&site).unwrap();
            // The exit stub resumes with what the site did.
            assert_eq!((f(1000), entered.load(Ordering::Relaxed)), (1050, 1));
            settle(&engine, &thread, &attached);
            assert!(!is_closed(&site));
            assert_eq!((f(1000), entered.load(Ordering::Relaxed)), (1050, 2));
            drop(module);
        }
    }
}

/// Where the handler sends a thread that has executed a trap at a site.
fn noted(site: &Site) -> Option<CodeAddr> {
    Traps::install().unwrap().exit_stub(site.addr())
}

/// A thread may be between its trap and the handler's look at the table through any barrier.
#[test]
fn the_note_of_an_open_site_says_that_it_is_executed_again() {
    for content in CONTENTS {
        let (engine, emitted) = (engine(), Emitted::new(content, 62));
        let _module = emitted.running(&engine);
        let (thread, attached) = attached(&engine);
        let site = site(&engine, ID);
        for number in [20, 30] {
            engine.patch(ID, &adds(number)).unwrap();
            assert_eq!(noted(&site) == Some(site.addr()), !content.is_several());
        }
        settle(&engine, &thread, &attached);
        assert_eq!(noted(&site), Some(site.addr()), "{content:?}");
        engine.restore(ID).unwrap();
        assert_eq!(noted(&site), Some(site.addr()), "{content:?}");
    }
}

/// A fork's child would have the new note, and not the stub that it names.
#[test]
fn notes_are_not_changed_while_a_fork_is_under_way() {
    use crate::memory::fork::gate;
    assert!(in_child(|| {
        let (engine, emitted) = (engine(), Emitted::new(Content::Nops, 60));
        let module = emitted.running(&engine);
        let site = module.sites().next().unwrap();
        engine.patch(ID, &adds(20)).unwrap();
        let before = noted(&site);
        assert!(is_closed(&site) && before.is_some());
        // As another thread's fork does, which takes longer than a writer waits: the child gets no
        // code then.
        gate::close();
        thread::scope(|scope| {
            let patch = scope.spawn(|| engine.patch(ID, &adds(30)));
            while noted(&site) == before {
                thread::yield_now();
            }
            let has_waited = gate::was_broken();
            patch.join().unwrap().unwrap();
            has_waited
        })
    }));
}

#[test]
fn a_site_closed_by_a_trap_waits_for_quiescent_threads_through_later_patches() {
    for content in [Content::Nops, Content::Instructions] {
        let (engine, emitted) = (engine(), Emitted::new(content, 60));
        let _module = emitted.running(&engine);
        let (thread, attached) = attached(&engine);
        let (site, f) = (site(&engine, ID), emitted.function());
        let settle = || {
            let done = engine.settle(&attached).unwrap();
            (done.settled, done.waiting)
        };
        engine.patch(ID, &adds(20)).unwrap();
        assert_eq!(settle(), (0, 1));
        // Frames of compiled code may return between its bytes.
        thread.checkpoint();
        assert_eq!(settle(), (0, 1));
        engine.patch(ID, &adds(30)).unwrap();
        assert!(is_closed(&site) && f(0) == 30);
        thread.quiescent();
        // It has been closed all the time.
        engine.patch(ID, &adds(40)).unwrap();
        assert_eq!(settle(), (1, 0));
        assert!(!is_closed(&site) && f(0) == 40);
        assert_eq!(settle(), (0, 0));
        engine.restore(ID).unwrap();
        engine.patch(ID, &adds(50)).unwrap();
        assert_eq!(settle(), (0, 1));
        // Opened, and closed again: whoever has reported before may be between its bytes.
        engine.restore(ID).unwrap();
        thread.quiescent();
        engine.patch(ID, &adds(60)).unwrap();
        assert_eq!(settle().0, 0);
        assert!(is_closed(&site) && f(0) == 60);
        thread.quiescent();
        assert_eq!(settle(), (1, 0));
        assert!(!is_closed(&site) && f(0) == 60);
    }
}

/// Where the runtime has told that somebody returns between the bytes of a jump, they are waited for,
/// as those between instructions are: once, as nobody returns into a jump.
#[test]
fn told_return_offsets_are_waited_for() {
    let (engine, emitted) = (engine(), Emitted::new(Content::Sled, 62));
    let spec = Content::Sled.spec(emitted.offset, 11).returns_to(2);
    let _module = emitted.running_with(&engine, spec).unwrap();
    let (thread, attached) = attached(&engine);
    let (site, f) = (site(&engine, ID), emitted.function());
    let original = site.read().unwrap();
    for _ in 0..3 {
        engine.patch(ID, &adds(20)).unwrap();
        assert!(is_closed(&site) && f(0) == 20);
        assert_eq!(settle(&engine, &thread, &attached), 1);
        engine.patch(ID, &adds(30)).unwrap();
        assert!(!is_closed(&site) && f(0) == 30);
        engine.restore(ID).unwrap();
        assert_eq!((site.read().unwrap(), f(0)), (original.clone(), 7));
    }
}

/// Patched while it waits, a site is listed twice, and opened once.
#[test]
fn a_site_that_is_patched_while_it_waits_is_opened_once() {
    let (engine, emitted) = (engine(), Emitted::new(Content::Nops, 61));
    let _module = emitted.running(&engine);
    let (thread, attached) = attached(&engine);
    let f = emitted.function();
    for number in [20, 30, 40] {
        engine.patch(ID, &adds(number)).unwrap();
        assert_eq!(engine.settle(&attached).unwrap().settled, 0);
    }
    thread.quiescent();
    assert_eq!(engine.settle(&attached).unwrap().settled, 1);
    assert_eq!(f(0), 40);
    for number in [50, 60] {
        engine.patch(ID, &adds(number)).unwrap();
        assert_eq!(f(0), number);
    }
}

/// What was planned before a site was opened, or patched again, is forgotten, and what was planned
/// since is not.
#[test]
fn what_was_planned_last_is_settled() {
    let (engine, emitted) = (engine(), Emitted::new(Content::Nops, 61));
    let _running = emitted.running(&engine);
    let loaded = live_module(&engine);
    let (thread, attached) = attached(&engine);
    let site = site(&engine, ID);
    let begin = || assert_eq!(engine.settle(&attached).unwrap().settled, 0);
    engine.patch(ID, &adds(20)).unwrap();
    engine.patch(107, &adding(1)).unwrap();
    begin();
    engine.restore(ID).unwrap();
    engine.patch(ID, &adds(30)).unwrap();
    engine.patch(107, &adding(2)).unwrap();
    begin();
    thread.quiescent();
    assert_eq!(engine.settle(&attached).unwrap().settled, 2);
    assert!(!is_closed(&site) && engine.settle(&attached).unwrap().waiting == 0);
    assert_eq!((emitted.function()(0), call(&loaded, "any_7", 1000)), (30, 1002));
}

/// Each call of the memory fails once, at each step of each change.
#[test]
fn a_change_that_fails_at_any_step_leaves_what_was_there() {
    for content in CONTENTS {
        for (call, settled) in [Call::Exchange, Call::Write, Call::Read]
            .into_iter()
            .flat_map(|call| [(call, false), (call, true)])
        {
            fail_everywhere(content, call, settled);
        }
    }
}

fn fail_everywhere(content: Content, call: Call, settled: bool) {
    let (engine, emitted) = (engine(), Emitted::new(content, 62));
    let _module = emitted.running(&engine);
    let (thread, attached) = attached(&engine);
    let (site, f) = (site(&engine, ID), emitted.function());
    let (mut failures, mut adds_now) = (0, content.adds());
    for number in 20..40 {
        // A change of each kind: the first patch, of a patched site, restoring.
        for step in 0..3 {
            let change = || match step {
                0 | 1 => engine.patch(ID, &adds(number + 100 * step)).map(drop),
                _ => engine.restore(ID).map(drop),
            };
            if settled && step > 0 {
                settle(&engine, &thread, &attached);
            }
            let (held, note) = (site.read().unwrap(), noted(&site));
            for after in 0.. {
                let retired = engine.retired().len();
                emitted.memory.fail_after(call, after);
                let changed = change();
                let failed = emitted.memory.has_failed();
                emitted.memory.heal();
                if changed.is_ok() {
                    assert!(!failed, "{content:?}");
                    break;
                }
                assert!(
                    !matches!(changed, Err(Error::RollBackFailed { .. })),
                    "{changed:?}"
                );
                failures += 1;
                // As it was, and a late thread finds what is there, or what is kept.
                assert_eq!(site.read().unwrap(), held, "{content:?} {call:?} {after}");
                assert_eq!(f(1000), 1000 + adds_now, "{content:?} {call:?} {after}");
                let again = noted(&site);
                assert!(
                    again == note || again == Some(site.addr()),
                    "{content:?} {call:?} {after}: {note:?} became {again:?}"
                );
                assert!(
                    step == 2 || engine.retired().len() > retired,
                    "{content:?} {call:?} {after}"
                );
            }
            adds_now = match step {
                0 | 1 => number + 100 * step,
                _ => content.adds(),
            };
            assert_eq!(f(1000), 1000 + adds_now, "{content:?}");
        }
    }
    // A trap and its note are all that changes of sites that stay closed.
    let writes = call != Call::Write || settled || !content.is_several();
    assert!(failures >= 20 || !writes, "{content:?} {call:?}: {failures}");
}

/// Opening a site that was closed by a trap may fail at each call of the memory, and is done later.
#[test]
fn an_opening_that_fails_at_any_step_leaves_the_site_right() {
    for (content, call) in [Content::Nops, Content::Instructions]
        .into_iter()
        .flat_map(|content| [Call::Exchange, Call::Write, Call::Read].map(|call| (content, call)))
    {
        let (engine, emitted) = (engine(), Emitted::new(content, 62));
        let _module = emitted.running(&engine);
        let (thread, attached) = attached(&engine);
        let (site, f) = (site(&engine, ID), emitted.function());
        let mut failures = 0;
        for after in 0.. {
            engine.restore(ID).unwrap();
            engine.patch(ID, &adds(20)).unwrap();
            assert_eq!(engine.settle(&attached).unwrap().waiting, 1);
            thread.quiescent();
            emitted.memory.fail_after(call, after);
            let settled = engine.settle(&attached);
            let failed = emitted.memory.has_failed();
            emitted.memory.heal();
            assert_eq!(f(1000), 1020, "{content:?} {call:?} {after}");
            if settled.is_ok() {
                assert!(!failed && !is_closed(&site));
                break;
            }
            failures += 1;
            if let Err(Error::RollBackFailed { .. }) = settled {
                // It was opened, and could not be read back: it does what it should.
                assert!(call == Call::Read && !is_closed(&site), "{settled:?}");
                break;
            }
            assert!(is_closed(&site), "{content:?} {call:?} {after}");
            // It can be changed, and settled.
            engine.patch(ID, &adds(30)).unwrap();
            assert_eq!(f(1000), 1030);
            assert_eq!(settle(&engine, &thread, &attached), 1);
            assert!(!is_closed(&site) && f(1000) == 1030);
        }
        assert!(failures > 0, "{content:?} {call:?}");
    }
}

/// Where the first instruction is a nop that can be exchanged, but others follow.
#[test]
fn original_code_behind_a_nop_is_not_written_over() {
    let engine = engine();
    // The nop, what adds 7, and room.
    let code = [&[0x0f, 0x1f, 0x44, 0, 0, 0x48, 0x83, 0xc0, 7][..], &[0x90; 8]].concat();
    let emitted = Emitted::holding(Content::Nop, &code, 0);
    let spec = SiteSpec::instructions("f", emitted.offset, code)
        .id(ID)
        .arg(x86_64::RDI)
        .result(x86_64::RAX)
        .free_flags();
    let _module = emitted.running_with(&engine, spec).unwrap();
    let (thread, attached) = attached(&engine);
    let f = emitted.function();
    for _ in 0..3 {
        engine.patch(ID, &Sequence::new().mov(result(), 5_u64)).unwrap();
        assert_eq!(f(1000), 12);
        assert_eq!(settle(&engine, &thread, &attached), 0);
        engine.restore(ID).unwrap();
        assert_eq!(f(1000), 1014);
    }
}

#[test]
fn where_there_can_be_no_handler_no_site_needs_one() {
    assert!(in_child(|| {
        let (engine, emitted) = (engine(), Emitted::new(Content::Nop, 62));
        deny(&[libc::SYS_rt_sigaction], libc::EPERM);
        let refused = emitted.try_running(&engine);
        matches!(refused, Err(Error::Publish(_))) && engine.modules().is_empty()
    }));
}

/// Where the cores cannot be made to serialize, nothing is rewritten behind a trap; sites that stay
/// closed can be changed.
#[test]
fn without_a_barrier_nothing_is_rewritten() {
    assert!(in_child(|| {
        deny(&[libc::SYS_membarrier, libc::SYS_openat], libc::EPERM);
        CONTENTS.into_iter().all(|content| {
            let (engine, emitted) = (engine(), Emitted::new(content, 62));
            let _module = emitted.running(&engine);
            let before = site(&engine, ID).read().unwrap();
            let patched = engine.patch(ID, &adds(20));
            let no_barrier = matches!(
                patched,
                Err(Error::Publish(crate::publish::Error::NoBarrier { .. }))
            );
            match content.is_several() {
                true => patched.is_ok() && emitted.function()(0) == 20,
                false => {
                    no_barrier
                        && site(&engine, ID).read().unwrap() == before
                        && emitted.memory.count(Call::Exchange) == 1
                }
            }
        })
    }));
}

/// Two barriers however many sites, also where threads must not execute what was there: the first
/// sees to that.
#[test]
fn a_change_behind_a_trap_has_two_barriers_however_many_sites() {
    if !barriers::has_membarrier() {
        return;
    }
    let barriers = |sites: usize, immediate: bool| {
        let prepare = || {
            let engine = engine();
            let emitted: Vec<Emitted> = (0..sites).map(|_| Emitted::new(Content::Nop, 62)).collect();
            let modules: Vec<Module> = emitted.iter().map(|emitted| emitted.running(&engine)).collect();
            (engine, emitted, modules)
        };
        let patch = |(engine, _emitted, _modules): (Engine, Vec<Emitted>, Vec<Module>)| {
            let mut transaction = engine.transaction();
            transaction.patch(ID, &adds(20)).unwrap();
            let done = match immediate {
                true => transaction.immediate().commit(),
                false => transaction.commit(),
            };
            assert_eq!(done.unwrap().sites, sites);
        };
        let calls = system_calls(prepare, patch);
        calls.iter().filter(|call| **call == libc::SYS_membarrier).count()
    };
    for sites in [1, 2, 8] {
        assert_eq!((barriers(sites, false), barriers(sites, true)), (2, 2), "{sites}");
    }
}

/// Two threads execute a site of each content while it is patched, restored and settled.
#[test]
fn sites_are_changed_behind_a_trap_while_threads_execute_them() {
    for content in CONTENTS {
        for into in [1, 6, 60, 62] {
            let (settled, traps, calls) = changed_while_executed(content, into, Duration::from_millis(150));
            println!("{content:?} at {into}: {calls} executions, {traps} traps taken, {settled} settled");
        }
    }
}

fn changed_while_executed(content: Content, into: u32, limit: Duration) -> (usize, u64, u64) {
    let (engine, emitted) = (engine(), Emitted::new(content, into));
    let _module = emitted.running(&engine);
    let f = emitted.function();
    // SAFETY: the readers are attached, and report what is true.
    let attached = unsafe { Attached::promise() };
    let traps = Traps::install().unwrap();
    let taken = traps.taken();
    let (stop, wrong, calls) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let settled = thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let handle = engine.attach_thread();
                let right = [content.adds(), 20, 30, 40];
                while !stop.load(Ordering::Acquire) {
                    for x in 0..64 {
                        wrong.fetch_add(u64::from(!right.contains(&(f(x) - x))), Ordering::Relaxed);
                    }
                    calls.fetch_add(64, Ordering::Relaxed);
                    handle.quiescent();
                }
            });
        }
        let (end, mut settled, mut round) = (Instant::now() + limit, 0, 0);
        while (Instant::now() < end || calls.load(Ordering::Relaxed) < 1000)
            && wrong.load(Ordering::Relaxed) == 0
        {
            match round % 4 {
                3 => engine.restore(ID).map(drop),
                number => engine.patch(ID, &adds(20 + 10 * number)).map(drop),
            }
            .unwrap();
            for _ in 0..round % 3 {
                settled += engine.settle(&attached).unwrap().settled;
                thread::yield_now();
            }
            engine.reclaim_passed(&attached).unwrap();
            round += 1;
        }
        stop.store(true, Ordering::Release);
        settled
    });
    assert_eq!(wrong.load(Ordering::Relaxed), 0, "{content:?} at {into}");
    (settled, traps.taken() - taken, calls.load(Ordering::Relaxed))
}

/// Beside sites for which the threads are stopped, in one transaction: both, or none.
#[test]
fn sites_behind_a_trap_go_with_quiescent_ones() {
    for content in [Content::Nop, Content::Nops] {
        // SAFETY: this thread alone executes.
        let (engine, _) = engine_in(unsafe { SingleThreaded::promise() });
        let (emitted, entries) = (Emitted::new(content, 62), Entries::new(1));
        let _live = emitted.running(&engine);
        let registration = entries.registration(&engine, true, 16);
        // SAFETY: what is told is true of the code.
        let quiescent = unsafe { registration.register(|_| None::<CallShape>) }.unwrap();
        let (f, site) = (emitted.function(), site(&engine, ID));
        let before = site.read().unwrap();
        let change = || {
            let mut transaction = engine.transaction();
            transaction.patch(ID, &adds(20)).unwrap();
            transaction.patch(0, &returning::<9>()).unwrap();
            transaction.commit()
        };
        entries.memory.fail_after(Call::Write, 0);
        assert!(change().is_err() && entries.memory.has_failed());
        assert_eq!((site.read().unwrap(), noted(&site)), (before, Some(site.addr())));
        assert_eq!((f(0), call(&quiescent, "f0", 1)), (content.adds(), 7));
        change().unwrap();
        assert_eq!((f(0), call(&quiescent, "f0", 1)), (20, 9));
        assert_eq!(noted(&site) == Some(site.addr()), !content.is_several());
    }
}
