//! Live sites on one thread: arming, refusals, all or nothing, what is journalled. What needs
//! threads is in `threads`, and in the stress of the examples.

#![allow(unsafe_code)]

mod barriers;
#[cfg(target_arch = "x86_64")]
mod boundaries;
mod exhausted;
mod hooked;
mod kept;
mod redirect;
#[cfg(all(target_os = "linux", not(emulated)))]
mod remapped;
mod settle;
#[cfg(target_arch = "x86_64")]
mod templates;
#[cfg(target_arch = "x86_64")]
mod threads;
#[cfg(target_arch = "x86_64")]
mod trap_gates;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Error;
use crate::addr::{CodeAddr, Len, RecordId};
use crate::arch::{Arch, CallShape};
use crate::deopt::ExitStubs;
use crate::engine::{Engine, Registration, Status};
use crate::image::{AdoptedCode, Adoption};
use crate::memory::testing::host_code::{HOST, pointer};
use crate::memory::testing::objects as compiled;
use crate::memory::testing::process::{deny, in_child};
use crate::memory::testing::{Call, FailingMemory};
use crate::memory::{
    Alias, Arena, CodeMemory, PlacedSegments, ProcMem, Reach, SegmentKind, SegmentNeed, Toggle,
};
use crate::publish::{NeverStopped, SingleThreaded, World};
use crate::sequence::{Sequence, Target, arg, result};
use crate::site::{EntrySpec, Module, Site};

/// The object of the stress: `any_k` with `anyregcc` sites 100 + k, `call_k` with C sites 200 + k,
/// which call `callee` where LLVM has left that.
const OBJECT: &[u8] = compiled::LIVE_STRESS;
/// What the original bytes of `call_k` add.
const CALLEE: u64 = if compiled::HAS_CALLEE { 1 << 40 } else { 0 };

extern "C" fn callee(x: u64) -> u64 {
    x + CALLEE
}

fn engine_in(world: impl World + 'static) -> (Engine, Arc<AtomicU64>) {
    let entered = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&entered);
    let exit_stubs = ExitStubs::new().on_deopt(move |frame| {
        count.fetch_add(1, Ordering::Relaxed);
        frame.resume()
    });
    (
        Engine::builder().world(world).exits(exit_stubs).build().unwrap(),
        entered,
    )
}

fn engine() -> Engine {
    engine_in(NeverStopped).0
}

fn shape(id: RecordId) -> Option<CallShape> {
    let id = id.get() as u32;
    match id {
        100..=107 => Some(
            CallShape::any_reg(compiled::any_reserved(id - 100))
                .result()
                .args(1),
        ),
        200..=207 => Some(CallShape::c(compiled::call_reserved(id - 200)).result().args(1)),
        _ => None,
    }
}

fn registration(engine: &Engine) -> Registration<'_> {
    let resolve = |name: &str| (name == "callee").then_some(CodeAddr::new(callee as *const () as u64));
    engine.registration(engine.load(OBJECT, resolve).unwrap())
}

fn live_module(engine: &Engine) -> Module {
    // SAFETY: what is told is true of the object's code, or refused.
    unsafe { registration(engine).live().register(|record| shape(record.id())) }.unwrap()
}

fn call(module: &Module, name: &str, x: u64) -> u64 {
    entry(module, name)(x)
}

/// A function of the module, which is there as long as the module is.
fn entry(module: &Module, name: &str) -> extern "C" fn(u64) -> u64 {
    module.release();
    let entry = module.function(name).unwrap().entry().unwrap();
    // SAFETY: the functions of the object and of `Entries` take at most a word and return one.
    unsafe { std::mem::transmute(entry.get() as usize) }
}

fn site(engine: &Engine, id: u64) -> Site {
    engine.sites(id).unwrap()[0].clone()
}

fn adding(number: u64) -> Sequence {
    Sequence::new().mov(result(), arg(0)).add(result(), number)
}

/// Functions of 16 bytes of nops that then return 7, in memory that fails on demand.
struct Entries {
    memory: Arc<FailingMemory<Alias>>,
    names: Vec<String>,
    start: CodeAddr,
    /// How many bytes of nops each has.
    nops: u32,
    _placed: PlacedSegments,
}

/// From the end of the nops of one to the start of the next.
const BEHIND: u64 = if cfg!(target_arch = "x86_64") { 9 } else { 12 };

impl Entries {
    fn new(count: usize) -> Self {
        Self::of(count, 16)
    }

    /// The same with so many bytes of nops.
    fn of(count: usize, nops: u32) -> Self {
        let need = SegmentNeed {
            kind: SegmentKind::Code,
            len: 4096,
            align: 64,
        };
        let mut placement = Arena::default().place(&[need], Reach::Anywhere).unwrap();
        let start = placement.segments()[0].range.start();
        for number in 0..count as u64 {
            placement
                .fill(Self::addr(start, nops, number), &Self::code(nops))
                .unwrap();
        }
        let placed = placement.finalize().unwrap();
        Self {
            memory: Arc::new(FailingMemory::new(placed.memory())),
            names: (0..count).map(|number| format!("f{number}")).collect(),
            start,
            nops,
            _placed: placed,
        }
    }

    fn code(nops: u32) -> Vec<u8> {
        [&HOST.nop.repeat(nops as usize / HOST.nop.len()), HOST.seven].concat()
    }

    fn addr(start: CodeAddr, nops: u32, number: u64) -> CodeAddr {
        CodeAddr::new(start.get() + number * (u64::from(nops) + BEHIND))
    }

    fn adopted(&self, not_yet_run: bool) -> AdoptedCode {
        let no_records = [3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0].to_vec();
        let arch = Arch::host().unwrap();
        let mut adoption = Adoption::new(arch, arch.endian(), no_records);
        for (number, name) in (0..).zip(&self.names) {
            let addr = Self::addr(self.start, self.nops, number);
            adoption = adoption
                .function(name.as_str(), addr, Len::of(&Self::code(self.nops)).unwrap())
                .called_at(CodeAddr::new(pointer(addr) as u64));
        }
        if not_yet_run {
            adoption = adoption.not_yet_run();
        }
        // SAFETY: the memory lives as long as `self`, which outlives the engine's use of it in every test.
        unsafe { adoption.promise() }.unwrap()
    }

    fn registration<'e>(&self, engine: &'e Engine, not_yet_run: bool, reserved: u32) -> Registration<'e> {
        let memory: Arc<dyn CodeMemory> = self.memory.clone();
        let code = engine.adopt_with(self.adopted(not_yet_run), &memory).unwrap();
        self.entries(engine.registration(code), reserved)
    }

    fn entries<'e>(&self, registration: Registration<'e>, reserved: u32) -> Registration<'e> {
        (0..)
            .zip(&self.names)
            .fold(registration, |registration, (id, name)| {
                registration.entry(EntrySpec::new(name, id as u64, reserved))
            })
    }

    fn live(&self, engine: &Engine) -> Module {
        let registration = self.registration(engine, true, self.nops).live();
        // SAFETY: what is told is true of the object's code, or refused.
        unsafe { registration.register(|_| None::<CallShape>) }.unwrap()
    }
}

extern "C" fn number<const N: u64>() -> u64 {
    N
}

/// Hands the function over to one that returns `N`.
fn returning<const N: u64>() -> Sequence {
    // SAFETY: that function takes and returns what the other does.
    Sequence::new().jump(unsafe { Target::addr(to::<N>()) })
}

/// The code of the function that returns `N`.
fn to<const N: u64>() -> CodeAddr {
    let pointer = number::<N> as *const ();
    if crate::arch::HOST_HAS_DESCRIPTORS {
        // SAFETY: a function pointer is the address of a descriptor, which begins with the address of the code.
        return CodeAddr::new(unsafe { pointer.cast::<u64>().read() });
    }
    CodeAddr::new(pointer as u64)
}

fn bytes(module: &Module) -> Vec<Vec<u8>> {
    module.sites().map(|site| site.read().unwrap()).collect()
}

#[test]
fn arming_changes_nothing_that_code_does() {
    let engine = engine();
    let module = live_module(&engine);
    for site in module.sites() {
        assert_eq!(engine.status(&site), Status::Original);
    }
    for k in 0..8 {
        assert_eq!(call(&module, &format!("call_{k}"), 5), 5 + CALLEE);
    }
}

#[test]
fn every_site_is_patched_restored_and_invalidated_without_a_stop() {
    let (engine, entered) = engine_in(NeverStopped);
    let module = live_module(&engine);
    let armed = bytes(&module);
    for k in 0..8 {
        engine.patch(100 + k, &adding(k)).unwrap();
        engine.patch(200 + k, &adding(2 * k)).unwrap();
        assert_eq!(call(&module, &format!("any_{k}"), 1000), 1000 + k);
        assert_eq!(call(&module, &format!("call_{k}"), 1000), 1000 + 2 * k);
        engine.restore(200 + k).unwrap();
        assert_eq!(call(&module, &format!("call_{k}"), 1000), 1000 + CALLEE);
        engine.restore(100 + k).unwrap();
    }
    assert_eq!(bytes(&module), armed);
    for k in 0..8 {
        engine.patch(100 + k, &adding(k)).unwrap();
    }
    let functions: Vec<_> = module.functions().collect();
    for function in &functions {
        engine.invalidate(function).unwrap();
    }
    for k in 0..8 {
        // The exit stub resumes with what the site did.
        assert_eq!(call(&module, &format!("any_{k}"), 1000), 1000 + k);
        assert_eq!(call(&module, &format!("call_{k}"), 1000), 1000 + CALLEE);
    }
    assert_eq!(entered.load(Ordering::Relaxed), 16);
    let refused = engine.patch(100, &adding(1));
    assert!(
        matches!(refused, Err(Error::SiteInvalidated { .. })),
        "{refused:?}"
    );
}

/// SystemZ's nops become no jump under execution.
#[test]
fn what_has_run_is_armed_without_a_write_or_refused() {
    let (engine, entries) = (engine(), Entries::new(1));
    // SAFETY: what is told is true of the object's code, or refused.
    let armed = unsafe {
        entries
            .registration(&engine, false, 16)
            .live()
            .register(|_| None::<CallShape>)
    };
    assert_eq!(entries.memory.count(Call::Write), 0);
    if cfg!(target_arch = "s390x") {
        assert!(matches!(armed, Err(Error::ArmedTooLate { .. })), "{armed:?}");
        assert!(engine.modules().is_empty() && engine.sites(0).is_err());
        return;
    }
    let module = armed.unwrap();
    let before = bytes(&module);
    assert_eq!(call(&module, "f0", 1), 7);
    engine.patch(0, &returning::<9>()).unwrap();
    assert_eq!(call(&module, "f0", 1), 9);
    engine.restore(0).unwrap();
    assert_eq!((call(&module, "f0", 1), bytes(&module)), (7, before));
}

#[test]
fn what_has_run_is_released_from_the_start() {
    let (engine, entries) = (engine(), Entries::new(1));
    for not_yet_run in [false, true] {
        let registration = entries.registration(&engine, not_yet_run, 16);
        // SAFETY: what is told is true of the object's code, or refused.
        let module = unsafe { registration.register(|_| None::<CallShape>) }.unwrap();
        assert_eq!(module.is_released(), !not_yet_run);
        let function = module.functions().next().unwrap();
        assert_eq!(function.entry().is_ok(), !not_yet_run);
        // SAFETY: nothing has run it.
        let grace_period = unsafe { crate::publish::GracePeriod::promise() };
        engine.unregister(module, &grace_period).unwrap();
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
#[should_panic(expected = "a patchable jump lies in one quadword")]
fn what_lies_across_two_quadwords_is_not_exchanged_in_part() {
    let engine = engine();
    let _module = live_module(&engine);
    let site = site(&engine, 100);
    let memory = Arc::clone(site.memory().unwrap());
    let across = CodeAddr::new((site.addr().get() & !7) + 6);
    crate::engine::live::JumpExchange::new(&memory, across, (&[0; 4], &[1; 4]));
}

#[cfg(target_arch = "x86_64")]
#[test]
fn room_of_an_exchange_has_nothing_of_it() {
    use super::exchange::TrapNote;
    use crate::engine::live::JumpExchange;
    let engine = engine();
    let _module = live_module(&engine);
    let site = site(&engine, 100);
    let (memory, at) = (site.memory().unwrap(), CodeAddr::new(site.addr().get() & !7));
    let note = TrapNote {
        to: at,
        before: None,
        closes: true,
    };
    let first = JumpExchange::new(memory, at, (&[1; 8], &[2; 8])).noting(note);
    assert!(first.notes_trap());
    let next = JumpExchange::made_in(Some(Box::new(first)), memory, at, (&[1; 4], &[2; 4]));
    assert!(!next.notes_trap());
    assert_eq!(next.range().len(), 4);
}

/// On other architectures no site is too short for a patchable jump: it is the length of an instruction.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_site_that_is_shorter_than_a_jump_is_refused_with_what_it_needs_and_nothing_is_written() {
    let (engine, entries) = (engine(), Entries::new(8));
    for reserved in 1..5 {
        // SAFETY: what is told is true of the object's code, or refused.
        let refused = unsafe {
            entries
                .registration(&engine, true, reserved)
                .live()
                .register(|_| None::<CallShape>)
        };
        match refused {
            Err(Error::Site(crate::site::Error::NoPatchableJump { needed, .. })) => {
                assert!(reserved < needed.get() && needed.get() <= 9)
            }
            other => panic!("{reserved}: {other:?}"),
        }
        assert_eq!(entries.memory.count(Call::Write), 0);
    }
    assert!(
        // SAFETY: what is told is true of the object's code, or refused.
        unsafe {
            entries
                .registration(&engine, true, 5)
                .live()
                .register(|_| None::<CallShape>)
        }
        .is_ok()
    );
}

#[test]
fn memory_without_an_atomic_store_is_refused() {
    let (engine, entries) = (engine(), Entries::new(1));
    let page = CodeMemory::range(&*entries.memory);
    // SAFETY: the range is the test's own, mapped and executable.
    let toggle: Arc<dyn CodeMemory> = Arc::new(unsafe { Toggle::register(page) }.unwrap());
    // SAFETY: as above. Nothing is written through it.
    let proc_mem = unsafe { ProcMem::register(page) };
    let memories = std::iter::once(toggle).chain(proc_mem.ok().map(|m| Arc::new(m) as Arc<dyn CodeMemory>));
    for memory in memories {
        let code = engine.adopt_with(entries.adopted(true), &memory).unwrap();
        let registration = entries.entries(engine.registration(code), 16).live();
        // SAFETY: what is told is true of the object's code, or refused.
        let refused = unsafe { registration.register(|_| None::<CallShape>) };
        assert!(matches!(refused, Err(Error::ArmedMemory { .. })), "{refused:?}");
    }
    // Live by its own account, and then it refuses.
    entries.memory.fail_after(Call::Exchange, 0);
    let registration = entries.registration(&engine, true, 16).live();
    // SAFETY: what is told is true of the object's code, or refused.
    let refused = unsafe { registration.register(|_| None::<CallShape>) };
    assert!(matches!(refused, Err(Error::ArmedMemory { .. })), "{refused:?}");
}

#[test]
fn a_failure_while_arming_puts_every_byte_back() {
    let (engine, entries) = (engine(), Entries::new(3));
    let quiescent = entries.registration(&engine, true, 16);
    // SAFETY: what is told is true of the object's code, or refused.
    let before = bytes(&unsafe { quiescent.register(|_| None::<CallShape>) }.unwrap());
    for after in 0..3 {
        // A fresh engine, as the code is registered with the other one.
        let engine = self::engine();
        entries.memory.fail_after(Call::Write, after);
        // SAFETY: what is told is true of the object's code, or refused.
        let refused = unsafe {
            entries
                .registration(&engine, true, 16)
                .live()
                .register(|_| None::<CallShape>)
        };
        assert!(
            matches!(
                refused,
                Err(Error::Memory(crate::memory::Error::SystemCall { .. }))
            ),
            "{refused:?}"
        );
        assert!(entries.memory.has_failed() && engine.modules().is_empty());
        // SAFETY: what is told is true of the object's code, or refused.
        let module = unsafe {
            entries
                .registration(&engine, true, 16)
                .register(|_| None::<CallShape>)
        };
        assert_eq!(bytes(&module.unwrap()), before);
    }
}

#[test]
fn shadows_and_in_place_sequences_are_refused_by_type() {
    let engine = engine();
    let code = engine.load(compiled::INLINE_CACHE, |_| None).unwrap();
    // SAFETY: what is told is true of the object's code, or refused.
    let module = unsafe {
        engine
            .registration(code)
            .live()
            .register(|record| match record.id().get() {
                78 => Some(CallShape::any_reg(32).result().args(1)),
                90 => Some(CallShape::shadow(24)),
                _ => None,
            })
    };
    let module = module.unwrap();
    let before = bytes(&module);
    let refused = engine.patch(90, &Sequence::new().jump(Target::Deopt));
    assert!(
        matches!(
            refused,
            Err(Error::Site(crate::site::Error::ShadowNotArmed { .. }))
        ),
        "{refused:?}"
    );
    let refused = engine.patch(78, &adding(1).in_place_only());
    assert!(matches!(refused, Err(Error::LiveInPlace { .. })), "{refused:?}");
    assert_eq!(bytes(&module), before);
}

#[test]
fn a_failed_exchange_takes_the_others_back() {
    let (engine, entries) = (engine(), Entries::new(4));
    let module = entries.live(&engine);
    let sites: Vec<Site> = module.sites().collect();
    engine.patch(0, &returning::<40>()).unwrap();
    let before = bytes(&module);
    for after in 0..4 {
        let mut transaction = engine.transaction();
        for site in &sites {
            transaction.patch_site(site, &returning::<50>()).unwrap();
        }
        let prepared = transaction.prepare().unwrap();
        entries.memory.fail_after(Call::Exchange, after);
        let failed = prepared.commit();
        assert!(
            matches!(
                failed,
                Err(Error::Memory(crate::memory::Error::SystemCall { .. }))
            ),
            "{failed:?}"
        );
        assert!(entries.memory.has_failed());
        assert_eq!(bytes(&module), before);
        assert_eq!(engine.status(&sites[0]), Status::Patched);
        assert_eq!(engine.status(&sites[1]), Status::Original);
        // What patchable jumps have gone to, be it for an instant, is not freed without a grace
        // period.
        let retired = if after == 0 { 0 } else { 4 };
        // SAFETY: this is the only thread, and it is in no stub.
        let grace_period = unsafe { crate::publish::GracePeriod::promise() };
        assert_eq!(engine.reclaim(&grace_period).unwrap(), retired);
    }
    assert_eq!((call(&module, "f0", 0), call(&module, "f1", 0)), (40, 7));
    engine.patch(1, &returning::<60>()).unwrap();
    assert_eq!(call(&module, "f1", 0), 60);
}

/// Before the first exchange, between two, and when they are read back.
#[test]
fn a_failed_read_takes_every_exchange_back() {
    let (engine, entries) = (engine(), Entries::new(3));
    let module = entries.live(&engine);
    let sites: Vec<Site> = module.sites().collect();
    let before = bytes(&module);
    for after in 0.. {
        let mut all = engine.transaction();
        for site in &sites {
            all.patch_site(site, &returning::<50>()).unwrap();
        }
        let prepared = all.prepare().unwrap();
        entries.memory.fail_after(Call::Read, after);
        let failed = prepared.commit();
        if !entries.memory.has_failed() {
            failed.unwrap();
            return assert!(after > 6, "{after} reads");
        }
        assert!(
            matches!(
                failed,
                Err(Error::Memory(crate::memory::Error::SystemCall { .. }))
            ),
            "{failed:?}"
        );
        assert_eq!(bytes(&module), before, "{after}");
        assert!(sites.iter().all(|site| engine.status(site) == Status::Original));
    }
}

/// Also where the bytes are the same again.
#[test]
fn what_was_prepared_before_another_change_is_refused() {
    let engine = engine();
    let module = live_module(&engine);
    let planned = engine.plan(100, &adding(3)).unwrap();
    engine.patch(100, &adding(1)).unwrap();
    engine.restore(100).unwrap();
    let before = bytes(&module);
    let refused = planned.commit();
    assert!(matches!(refused, Err(Error::SiteChanged { .. })), "{refused:?}");
    assert_eq!(bytes(&module), before);
}

#[test]
fn live_and_quiescent_sites_change_together_or_not_at_all() {
    // SAFETY: this thread alone executes and patches.
    let (engine, _) = engine_in(unsafe { SingleThreaded::promise() });
    let (entries, module) = (Entries::new(2), live_module(&engine));
    let quiescent = entries.registration(&engine, true, 16);
    // SAFETY: what is told is true of the object's code, or refused.
    let quiescent = unsafe { quiescent.register(|_| None::<CallShape>) }.unwrap();
    let change = || {
        let mut transaction = engine.transaction();
        transaction.patch(100, &adding(3)).unwrap();
        transaction.patch(0, &returning::<1>()).unwrap();
        transaction.patch(1, &returning::<2>()).unwrap();
        transaction
    };
    let before = (bytes(&module), bytes(&quiescent));
    for (call, after) in [(Call::Begin, 0), (Call::Write, 0), (Call::Write, 1)] {
        let prepared = change().prepare().unwrap();
        entries.memory.fail_after(call, after);
        assert!(prepared.commit().is_err(), "{call:?} {after}");
        assert_eq!((bytes(&module), bytes(&quiescent)), before);
        assert_eq!(engine.status(&site(&engine, 100)), Status::Original);
    }
    assert_eq!(change().commit().unwrap().sites, 3);
    assert_eq!(call(&module, "any_0", 10), 13);
    assert_eq!((call(&quiescent, "f0", 0), call(&quiescent, "f1", 0)), (1, 2));
}

#[test]
fn stubs_are_lowered_without_the_lock_where_threads_have_met() {
    let engine = engine();
    let module = live_module(&engine);
    engine.shared.contention.expect_forever();
    engine.patch(100, &adding(3)).unwrap();
    assert_eq!(call(&module, "any_0", 10), 13);
    // Another takes its place in the meantime.
    let other = engine.clone();
    let meanwhile = move || _ = other.patch(100, &adding(4)).unwrap();
    *engine.shared.when_ahead.lock() = Some(Box::new(meanwhile));
    engine.patch(100, &adding(5).add(result(), 1u64)).unwrap();
    assert_eq!(call(&module, "any_0", 10), 16);
    assert!(engine.lock_stats().lowered_outside >= 2);
    // What is installed, and what was before, which threads may be in.
    let before = engine.stub_stats().slots;
    // SAFETY: no thread executes the sites.
    engine
        .reclaim(&unsafe { crate::publish::GracePeriod::promise() })
        .unwrap();
    assert_eq!(before - engine.stub_stats().slots, 2);
}

#[test]
fn a_quiescent_site_in_a_world_that_never_stops_is_refused() {
    let (engine, entries) = (engine(), Entries::new(1));
    let module = live_module(&engine);
    let quiescent = entries.registration(&engine, true, 16);
    // SAFETY: what is told is true of the object's code, or refused.
    let _quiescent = unsafe { quiescent.register(|_| None::<CallShape>) }.unwrap();
    let before = bytes(&module);
    let mut transaction = engine.transaction();
    transaction.patch(100, &adding(3)).unwrap();
    let refused = transaction.patch(0, &returning::<1>()).unwrap().commit();
    assert!(
        matches!(
            refused,
            Err(Error::Publish(crate::publish::Error::WorldNotStopped { .. }))
        ),
        "{refused:?}"
    );
    assert_eq!(bytes(&module), before);
}

#[test]
fn bytes_changed_behind_the_engine_are_found_before_the_first_exchange() {
    let engine = engine();
    let module = live_module(&engine);
    let site = site(&engine, 107);
    let tail = site.addr().plus(Len::new(site.reserved().get() - 1)).unwrap();
    let original = *site.read().unwrap().last().unwrap();
    site.memory().unwrap().write(tail, &[0xcc]).unwrap();
    let before = bytes(&module);
    let refused = engine
        .transaction()
        .patch(100, &adding(1))
        .and_then(|transaction| transaction.patch(107, &adding(1)))
        .unwrap()
        .commit();
    assert!(matches!(refused, Err(Error::BytesChanged { .. })), "{refused:?}");
    assert_eq!(bytes(&module), before);
    // What a patchable jump has gone to, if only for a moment, is retired.
    assert_eq!(engine.retired(), []);
    site.memory().unwrap().write(tail, &[original]).unwrap();
    engine.patch(107, &adding(1)).unwrap();
}

/// Under a sandbox in which no other thread can be made to serialize.
#[test]
fn without_a_barrier_invalidation_is_refused_before_a_byte_is_written() {
    assert!(in_child(|| {
        deny(&[libc::SYS_membarrier, libc::SYS_openat], libc::EPERM);
        let engine = engine();
        let module = live_module(&engine);
        engine.patch(100, &adding(1)).unwrap();
        let before = bytes(&module);
        let refused = engine.invalidate(&module.function("any_0").unwrap());
        // SAFETY: nothing executes.
        let attached = unsafe { crate::publish::Attached::promise() };
        engine.patch(100, &adding(2)).unwrap();
        engine.restore(100).unwrap();
        let kept = engine.reclaim_passed(&attached);
        matches!(
            refused,
            Err(Error::Publish(crate::publish::Error::NoBarrier { .. }))
        ) && matches!(kept, Err(Error::Publish(crate::publish::Error::NoBarrier { .. })))
            && before.len() == 16
            && engine.status(&site(&engine, 100)) == Status::Original
    }));
}

#[test]
fn without_a_barrier_no_patchable_jump_is_exchanged_at_once() {
    assert!(in_child(|| {
        deny(&[libc::SYS_membarrier, libc::SYS_openat], libc::EPERM);
        let (engine, entries) = (engine(), Entries::new(1));
        let module = entries.live(&engine);
        let site = module.sites().next().unwrap();
        let before = entries.memory.count(Call::Exchange);
        let mut patch = engine.transaction();
        patch.patch_site(&site, &returning::<40>()).unwrap();
        let refused = patch.immediate().commit();
        matches!(
            refused,
            Err(Error::Publish(crate::publish::Error::NoBarrier { .. }))
        ) && entries.memory.count(Call::Exchange) == before
    }));
}

#[test]
fn the_journal_tells_what_became_of_what() {
    let engine = Engine::builder().world(NeverStopped).journal(2).build().unwrap();
    let module = live_module(&engine);
    let armed = site(&engine, 100).read().unwrap();
    engine.patch(100, &adding(1)).unwrap();
    engine.patch(100, &adding(2)).unwrap();
    let patched = site(&engine, 100).read().unwrap();
    engine.restore(100).unwrap();
    let journal = engine.journal();
    let numbers: Vec<_> = journal
        .iter()
        .map(|e| (e.number, e.generation, e.became))
        .collect();
    assert_eq!(numbers, [(2, 2, Status::Patched), (3, 3, Status::Original)]);
    assert_eq!((&*journal[1].before, &*journal[1].after), (&*patched, &*armed));
    let name = journal[1].name.as_ref().unwrap();
    assert_eq!(name.function.as_deref(), Some("any_0"));
    assert!(journal[0].time <= journal[1].time);
    drop(module);
}

#[test]
fn an_exchange_that_did_not_arrive_is_noticed() {
    let entries = Entries::new(2);
    let engine = engine();
    let module = entries.live(&engine);
    let sites: Vec<Site> = module.sites().collect();
    let patch = || {
        let mut transaction = engine.transaction();
        transaction.patch_site(&sites[0], &returning::<1>())?;
        transaction.patch_site(&sites[1], &returning::<2>())?.commit()
    };
    entries.memory.lose_writes(true);
    assert!(matches!(patch(), Err(Error::BytesChanged { .. })));
    entries.memory.lose_writes(false);
    for site in &sites {
        assert_eq!(engine.status(site), Status::Original);
    }
    assert_eq!(call(&module, "f0", 0), 7);
    patch().unwrap();
    assert_eq!((call(&module, "f0", 0), call(&module, "f1", 0)), (1, 2));
}
