//! A return address inside a rewritten region: callees patch the site into which they will return.

use super::*;
use patchpoint::arch::OnReturn;
use patchpoint::engine::Status;
use patchpoint::publish::GracePeriod;
use patchpoint::sequence::{Sequence, arg, result, temp};
use std::cell::RefCell;

/// What the callee does when the compiled code calls it.
type Action = Box<dyn FnMut(u64) -> u64>;

thread_local! {
    static ACTION: RefCell<Vec<Action>> = const { RefCell::new(Vec::new()) };
}

/// Runs the latest action, without keeping others from being set meanwhile.
extern "C" fn callee(a: u64) -> u64 {
    let mut action = ACTION.with_borrow_mut(Vec::pop).expect("an action was set");
    let answer = action(a);
    ACTION.with_borrow_mut(|actions| actions.push(action));
    answer
}

fn on_call(action: impl FnMut(u64) -> u64 + 'static) {
    ACTION.set(vec![Box::new(action)]);
}

/// `result = argument + 7`, then as many bytes of real instructions as there are.
fn all_of(bytes: u32) -> Sequence {
    let body = Sequence::new().mov(result(), arg(0)).add(result(), 7u64);
    (0..(bytes - HOST.add) / 4).fold(body, |sequence, _| sequence.raw(&HOST.adds_nothing))
}

fn seven() -> Sequence {
    Sequence::new().mov(result(), arg(0)).add(result(), 7u64)
}

/// `argument + 7`, longer than the bytes before the return offset: in a stub.
fn seven_in_stub() -> Sequence {
    let start = Sequence::new().mov(result(), arg(0));
    (0..7)
        .fold(start, |sequence, _| sequence.add(result(), 1u64))
        .mov(temp(), 0x1234_5678_9abc_def0u64)
        .mov(temp(), 0x1234_5678_9abc_def0u64)
}

#[test]
fn a_callee_patches_the_site_it_returns_into() {
    for sequence in [seven(), seven_in_stub(), Sequence::new().mov(result(), 9u64)] {
        let (engine, _) = engine();
        let module = registered_for_calls(&engine, callee);
        let (inner, patch) = (engine.clone(), sequence.clone());
        on_call(move |a| {
            inner.patch(1, &patch).unwrap();
            a + 100
        });
        // The callee's answer goes through the new bytes behind the return offset: nops.
        assert_eq!(call(&module, "calls", [1, 0]), 101 * 3);
        assert_ne!(call(&module, "calls", [1, 0]), 101 * 3);
    }
}

#[test]
fn what_would_cover_the_return_offset_is_refused_while_a_callee_is_in_the_call() {
    let (engine, _) = engine();
    let module = registered_for_calls(&engine, callee);
    let inner = engine.clone();
    on_call(move |a| {
        let refused = inner.patch(1, &all_of(reserved(1)).in_place_only());
        refused!(refused, Assemble(SequenceTooLong), 1);
        a + 100
    });
    assert_eq!(call(&module, "calls", [1, 0]), 101 * 3);
    assert_eq!(engine.status(&the_site(&engine, 1)), Status::Original);
    // A stub can be as long as it likes.
    engine.patch(1, &all_of(reserved(1) - 1)).unwrap();
    assert_eq!(call(&module, "calls", [1, 0]), 8 * 3);
    // Once nothing returns there, the whole site can be had.
    // SAFETY: the only thread is here.
    let grace_period = unsafe { GracePeriod::promise() };
    let mut transaction = engine.transaction();
    transaction
        .patch(1, &all_of(reserved(1) - 1).in_place_only())
        .unwrap();
    transaction.grace_period(grace_period).commit().unwrap();
    assert_eq!(call(&module, "calls", [1, 0]), 8 * 3);
}

#[test]
fn a_callee_restores_and_patches_again_before_it_returns() {
    let (engine, _) = engine();
    let module = registered_for_calls(&engine, callee);
    let inner = engine.clone();
    on_call(move |a| {
        for _ in 0..3 {
            inner.patch(1, &seven()).unwrap();
            inner.restore(1).unwrap();
            inner.patch(1, &seven_in_stub()).unwrap();
            inner.restore(1).unwrap();
        }
        a + 100
    });
    assert_eq!(call(&module, "calls", [1, 0]), 101 * 3);
    // Original again: the callee is called again.
    assert_eq!(call(&module, "calls", [2, 0]), 102 * 3);
}

#[test]
fn a_callee_invalidates_the_function_it_returns_into() {
    let (engine, deopts) = engine();
    let module = registered_for_calls(&engine, callee);
    let (inner, function) = (engine.clone(), module.function("calls").unwrap());
    on_call(move |a| {
        inner.invalidate(&function).unwrap();
        a + 100
    });
    assert_eq!(call(&module, "calls", [1, 0]), 101 * 3);
    assert_eq!(deopts.load(Ordering::Relaxed), 0);
    // From the exit stub on: LLVM's call, displaced, then the rest of the function.
    assert_eq!(call(&module, "calls", [2, 0]), 102 * 3);
    assert_eq!(deopts.load(Ordering::Relaxed), 1);
}

#[test]
fn frames_of_a_recursion_all_return_into_the_patched_site() {
    const DEPTH: u64 = 12;
    for change in 0..4 {
        let (engine, _) = engine();
        let module = registered_for_calls(&engine, callee);
        module.release();
        let entry = module.function("recurses").unwrap().entry().unwrap();
        let (inner, function) = (engine.clone(), module.function("recurses").unwrap());
        on_call(move |a| {
            if a > 0 {
                // The action is taken out while it runs: this frame's callee is another.
                let again: Action = Box::new(recursion(entry, inner.clone(), function.clone(), change));
                ACTION.with_borrow_mut(|actions| actions.push(again));
                let answer = call_at(entry, [a - 1, 0]);
                ACTION.with_borrow_mut(Vec::pop);
                return answer;
            }
            0
        });
        // Each frame adds its own argument, which it keeps in a register that callees preserve.
        assert_eq!(call_at(entry, [DEPTH, 0]), DEPTH * (DEPTH + 1) / 2, "{change}");
    }
}

/// Calls down to 0, and there makes the change under all the frames.
fn recursion(
    entry: CodeAddr,
    engine: Engine,
    function: patchpoint::site::Function,
    change: u32,
) -> impl FnMut(u64) -> u64 {
    move |a| {
        if a > 0 {
            let again: Action = Box::new(recursion(entry, engine.clone(), function.clone(), change));
            ACTION.with_borrow_mut(|actions| actions.push(again));
            let answer = call_at(entry, [a - 1, 0]);
            ACTION.with_borrow_mut(Vec::pop);
            return answer;
        }
        match change {
            0 => engine.patch(2, &seven()).unwrap(),
            1 => engine.patch(2, &seven_in_stub()).unwrap(),
            2 => engine.invalidate(&function).unwrap(),
            _ => {
                engine.patch(2, &seven()).unwrap();
                engine.restore(2).unwrap()
            }
        };
        0
    }
}

extern "C" fn not_called(_: u64) -> u64 {
    unreachable!("the site was patched before it ran")
}

#[test]
fn a_stub_is_kept_while_its_callee_runs_and_reclaimed_after_a_drain() {
    let (engine, _) = engine();
    let module = registered_for_calls(&engine, not_called);
    // A stub that calls: the callee returns into the stub, not into the site.
    let adds = u64::from(reserved(1) / 4);
    let through_stub = (0..adds).fold(
        // SAFETY: the function can be called from the site.
        unsafe { Sequence::new().call(address(callee), OnReturn::FollowsC) },
        |sequence, _| sequence.add(result(), 1u64),
    );
    engine.patch(1, &through_stub).unwrap();
    let one = engine.stub_stats();
    assert_eq!(one.slots, 1);
    let inner = engine.clone();
    on_call(move |a| {
        inner.patch(1, &Sequence::new().mov(result(), 1u64)).unwrap();
        // What the stub was must not become another's: fill the pool with other stubs.
        for _ in 0..4 {
            inner.patch(2, &seven_in_stub()).unwrap();
            inner.restore(2).unwrap();
        }
        assert!(
            inner.stub_stats().slots >= 1,
            "the stub was freed under its callee"
        );
        a + 100
    });
    assert_eq!(call(&module, "calls", [1, 0]), (101 + adds) * 3);
    assert_eq!(engine.stub_stats().slots, 1);
    // SAFETY: the only thread is here.
    let grace_period = unsafe { GracePeriod::promise() };
    assert_eq!(engine.reclaim(&grace_period).unwrap(), 1);
    assert_eq!(
        (engine.stub_stats().slots, engine.reclaim(&grace_period).unwrap()),
        (0, 0)
    );
    assert_eq!(call(&module, "calls", [1, 0]), 3);
}
