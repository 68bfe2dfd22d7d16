//! Live invalidations of shadows that are rolled back.

use super::*;
use crate::memory::testing::Call;
use crate::publish::NeverStopped;
use crate::publish::trap::Traps;

/// Nops, then a return, under a shadow.
fn shadowed(id: u64) -> Written {
    Written {
        bytes: [&nops(), HOST.ret].concat(),
        record: record(id).at(0),
        shape: CallShape::shadow(RESERVED),
    }
}

/// A thread that has executed a trap before it was rolled back finds its exit stub, even if late:
/// also after another invalidation was refused before it wrote anything.
#[test]
fn a_trap_that_was_seen_goes_to_its_exit_whatever_is_refused_later() {
    let exit_stubs = ExitStubs::new().on_deopt(|frame| frame.resume());
    let engine = Engine::builder()
        .world(NeverStopped)
        .exits(exit_stubs)
        .build()
        .unwrap();
    let functions = [shadowed(1), shadowed(2)];
    let text = Text::new(&functions);
    let code = engine
        .adopt_with(text.adopted(&functions), &text.shared())
        .unwrap();
    let registration = engine.registration(code).live();
    // SAFETY: what is told is true of the code that this test wrote.
    let module = unsafe { registration.register(|_| CallShape::shadow(RESERVED)) }.unwrap();
    let sites: Vec<Site> = module.sites().collect();
    let exit_stub = |site: &Site| Traps::install().unwrap().exit_stub(site.addr());
    let invalidate = |call, after| {
        let mut transaction = engine.transaction();
        transaction.invalidate_site(&sites[0]).unwrap();
        let prepared = transaction.invalidate_site(&sites[1]).unwrap().prepare().unwrap();
        text.memory.fail_after(call, after);
        let refused = prepared.commit();
        assert!(refused.is_err() && text.memory.has_failed());
        assert!(sites.iter().all(|site| engine.status(site) == Status::Original));
        [exit_stub(&sites[0]), exit_stub(&sites[1])]
    };
    // No thread can have seen them.
    assert_eq!(invalidate(Call::Read, 0), [None, None]);
    assert_eq!(engine.stub_stats().slots, 0);
    let seen = invalidate(Call::Exchange, 1);
    assert!(seen.iter().all(Option::is_some));
    assert_eq!(engine.stub_stats().slots, 2);
    assert_eq!(invalidate(Call::Read, 0), seen);
    assert_eq!(invalidate(Call::Exchange, 1), seen);
    assert_eq!(engine.stub_stats().slots, 2);
    // SAFETY: no thread executes the code.
    engine
        .unregister(module, &unsafe { GracePeriod::promise() })
        .unwrap();
    assert_eq!([exit_stub(&sites[0]), exit_stub(&sites[1])], [None, None]);
}

/// The trap of a live invalidation costs a signal for each thread that comes there, until it becomes
/// a jump.
#[cfg(target_arch = "x86_64")]
#[test]
fn the_trap_of_an_invalidated_shadow_becomes_a_jump() {
    let entered = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let count = Arc::clone(&entered);
    let exit_stubs = ExitStubs::new().on_deopt(move |frame| {
        count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        frame.resume()
    });
    let engine = Engine::builder()
        .world(NeverStopped)
        .exits(exit_stubs)
        .build()
        .unwrap();
    let functions = [shadowed(1)];
    let text = Text::new(&functions);
    let code = engine
        .adopt_with(text.adopted(&functions), &text.shared())
        .unwrap();
    // SAFETY: what is told is true of the code that this test wrote.
    let module = unsafe {
        engine
            .registration(code)
            .live()
            .register(|_| CallShape::shadow(RESERVED))
    };
    let module = module.unwrap();
    let site = module.sites().next().unwrap();
    let thread = engine.attach_thread();
    // SAFETY: this thread alone executes, and reports what is true.
    let attached = unsafe { crate::publish::Attached::promise() };
    engine.invalidate_site(&site).unwrap();
    let entered = || entered.load(std::sync::atomic::Ordering::Relaxed);
    let first_byte = || site.read().unwrap()[0];
    call(&site, 1);
    assert_eq!((first_byte(), entered()), (0xcc, 1));
    assert_eq!(engine.settle(&attached).unwrap().waiting, 1);
    // A frame may return into the shadow.
    thread.checkpoint();
    assert_eq!(engine.settle(&attached).unwrap().settled, 0);
    thread.quiescent();
    assert_eq!(engine.settle(&attached).unwrap().settled, 1);
    call(&site, 1);
    assert_eq!((first_byte(), entered()), (0xe9, 2));
    assert_eq!(engine.status(&site), Status::Invalidated);
}
