//! A thread parked at each instruction boundary of a live site, and of the stub that it went to,
//! between any two steps of a change and of the settling that follows.
//!
//! Problem: that a thread executes the old sequence or the new one, never a mixture, has to hold
//! wherever it is when the writer takes its next step, also if it stays there until the writer has
//! taken all of them. Approach: the thread executes step by step, with the trap flag set, and waits
//! in the handler of its single steps. The writer is stopped between its steps by the memory's
//! hooks, before and after each call. So every boundary is tried with every pair of steps, for each
//! kind of gate. The sequences add numbers of which no two sums are the same, so that a mixture shows.
//!
//! What a core has fetched before it serialized is not shown so, as each single step serializes:
//! that is for the model, and for the stress.

use std::io::Write;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use super::hooked::Hooked;
use super::*;
use crate::arch::x86_64;
use crate::engine::Settled;
use crate::memory::testing::process::{End, end_of_child};
use crate::publish::Attached;
use crate::publish::trap::Traps;
use crate::site::SiteSpec;

// ---- the thread that steps ----

/// The program counters that are counted: those of the site, its end included, and of its stub.
static WATCHED: [[AtomicU64; 2]; 2] = [const { [const { AtomicU64::new(0) }; 2] }; 2];
/// How many of them the thread still passes before it waits at one.
static PASSES: AtomicU64 = AtomicU64::new(0);
/// Where the thread waits; 0 while it runs.
static PARKED: AtomicU64 = AtomicU64::new(0);
/// Whether it may call the function, and whether the call is over.
static MAY_CALL: AtomicBool = AtomicBool::new(false);
static IS_OVER: AtomicBool = AtomicBool::new(false);
/// How often it has trapped.
static TRAPPED: AtomicU64 = AtomicU64::new(0);
/// The handler that was there: the engine's.
static ENGINES: AtomicU64 = AtomicU64::new(0);

/// Sleeps until then: whoever yields instead has a busy machine wait for its whole share of time.
fn wait(until: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !until() {
        assert!(Instant::now() < end, "half a minute has passed");
        doze();
    }
}

/// Async-signal-safe.
fn doze() {
    let time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 20_000,
    };
    // SAFETY: reads the time.
    unsafe { libc::nanosleep(&raw const time, std::ptr::null_mut()) };
}

/// Takes place after each instruction of the thread that steps, and at traps.
extern "C" fn on_trap(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: what the kernel passes.
    if unsafe { (*info).si_code } != libc::TRAP_TRACE {
        TRAPPED.fetch_add(1, Ordering::SeqCst);
        let engines = ENGINES.load(Ordering::SeqCst) as usize;
        // SAFETY: as the system has told, of a handler with SA_SIGINFO.
        let engines: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
            unsafe { std::mem::transmute(engines) };
        return engines(signal, info, context);
    }
    // SAFETY: as above, and nothing else refers to it.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let at = registers[libc::REG_RIP as usize] as u64;
    let is_watched =
        |[from, to]: &[AtomicU64; 2]| (from.load(Ordering::SeqCst)..=to.load(Ordering::SeqCst)).contains(&at);
    if !WATCHED.iter().any(is_watched) || PASSES.fetch_sub(1, Ordering::SeqCst) != 0 {
        return;
    }
    PARKED.store(at, Ordering::SeqCst);
    while PARKED.load(Ordering::SeqCst) != 0 {
        doze();
    }
    // The rest of the call in one go.
    registers[libc::REG_EFL as usize] &= !0x100;
}

/// Puts the handler of single steps before the engine's handler of traps.
fn install() {
    Traps::install().unwrap();
    // SAFETY: all zeros is an action; the handler lives as long as the process.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let mut before: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_trap as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        let done = libc::sigaction(libc::SIGTRAP, &raw const action, &raw mut before);
        assert_eq!(done, 0);
        ENGINES.store(before.sa_sigaction as u64, Ordering::SeqCst);
    }
}

/// Calls the function step by step.
fn step(entry: CodeAddr, x: u64) -> u64 {
    let value: u64;
    // SAFETY: a function of a word that returns one; the handler of single steps is installed. What is pushed may not
    // lie in a red zone: no caller's frame is a leaf's, as this calls.
    unsafe {
        std::arch::asm!(
            "pushfq", "or dword ptr [rsp], 0x100", "popfq",
            "call {entry}",
            "pushfq", "and dword ptr [rsp], 0xfffffeff", "popfq",
            entry = in(reg) entry.get(), in("rdi") x, out("rax") value,
            clobber_abi("C"),
        );
    }
    value
}

/// Lets the thread call the function, until it waits at its boundary or has returned. Where it is to
/// execute a trap again until the writer goes on, it waits nowhere.
fn let_in(site: &Site) {
    let bytes = site.read().unwrap();
    let watch = |number: usize, from: u64, to: u64| {
        WATCHED[number][0].store(from, Ordering::SeqCst);
        WATCHED[number][1].store(to, Ordering::SeqCst);
    };
    watch(0, site.addr().get(), site.end().get());
    let stub = stub_of(site, &bytes).filter(|stub| *stub != site.end().get());
    match stub {
        Some(stub) => watch(1, stub, stub + 63),
        None => watch(1, 1, 0),
    }
    TRAPPED.store(0, Ordering::SeqCst);
    MAY_CALL.store(true, Ordering::SeqCst);
    let is_trapped = || TRAPPED.load(Ordering::SeqCst) > 3;
    wait(|| PARKED.load(Ordering::SeqCst) != 0 || IS_OVER.load(Ordering::SeqCst) || is_trapped());
    if is_trapped() {
        PASSES.store(u64::MAX, Ordering::SeqCst);
    }
}

/// Where a thread goes that arrives: by a trap, or by a jump in the place of the gate. No nop before
/// that holds its first byte.
fn stub_of(site: &Site, bytes: &[u8]) -> Option<u64> {
    if bytes[0] == 0xcc {
        let noted = Traps::install().unwrap().exit_stub(site.addr());
        return noted.map(CodeAddr::get).filter(|to| *to != site.addr().get());
    }
    let at = bytes.iter().position(|byte| *byte == 0xe9)?;
    let displacement = i32::from_le_bytes(bytes.get(at + 1..at + 5)?.try_into().unwrap());
    let end = site.addr().get() + at as u64 + 5;
    Some(end.wrapping_add_signed(i64::from(displacement)))
}

/// Lets the thread go on when it is dropped, also by a panic.
struct GoOn;

impl Drop for GoOn {
    fn drop(&mut self) {
        PASSES.store(u64::MAX, Ordering::SeqCst);
        MAY_CALL.store(true, Ordering::SeqCst);
        PARKED.store(0, Ordering::SeqCst);
    }
}

// ---- the sites ----

const ID: u64 = 31;

/// What lies where: the site of a function that returns its argument, and what the site adds.
#[derive(Clone, Copy, Debug)]
struct Layout {
    /// What the site holds.
    content: &'static [u8],
    adds: u64,
    /// How far behind a quadword's start it lies.
    into: u32,
    has_run: bool,
}

const LONG_NOP: &[u8] = &[0x0f, 0x1f, 0x44, 0, 0];
const NOPS: &[u8] = &[0x90; 48];
/// inc rax, three times.
const ADDS_3: &[u8] = &[0x48, 0xff, 0xc0, 0x48, 0xff, 0xc0, 0x48, 0xff, 0xc0];
/// The same, with nops behind.
const ADDS_3_AND_ROOM: &[u8] = &{
    let mut code = [0x90; 40];
    let mut at = 0;
    while at < ADDS_3.len() {
        code[at] = ADDS_3[at];
        at += 1;
    }
    code
};

/// Sites of one kind, at some alignments.
fn layouts(content: &'static [u8], adds: u64, intos: &[u32], has_run: bool) -> Vec<Layout> {
    let layout = |into: &u32| Layout {
        content,
        adds,
        into: *into,
        has_run,
    };
    intos.iter().map(layout).collect()
}

impl Layout {
    /// The function, whose site is so many bytes behind its start.
    fn code(&self) -> (Vec<u8>, u32) {
        // mov rax, rdi
        let (mut code, offset) = (vec![0x48, 0x89, 0xf8], 8 + self.into);
        code.resize(offset as usize, 0x90);
        code.extend(self.content);
        code.push(0xc3);
        (code, offset)
    }

    fn spec(&self, offset: u32) -> SiteSpec {
        let spec = match self.adds {
            0 => SiteSpec::nops("f", offset, self.content.len() as u32),
            _ => SiteSpec::instructions("f", offset, self.content),
        };
        spec.id(ID).arg(x86_64::RDI).result(x86_64::RAX).free_flags()
    }
}

/// What a site is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Original,
    First,
    Second,
}

impl Form {
    fn put(self, engine: &Engine) {
        let changed = match self {
            Self::Original => engine.restore(ID),
            Self::First => engine.patch(ID, &adding(0x1).add(result(), 0x200_u64)),
            // Other lengths: what is behind begins at another offset.
            Self::Second => engine.patch(
                ID,
                &adding(0x4000).add(result(), 0x8_u64).add(result(), 0x10_0000_u64),
            ),
        };
        changed.unwrap();
    }

    fn value(self, layout: &Layout, x: u64) -> u64 {
        x + match self {
            Self::Original => layout.adds,
            Self::First => 0x201,
            Self::Second => 0x10_4008,
        }
    }
}

// ---- the steps ----

/// What the writer does, one after the other. Each is some calls of the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Operation {
    /// Closes; behind a trap it may also rewrite and open.
    Change,
    /// Begins the grace period: the first call of `settle`.
    Begin,
    /// Rewrites and opens: the second one.
    Settle,
}

const OPERATIONS: [Operation; 3] = [Operation::Change, Operation::Begin, Operation::Settle];

/// When the thread comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arrival {
    Before(Operation),
    /// Just before the call of the memory with that number, or just after it.
    BeforeCall(Operation, u64),
    AfterCall(Operation, u64),
}

impl Arrival {
    fn operation(self) -> Operation {
        match self {
            Self::Before(operation) | Self::BeforeCall(operation, _) | Self::AfterCall(operation, _) => {
                operation
            }
        }
    }

    /// Whether it comes before the change is in effect: by the first call, or, where a trap is the
    /// gate already, by the handler's note of it, before any.
    fn is_before_close(self, is_trapped: bool) -> bool {
        match self {
            Self::Before(Operation::Change) => true,
            Self::BeforeCall(Operation::Change, 0) => !is_trapped,
            _ => false,
        }
    }
}

/// A change that is tried: from what, whether that is settled before, and to what.
#[derive(Clone, Copy, Debug)]
struct Trial {
    from: Form,
    is_settled: bool,
    to: Form,
}

const TRIALS: [Trial; 5] = [
    trial(Form::Original, true, Form::Second),
    trial(Form::First, false, Form::Second),
    trial(Form::First, true, Form::Second),
    trial(Form::First, false, Form::Original),
    trial(Form::First, true, Form::Original),
];

const fn trial(from: Form, is_settled: bool, to: Form) -> Trial {
    Trial { from, is_settled, to }
}

#[derive(Debug, Default)]
struct Totals {
    parked: u64,
    old: u64,
    new: u64,
    /// Changes that were settled while a thread was parked, and that waited for it.
    settled: u64,
    waited: u64,
}

struct Lab {
    layout: Layout,
    engine: Engine,
    memory: Arc<Hooked>,
    site: Site,
    entry: CodeAddr,
    attached: Attached,
    _module: Module,
    _placed: PlacedSegments,
}

impl Lab {
    fn new(layout: Layout) -> Self {
        let (engine, (code, offset)) = (engine(), layout.code());
        let need = SegmentNeed {
            kind: SegmentKind::Code,
            len: 4096,
            align: 64,
        };
        let mut placement = Arena::default().place(&[need], Reach::Anywhere).unwrap();
        let entry = placement.segments()[0].range.start();
        placement.fill(entry, &code).unwrap();
        let placed = placement.finalize().unwrap();
        let memory = Arc::new(Hooked::new(placed.memory()));
        let adoption =
            Adoption::without_stack_maps(Arch::X86_64).function("f", entry, Len::of(&code).unwrap());
        let adoption = match layout.has_run {
            true => adoption,
            false => adoption.not_yet_run(),
        };
        // SAFETY: the memory lives as long as the engine's use of it, and nobody else writes there.
        let adopted = unsafe { adoption.promise() }.unwrap();
        let written: Arc<dyn CodeMemory> = memory.clone();
        let loaded = engine.adopt_with(adopted, &written).unwrap();
        let registration = engine.registration(loaded).site(layout.spec(offset)).live();
        // SAFETY: what is told is true of the code.
        let module = unsafe { registration.finish() }.unwrap();
        module.release();
        Self {
            layout,
            site: site(&engine, ID),
            engine,
            memory,
            entry,
            // SAFETY: the thread that steps is attached when it executes, and reports when its call has returned; this
            // one is in no call when it frees.
            attached: unsafe { Attached::promise() },
            _module: module,
            _placed: placed,
        }
    }

    fn settle(&self) -> Settled {
        self.engine.settle(&self.attached).unwrap()
    }

    fn reclaim(&self) -> usize {
        self.engine.reclaim_passed(&self.attached).unwrap()
    }

    /// Brings the site into the form that a trial begins with. Nobody is attached.
    fn begin(&self, trial: Trial) {
        self.memory.unhook();
        let settle = || _ = (self.settle(), self.settle());
        Form::Original.put(&self.engine);
        settle();
        trial.from.put(&self.engine);
        if trial.is_settled {
            settle();
        }
        while !self.engine.retired().is_empty() {
            self.reclaim();
        }
    }

    fn call(&self) -> u64 {
        // SAFETY: a function of that type.
        let function: extern "C" fn(u64) -> u64 = unsafe { std::mem::transmute(self.entry.get() as usize) };
        function(1 << 40)
    }

    /// How many calls of the memory each operation makes.
    fn calls(&self, trial: Trial) -> [u64; 3] {
        self.begin(trial);
        OPERATIONS.map(|operation| {
            self.memory.unhook();
            match operation {
                Operation::Change => trial.to.put(&self.engine),
                Operation::Begin | Operation::Settle => _ = self.settle(),
            }
            self.memory.calls()
        })
    }

    /// Lets the thread in when it is to come, during an operation.
    fn hook(&self, arrival: Arrival) {
        let site = self.site.clone();
        match arrival {
            Arrival::Before(_) => let_in(&site),
            Arrival::BeforeCall(_, number) => self.memory.hook(move |before| {
                if before == number {
                    let_in(&site);
                }
                Ok(())
            }),
            Arrival::AfterCall(_, number) => self.memory.hook_after(move |before| {
                if before == number {
                    let_in(&site);
                }
            }),
        }
    }

    /// One trial, in which the thread comes then and waits behind so many instructions. False where
    /// it has returned before.
    fn run(&self, trial: Trial, arrival: Arrival, passes: u64, totals: &mut Totals) -> bool {
        self.begin(trial);
        let x = 0x1000_0000 + passes;
        let is_trapped = self.site.read().unwrap()[0] == 0xcc;
        let what = || format!("{:02x?}: {trial:?}, {arrival:?}, {passes} passed", self.layout);
        PASSES.store(passes, Ordering::SeqCst);
        MAY_CALL.store(false, Ordering::SeqCst);
        IS_OVER.store(false, Ordering::SeqCst);
        let is_attached = AtomicBool::new(false);
        let reader = || {
            let handle = self.engine.attach_thread();
            is_attached.store(true, Ordering::SeqCst);
            wait(|| MAY_CALL.load(Ordering::SeqCst));
            let value = step(self.entry, x);
            IS_OVER.store(true, Ordering::SeqCst);
            handle.quiescent();
            value
        };
        // Who is attached before the grace period begins has to report; who comes later has not been behind the gate.
        let is_late = arrival.operation() == Operation::Settle;
        thread::scope(|scope| {
            let go_on = GoOn;
            let mut thread = None;
            let mut attach = || {
                thread = Some(scope.spawn(reader));
                wait(|| is_attached.load(Ordering::SeqCst));
            };
            if !is_late {
                attach();
            }
            if arrival.operation() == Operation::Change {
                self.hook(arrival);
            }
            trial.to.put(&self.engine);
            self.memory.unhook();
            if arrival.operation() == Operation::Begin {
                self.hook(arrival);
            }
            let begun = self.settle();
            self.memory.unhook();
            assert_eq!(begun.settled, 0, "{}", what());
            if is_late {
                attach();
                self.hook(arrival);
                let done = self.settle();
                self.memory.unhook();
                assert_eq!((done.settled, done.waiting), (1, 0), "{}", what());
                totals.settled += 1;
            }
            let at = PARKED.load(Ordering::SeqCst);
            if at != 0 && !is_late {
                // It is waited for, and nothing is written meanwhile.
                let held = self.site.read().unwrap();
                for _ in 0..3 {
                    let done = self.settle();
                    assert_eq!((done.settled, done.waiting), (0, begun.waiting), "{}", what());
                }
                assert_eq!(self.memory.calls(), 0, "{}", what());
                assert_eq!(self.site.read().unwrap(), held, "{}", what());
                totals.waited += begun.waiting as u64;
            }
            if at != 0 {
                // Nor is freed what it may be in: if it were, it would be filled with traps.
                let freed = [self.reclaim(), self.reclaim()];
                assert!(is_late || freed == [0, 0], "{}", what());
            }
            drop(go_on);
            let value = thread.expect("it came").join().expect("it returns");
            let [old, new] = [trial.from, trial.to].map(|form| form.value(&self.layout, x));
            let gate = self.site.addr().get() + self.gate();
            let arrives_later = (self.site.addr().get()..=gate).contains(&at);
            let expected = match arrival.is_before_close(is_trapped) && !arrives_later {
                true => old,
                false => new,
            };
            assert_eq!(value, expected, "{} at {at:#x}", what());
            totals.old += u64::from(value == old);
            totals.new += u64::from(value == new);
            totals.parked += u64::from(at != 0);
            if !is_late && begun.waiting > 0 {
                assert_eq!(self.settle().settled, 1, "{}", what());
            }
            assert_eq!(self.call(), trial.to.value(&self.layout, 1 << 40), "{}", what());
            at != 0
        })
    }

    /// Where the gate is in the site.
    fn gate(&self) -> u64 {
        let jump = self.site.plan_patchable_jump();
        match self.layout.has_run {
            // It is not moved.
            true => 0,
            false => jump.map_or(0, |jump| u64::from(jump.offset.get())),
        }
    }

    /// Every trial with every arrival and every boundary.
    fn run_all(&self, totals: &mut Totals) {
        for trial in TRIALS {
            let calls = self.calls(trial);
            assert!(calls[0] >= 1, "{:02x?}: {trial:?} {calls:?}", self.layout);
            for (operation, calls) in OPERATIONS.into_iter().zip(calls) {
                // Who comes when there is nothing to settle comes to what is.
                if operation == Operation::Settle && calls == 0 {
                    continue;
                }
                let during = (0..calls).flat_map(|call| {
                    [
                        Arrival::BeforeCall(operation, call),
                        Arrival::AfterCall(operation, call),
                    ]
                });
                for arrival in std::iter::once(Arrival::Before(operation)).chain(during) {
                    let mut passes = 0;
                    while self.run(trial, arrival, passes, totals) {
                        passes += 1;
                    }
                    // The first, at least: a trap may go past the site.
                    assert!(passes >= 1, "{:02x?}: {trial:?} {arrival:?}", self.layout);
                }
            }
        }
    }
}

/// Says of a panic what a forked child does not say, as its parent may hold the locks of what says
/// it.
fn say_panics() {
    std::panic::set_hook(Box::new(|info| {
        let _ = writeln!(std::io::stderr(), "{info}");
    }));
}

/// Tries everything with sites of these layouts, in a process of its own, as the handler of single
/// steps is for all threads of one. There have to be so many old results and new ones, changes that
/// were settled while a thread was parked, and such that waited for it.
fn try_all(layouts: Vec<Layout>, [old, new, settled, waited]: [u64; 4]) {
    let all = || {
        say_panics();
        install();
        let mut totals = Totals::default();
        for layout in layouts {
            Lab::new(layout).run_all(&mut totals);
        }
        let _ = writeln!(std::io::stderr(), "{totals:?}");
        totals.old >= old && totals.new >= new && totals.settled >= settled && totals.waited >= waited
    };
    assert_eq!(end_of_child(all), End::Returned(true));
}

/// A patchable jump in one quadword, and room for code behind it.
#[test]
fn threads_at_any_boundary_of_a_patchable_jump_execute_old_or_new() {
    try_all(layouts(NOPS, 0, &[0, 3, 6], false), [150, 500, 300, 200]);
}

/// The same in place of instructions, which went to a stub; and over the only instruction there is.
#[test]
fn threads_at_any_boundary_of_displaced_code_execute_old_or_new() {
    let displaced = layouts(ADDS_3_AND_ROOM, 3, &[3, 6], false);
    let only = layouts(LONG_NOP, 0, &[2], true);
    try_all([displaced, only].concat(), [150, 500, 150, 150]);
}

/// A trap over the only instruction, and over several that threads may be between.
#[test]
fn threads_at_any_boundary_of_a_trap_gate_execute_old_or_new() {
    let only = [
        layouts(LONG_NOP, 0, &[5], false),
        layouts(LONG_NOP, 0, &[4, 7], true),
    ];
    let several = [
        layouts(&NOPS[..5], 0, &[0, 5], true),
        layouts(ADDS_3, 3, &[0, 6], true),
    ];
    try_all([only.concat(), several.concat()].concat(), [200, 900, 200, 100]);
}
