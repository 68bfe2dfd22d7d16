//! A shadow of a live module is invalidated while threads execute it: by a trap, without stopping
//! them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use asm_tests::live::objects::INLINE_CACHE;
use patchpoint::addr::CodeAddr;
use patchpoint::deopt::ExitStubs;
use patchpoint::engine::{Engine, Status};
use patchpoint::publish::trap::Traps;
use patchpoint::publish::{GracePeriod, NeverStopped};
use patchpoint::sequence::{Field, Sequence, Target, arg, result};
use patchpoint::site::Module;
use patchpoint::{CallShape, Error};

const GET: u64 = 78;
const LOOP: u64 = 90;

/// Objects of the example: their property is the fourth word.
type Object = [u64; 4];
type SumFields = extern "C" fn(*const &Object, u64) -> u64;

fn engine(entered: &Arc<AtomicU64>) -> Engine {
    let entered = Arc::clone(entered);
    let exit_stubs = ExitStubs::new()
        .on_miss(|frame| frame.resume())
        .on_deopt(move |frame| {
            if frame.context().id.get() == LOOP {
                entered.fetch_add(1, Ordering::Relaxed);
                assert!(frame.live_values().all(|(_, value)| value.is_ok()));
            }
            frame.resume()
        });
    Engine::builder()
        .world(NeverStopped)
        .exits(exit_stubs)
        .build()
        .unwrap()
}

fn register(engine: &Engine) -> Module {
    let code = engine.load(INLINE_CACHE, |_| None).unwrap();
    let registration = engine.registration(code).live();
    // SAFETY: what is told is true of the object's code, or refused.
    let module = unsafe {
        registration.register(|record| match record.id().get() {
            GET => Some(CallShape::any_reg(32).result().args(1)),
            LOOP => Some(CallShape::shadow(24)),
            _ => None,
        })
    };
    module.unwrap()
}

fn sum_fields(module: &Module) -> SumFields {
    module.release();
    let entry = module.function("sum_fields").unwrap().entry().unwrap();
    // SAFETY: the IR gives the function this signature; the module outlives its calls.
    unsafe { std::mem::transmute(entry.get() as usize) }
}

#[test]
fn readers_run_on_while_their_loop_is_invalidated() {
    let entered = Arc::new(AtomicU64::new(0));
    let engine = engine(&entered);
    let module = register(&engine);
    let hit = Sequence::new().load(result(), u64::at(arg(0), 24));
    engine.patch(GET, &hit).unwrap();
    let call = sum_fields(&module);

    let objects: Vec<Object> = (0..100).map(|n| [0, 0, 0, n]).collect();
    let list: Vec<&Object> = objects.iter().collect();
    let expected = (0..100).sum::<u64>() + 100 + 50;
    let (done, calls) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    assert_eq!(call(list.as_ptr(), list.len() as u64), expected);
                    calls.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        while calls.load(Ordering::Relaxed) < 1000 {
            std::hint::spin_loop();
        }
        assert_eq!(entered.load(Ordering::Relaxed), 0);
        engine
            .invalidate(&module.function("sum_fields").unwrap())
            .unwrap();
        let seen = calls.load(Ordering::Relaxed);
        while calls.load(Ordering::Relaxed) < seen + 20 {
            std::hint::spin_loop();
        }
        done.store(true, Ordering::Relaxed);
    });
    let (before, calls) = (entered.load(Ordering::Relaxed), calls.into_inner());
    println!("{calls} calls by 2 threads, {before} passes through the trap");
    assert!(before >= 100, "{before}");

    // Nobody passes by it any more: every turn of the loop goes through the exit stub, resumed.
    assert_eq!(call(list.as_ptr(), list.len() as u64), expected);
    assert_eq!(entered.load(Ordering::Relaxed), before + 100);
    let shadow = module.sites().find(|site| site.id().get() == LOOP).unwrap();
    assert_eq!(engine.status(&shadow), Status::Invalidated);
    let (now, then) = (shadow.read().unwrap(), engine.journal());
    let change = then.iter().find(|entry| entry.addr == shadow.addr()).unwrap();
    // A trap replaces no more than its own bytes.
    let trap = if cfg!(target_arch = "x86_64") { 1 } else { 4 };
    assert_eq!(now[trap..], change.before[trap..]);
    assert_ne!(now[..trap], change.before[..trap]);
    if cfg!(target_arch = "x86_64") {
        assert_eq!(now[0], 0xcc);
    }
}

#[test]
fn a_shadow_of_a_live_module_can_only_be_invalidated() {
    let engine = engine(&Arc::default());
    let module = register(&engine);
    let shadow = module.sites().find(|site| site.id().get() == LOOP).unwrap();
    let refused = engine.patch_site(&shadow, &Sequence::new().jump(Target::Deopt));
    assert!(
        matches!(
            refused,
            Err(Error::Site(patchpoint::site::Error::ShadowNotArmed { .. }))
        ),
        "{refused:?}"
    );
    engine
        .transaction()
        .invalidate_site(&shadow)
        .unwrap()
        .commit()
        .unwrap();
    engine
        .transaction()
        .invalidate_site(&shadow)
        .unwrap()
        .commit()
        .unwrap();
    let refused = engine.restore_site(&shadow);
    assert!(refused.is_err(), "{refused:?}");
}

/// Two invalidations prepared for the same shadow: the second is refused, and must leave the first
/// one's trap alone.
#[test]
fn an_invalidation_that_comes_too_late_leaves_the_trap_of_the_one_before() {
    let entered = Arc::new(AtomicU64::new(0));
    let engine = engine(&entered);
    let module = register(&engine);
    let hit = Sequence::new().load(result(), u64::at(arg(0), 24));
    engine.patch(GET, &hit).unwrap();
    let shadow = module.sites().find(|site| site.id().get() == LOOP).unwrap();
    let prepare = || {
        let mut change = engine.transaction();
        change.invalidate_site(&shadow).unwrap();
        change.prepare().unwrap()
    };
    let (first, second) = (prepare(), prepare());
    first.commit().unwrap();
    let refused = second.commit();
    assert!(matches!(refused, Err(Error::SiteChanged { .. })), "{refused:?}");
    let object: Object = [0, 0, 0, 5];
    assert_eq!(sum_fields(&module)([&object].as_ptr(), 1), 6);
    assert_eq!(entered.load(Ordering::Relaxed), 1);
}

/// The handler knows of no trap that is not in the code: there another may be put, by a
/// debugger.
#[test]
fn what_is_not_in_the_code_any_more_is_noted_no_more() {
    let engine = engine(&Arc::default());
    let module = register(&engine);
    let hit = Sequence::new().load(result(), u64::at(arg(0), 24));
    engine.patch(GET, &hit).unwrap();
    let shadow = module.sites().find(|site| site.id().get() == LOOP).unwrap();
    let noted = || Traps::install().unwrap().exit_stub(shadow.addr()).is_some();
    let invalidate = || {
        let mut change = engine.transaction();
        change.invalidate_site(&shadow).unwrap();
        change.commit()
    };

    // SAFETY: nothing executes the module, and what is written is rolled back.
    let memory = unsafe { module.areas()[0].writable() };
    let (last, byte) = (
        shadow.range().end().get() - 1,
        *shadow.read().unwrap().last().unwrap(),
    );
    memory.write(CodeAddr::new(last), &[!byte]).unwrap();
    let refused = invalidate();
    assert!(matches!(refused, Err(Error::BytesChanged { .. })), "{refused:?}");
    assert!(!noted(), "a trap that was not written");
    memory.write(CodeAddr::new(last), &[byte]).unwrap();

    invalidate().unwrap();
    assert!(noted());
    // SAFETY: nothing executes the module.
    let grace_period = unsafe { GracePeriod::promise() };
    engine.unregister(module.clone(), &grace_period).unwrap();
    assert!(!noted(), "a trap in a module that is gone");
}
