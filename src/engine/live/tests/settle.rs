//! Settling: what it does to one thread's sites, what keeps it from them, and every failure on the
//! way. What needs threads is in `settled_threads`.

use super::*;
use crate::engine::Settled;
use crate::publish::{Attached, ThreadHandle};

/// The only thread that executes, and whose reports are awaited.
fn attached(engine: &Engine) -> (ThreadHandle, Attached) {
    // SAFETY: only this thread executes, and it reports what is true.
    (engine.attach_thread(), unsafe { Attached::promise() })
}

fn settled(settled: usize, waiting: usize, staying: usize) -> Settled {
    Settled {
        settled,
        waiting,
        staying,
    }
}

/// Settles what was patched before.
fn settle_now(engine: &Engine, thread: &ThreadHandle, attached: &Attached) -> Settled {
    let first = engine.settle(attached).unwrap();
    assert_eq!(first.settled, 0);
    thread.checkpoint();
    let done = engine.settle(attached).unwrap();
    assert_eq!((done.waiting, done.staying), (0, 0));
    Settled {
        staying: first.staying,
        ..done
    }
}

/// Whether a site's code is in place.
fn is_in_place(engine: &Engine, site: &Site) -> bool {
    let mut states = engine.shared.look().unwrap();
    let state = states.of(site).unwrap();
    state.installed.stub.is_none() && state.installed.status == Status::Patched
}

#[test]
fn a_patched_site_is_settled_when_every_thread_has_reported() {
    let engine = engine();
    let module = live_module(&engine);
    let (thread, attached) = attached(&engine);
    let site = site(&engine, 107);
    let slots = engine.stub_stats().slots;
    assert_eq!(engine.settle(&attached), Ok(settled(0, 0, 0)));
    engine.patch(107, &adding(5)).unwrap();
    let closed = site.read().unwrap();
    for _ in 0..3 {
        assert_eq!(engine.settle(&attached), Ok(settled(0, 1, 0)));
        assert_eq!(site.read().unwrap(), closed);
    }
    thread.checkpoint();
    assert_eq!(engine.settle(&attached), Ok(settled(1, 0, 0)));
    assert!(site.read().unwrap() != closed && is_in_place(&engine, &site));
    assert_eq!(engine.status(&site), Status::Patched);
    assert_eq!(call(&module, "any_7", 1000), 1005);
    // The stub goes when every thread has reported once more.
    assert_eq!(
        (engine.retired().len(), engine.reclaim_passed(&attached)),
        (1, Ok(0))
    );
    thread.checkpoint();
    assert_eq!(engine.reclaim_passed(&attached), Ok(1));
    assert_eq!(engine.stub_stats().slots, slots);
    assert_eq!(engine.settle(&attached), Ok(settled(0, 0, 0)));
    let journal = engine.journal();
    let last = journal.last().unwrap();
    assert_eq!((&*last.before, &*last.after), (&*closed, &*site.read().unwrap()));
    assert_eq!((last.became, last.generation), (Status::Patched, 1));
}

/// Every site, through all that can be done with it, again and again.
#[test]
fn settled_sites_are_patched_restored_and_invalidated_like_others() {
    let (engine, entered) = engine_in(NeverStopped);
    let module = live_module(&engine);
    let (thread, attached) = attached(&engine);
    let armed = bytes(&module);
    let mut in_place = 0;
    for round in 0..4 {
        for k in 0..8 {
            engine.patch(100 + k, &adding(k + round)).unwrap();
            engine.patch(200 + k, &adding(2 * k + round)).unwrap();
        }
        let closed = bytes(&module);
        let done = settle_now(&engine, &thread, &attached);
        assert_eq!(done.settled + done.staying, 16);
        in_place = done.settled;
        let open = bytes(&module);
        let moved = open.iter().zip(&closed).filter(|(open, closed)| open != closed);
        assert_eq!(moved.count(), in_place);
        for k in 0..8 {
            assert_eq!(call(&module, &format!("any_{k}"), 1000), 1000 + k + round);
            assert_eq!(call(&module, &format!("call_{k}"), 1000), 1000 + 2 * k + round);
        }
        if round % 2 == 0 {
            continue;
        }
        for k in 0..8 {
            engine.restore(100 + k).unwrap();
            engine.restore(200 + k).unwrap();
            assert_eq!(call(&module, &format!("call_{k}"), 1000), 1000 + CALLEE);
        }
        settle_now(&engine, &thread, &attached);
        for (site, armed) in module.sites().zip(&armed) {
            // Those that are closed for good, as their instructions are in a stub, keep what was
            // settled behind.
            let (now, jump) = (site.read().unwrap(), site.plan_patchable_jump().unwrap());
            let is_armed = *armed == now || CALLEE != 0 && jump.of_site(armed) == jump.of_site(&now);
            assert!(is_armed, "{armed:02x?} {now:02x?}");
        }
        for k in 0..8 {
            assert_eq!(call(&module, &format!("call_{k}"), 1000), 1000 + CALLEE);
        }
    }
    println!("{in_place} of 16 sites have room for their code");
    assert!(in_place >= 4, "{in_place}");
    for k in 0..8 {
        engine.patch(100 + k, &adding(k)).unwrap();
        engine.patch(200 + k, &adding(k)).unwrap();
    }
    settle_now(&engine, &thread, &attached);
    for function in &module.functions().collect::<Vec<_>>() {
        engine.invalidate(function).unwrap();
    }
    assert_eq!(engine.settle(&attached), Ok(settled(0, 0, 16)));
    for k in 0..8 {
        // The exit stub resumes with what the site did.
        assert_eq!(call(&module, &format!("any_{k}"), 1000), 1000 + k);
        assert_eq!(call(&module, &format!("call_{k}"), 1000), 1000 + k);
    }
    assert_eq!(entered.load(Ordering::Relaxed), 16);
}

/// A patch changes the gate only: threads may be behind it.
#[test]
fn a_patch_of_a_settled_site_leaves_what_is_behind_its_gate() {
    let engine = engine();
    let module = live_module(&engine);
    let (thread, attached) = attached(&engine);
    let site = site(&engine, 107);
    engine.patch(107, &adding(5)).unwrap();
    assert_eq!(settle_now(&engine, &thread, &attached).settled, 1);
    let open = site.read().unwrap();
    let jump = site.plan_patchable_jump().unwrap();
    let (gate, behind) = (
        jump.offset.as_usize()..jump.end().as_usize(),
        jump.end().as_usize()..,
    );
    for (number, result) in [(6, 1006), (7, 1007)] {
        engine.patch(107, &adding(number)).unwrap();
        let closed = site.read().unwrap();
        assert_ne!(closed[gate.clone()], open[gate.clone()]);
        assert_eq!(closed[behind.clone()], open[behind.clone()]);
        assert_eq!(call(&module, "any_7", 1000), result);
    }
    engine.restore(107).unwrap();
    let closed = site.read().unwrap();
    assert_ne!(closed[gate.clone()], open[gate]);
    assert_eq!(closed[behind.clone()], open[behind]);
}

#[test]
fn what_was_patched_again_is_not_settled_as_it_was() {
    let engine = engine();
    let module = live_module(&engine);
    let (thread, attached) = attached(&engine);
    engine.patch(107, &adding(5)).unwrap();
    assert_eq!(engine.settle(&attached), Ok(settled(0, 1, 0)));
    thread.checkpoint();
    engine.patch(107, &adding(6)).unwrap();
    assert_eq!(engine.settle(&attached), Ok(settled(0, 1, 0)));
    assert_eq!(call(&module, "any_7", 1000), 1006);
    // A plan that was made before does not know what is behind the gate.
    let planned = engine.plan(107, &adding(7)).unwrap();
    thread.checkpoint();
    assert_eq!(engine.settle(&attached), Ok(settled(1, 0, 0)));
    assert_eq!(call(&module, "any_7", 1000), 1006);
    let refused = planned.commit();
    assert!(matches!(refused, Err(Error::SiteChanged { .. })), "{refused:?}");
    assert_eq!(call(&module, "any_7", 1000), 1006);
}

#[test]
fn what_does_not_fit_or_is_returned_into_stays_in_its_stub() {
    let engine = engine();
    let registration = registration(&engine).live();
    let registration = match cfg!(target_arch = "riscv64") {
        // There only live-outs tell that the register of the return address is free for calls.
        true => registration.trust_live_outs(),
        false => registration,
    };
    // SAFETY: what is told is true of the object's code, or refused.
    let module = unsafe { registration.register(|record| shape(record.id())) }.unwrap();
    let (thread, attached) = attached(&engine);
    let long = (0..64).fold(Sequence::new().mov(result(), arg(0)), |long, _| {
        long.add(result(), 1_u64)
    });
    engine.patch(200, &long).unwrap();
    // Near the site: such a call is short. What is called is an entry: some conventions have
    // descriptors.
    module.release();
    let near = module.function("call_0").unwrap().entry().unwrap();
    // SAFETY: it takes what the site passes.
    let calling = unsafe { Sequence::new().call(near, crate::arch::OnReturn::FollowsC) };
    engine.patch(207, &calling.add(result(), 5_u64)).unwrap();
    assert_eq!(engine.settle(&attached), Ok(settled(0, 0, 2)));
    thread.checkpoint();
    assert_eq!(engine.settle(&attached), Ok(settled(0, 0, 0)));
    assert_eq!(call(&module, "call_0", 1000), 1064);
    assert_eq!(call(&module, "call_7", 1000), 1069);
}

#[test]
fn what_is_settling_keeps_no_memory_of_an_unregistered_module() {
    let (engine, entries) = (engine(), Entries::of(2, 48));
    let module = entries.live(&engine);
    let (_thread, attached) = attached(&engine);
    (0..2).for_each(|id| _ = engine.patch(id, &returning::<40>()).unwrap());
    assert_eq!(engine.settle(&attached), Ok(settled(0, 2, 0)));
    assert!(Arc::strong_count(&entries.memory) > 1);
    // SAFETY: no thread is in it.
    let grace_period = unsafe { crate::publish::GracePeriod::promise() };
    engine.unregister(module, &grace_period).unwrap();
    assert_eq!(Arc::strong_count(&entries.memory), 1);
}

#[test]
fn a_module_that_is_unregistered_is_not_settled() {
    let engine = engine();
    let module = live_module(&engine);
    let (thread, attached) = attached(&engine);
    engine.patch(107, &adding(5)).unwrap();
    engine.patch(106, &adding(5)).unwrap();
    assert_eq!(engine.settle(&attached), Ok(settled(0, 2, 0)));
    engine.patch(106, &adding(6)).unwrap();
    // SAFETY: no thread is in it.
    let grace_period = unsafe { crate::publish::GracePeriod::promise() };
    engine.unregister(module, &grace_period).unwrap();
    thread.checkpoint();
    assert_eq!(engine.settle(&attached), Ok(settled(0, 0, 0)));
    // What was replaced goes as ever.
    assert_eq!(engine.reclaim_passed(&attached), Ok(0));
    thread.checkpoint();
    assert_eq!(engine.reclaim_passed(&attached), Ok(1));
    assert_eq!(engine.stub_stats().slots, 0);
}

/// One call after the other fails: each site is settled, or goes to its stub, and goes on so.
#[test]
fn whatever_fails_each_site_does_what_it_did_and_can_be_changed() {
    let mut failed = 0;
    for kind in [Call::Write, Call::Exchange, Call::Read] {
        for after in 0.. {
            let (engine, entries) = (engine(), Entries::of(3, 48));
            let module = entries.live(&engine);
            let (thread, attached) = attached(&engine);
            (0..3).for_each(|id| _ = engine.patch(id, &returning::<40>()).unwrap());
            engine.settle(&attached).unwrap();
            thread.checkpoint();
            entries.memory.fail_after(kind, after);
            let done = engine.settle(&attached);
            let has_failed = entries.memory.has_failed();
            entries.memory.heal();
            assert_eq!(has_failed, done.is_err(), "{done:?} {kind:?} {after}");
            failed += usize::from(has_failed);
            for id in 0..3 {
                assert_eq!(call(&module, &format!("f{id}"), 0), 40, "{kind:?} {after}");
                let site = site(&engine, id);
                let lost = engine.status(&site) == Status::Lost;
                let told =
                    matches!(&done, Err(Error::RollBackFailed { sites, .. }) if sites[0].0 == *site.name());
                assert_eq!(lost, told, "{done:?}");
                if !lost {
                    engine.patch(id, &returning::<50>()).unwrap();
                    assert_eq!(call(&module, &format!("f{id}"), 0), 50);
                }
            }
            if !has_failed {
                assert_eq!(done, Ok(settled(3, 0, 0)));
                break;
            }
        }
    }
    println!("{failed} failures");
    assert!(failed > 10, "{failed}");
}

/// Three sites that could be settled now.
fn ready_to_settle(engine: &Engine, entries: &Entries) -> (Module, ThreadHandle, Attached) {
    let module = entries.live(engine);
    let (thread, attached) = attached(engine);
    (0..3).for_each(|id| _ = engine.patch(id, &returning::<40>()).unwrap());
    assert_eq!(engine.settle(&attached), Ok(settled(0, 3, 0)));
    thread.checkpoint();
    (module, thread, attached)
}

/// One call after the other fails, once or from then on: the sites do what they did at once, and
/// those that are not lost are settled by the next call.
#[test]
fn what_was_refused_is_settled_by_the_next_call() {
    let mut later = 0;
    for for_good in [false, true] {
        for kind in [Call::Write, Call::Exchange, Call::Read] {
            for after in 0.. {
                let (engine, entries) = (engine(), Entries::of(3, 48));
                let (module, _thread, attached) = ready_to_settle(&engine, &entries);
                let before = entries.memory.count(kind);
                match for_good {
                    true => entries.memory.fail_from(kind, after),
                    false => entries.memory.fail_after(kind, after),
                }
                let done = engine.settle(&attached);
                entries.memory.heal();
                let calls = entries.memory.count(kind) - before;
                let what = format!("{kind:?} {after} {for_good}: {done:?}");
                let status = |id| engine.status(&site(&engine, id));
                let lost = (0..3).filter(|id| status(*id) == Status::Lost).count();
                let settled_now = (0..3)
                    .filter(|id| is_in_place(&engine, &site(&engine, *id)))
                    .count();
                let works = |id: u64| assert_eq!(call(&module, &format!("f{id}"), 0), 40, "{what}");
                (0..3).for_each(works);
                let again = engine.settle(&attached);
                assert_eq!(again, Ok(settled(3 - lost - settled_now, 0, 0)), "{what}");
                later += 3 - lost - settled_now;
                (0..3).for_each(works);
                if done.is_ok() {
                    assert!(calls <= u64::from(after), "{what}");
                    break;
                }
            }
        }
    }
    println!("{later} sites were settled later");
    assert!(later > 20, "{later}");
}

/// The barrier is refused once, in the call that begins the grace period or in that which opens.
#[cfg(target_os = "linux")]
#[test]
fn what_the_barrier_refused_is_settled_by_a_later_call() {
    if !barriers::has_membarrier() {
        println!("no membarrier here");
        return;
    }
    let (engine, entries) = (engine(), Entries::of(3, 48));
    let module = entries.live(&engine);
    let (thread, attached) = attached(&engine);
    let works = |number| {
        (0..3).for_each(|id| assert_eq!(call(&module, &format!("f{id}"), 0), number));
    };
    // What is denied is denied to that thread alone.
    let refused = || {
        let settle = || {
            deny(&[libc::SYS_membarrier], libc::EPERM);
            engine.settle(&attached)
        };
        let done = std::thread::scope(|scope| scope.spawn(settle).join().unwrap());
        assert!(
            matches!(done, Err(Error::Publish(crate::publish::Error::NoBarrier { .. }))),
            "{done:?}"
        );
    };
    (0..3).for_each(|id| _ = engine.patch(id, &returning::<40>()).unwrap());
    refused();
    works(40);
    assert_eq!(engine.settle(&attached), Ok(settled(0, 3, 0)));
    thread.checkpoint();
    let closed = bytes(&module);
    refused();
    // What was behind the gates is there again.
    assert_eq!(bytes(&module), closed);
    works(40);
    assert_eq!(engine.settle(&attached), Ok(settled(3, 0, 0)));
    works(40);
    (0..3).for_each(|id| _ = engine.patch(id, &returning::<50>()).unwrap());
    works(50);
}

#[test]
fn what_does_not_arrive_is_noticed() {
    let (engine, entries) = (engine(), Entries::of(1, 48));
    let module = entries.live(&engine);
    let (thread, attached) = attached(&engine);
    engine.patch(0, &returning::<40>()).unwrap();
    engine.settle(&attached).unwrap();
    thread.checkpoint();
    entries.memory.lose_writes(true);
    let refused = engine.settle(&attached);
    entries.memory.lose_writes(false);
    assert!(
        matches!(refused, Err(Error::RollBackFailed { .. })),
        "{refused:?}"
    );
    assert_eq!(engine.status(&site(&engine, 0)), Status::Lost);
    assert_eq!(call(&module, "f0", 0), 40);
}

#[test]
fn bytes_that_something_else_wrote_are_not_written_over() {
    let (engine, entries) = (engine(), Entries::of(2, 48));
    let _module = entries.live(&engine);
    let (thread, attached) = attached(&engine);
    (0..2).for_each(|id| _ = engine.patch(id, &returning::<40>()).unwrap());
    engine.settle(&attached).unwrap();
    thread.checkpoint();
    let site = site(&engine, 0);
    let last = site.end().get() - HOST.trap.len() as u64;
    let memory = site.memory().unwrap().live().unwrap();
    memory.write_unexecuted(CodeAddr::new(last), HOST.trap).unwrap();
    let held = site.read().unwrap();
    let refused = engine.settle(&attached);
    assert!(matches!(refused, Err(Error::BytesChanged { .. })), "{refused:?}");
    assert_eq!(site.read().unwrap(), held);
    // The other one is settled.
    assert!(is_in_place(&engine, &super::site(&engine, 1)));
}
