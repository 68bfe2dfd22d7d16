//! Hits where nothing but their number of instructions takes time: the loop of
//! [`ratios`](crate::ratios) waits for other things, so that even a slower check costs nothing in
//! it.

use std::hint::black_box;

use patchpoint::CallShape;

use crate::measure::{Effort, interleave, time};
use crate::report::{Bare, Row};
use crate::subject::{self, Object, SHAPE};

type Hundred = extern "C" fn(*const Object) -> u64;

/// Calls for one time.
const CALLS: usize = 100;

/// Both: patched, and slower on purpose, against the checks written by hand.
pub fn all() -> Vec<Row> {
    let engine = subject::engine();
    let code = subject::load(&engine, subject::HUNDRED);
    // SAFETY: what is told is true of the object's code, or refused.
    let module = unsafe { engine.register(code, subject::shape) }.unwrap();
    engine.patch(subject::READ, &subject::hit(8)).unwrap();
    let tight = subject::engine();
    let code = subject::load(&tight, subject::SNUG);
    let shape = CallShape::any_reg(subject::HIT).result().args(1);
    // SAFETY: what is told is true of the object's code, or refused.
    let snug = unsafe { tight.register(code, |_| shape) }.unwrap();
    tight
        .patch(subject::READ, &subject::hit(8).in_place_only())
        .unwrap();
    let bare = subject::load(&engine, subject::CHECKS);
    let symbol = |name| bare.symbol(name).unwrap();
    module.release();
    snug.release();
    let patched = module.function("hundred").unwrap().entry().unwrap();
    let snug = snug.function("hundred").unwrap().entry().unwrap();
    let object = Object {
        shape: u64::from(SHAPE),
        property: 3,
    };
    let functions = [patched, snug, symbol("hundred"), symbol("slower")];
    let [mut patched, mut snug, mut bare, mut slower] = functions.map(|addr| {
        // SAFETY: each is the C function that its source says, mapped until the engine and the code go.
        let function = unsafe { std::mem::transmute::<usize, Hundred>(addr.get() as usize) };
        move || time(|| (0..CALLS).for_each(|_| assert_eq!(function(black_box(&object)), 300)))
    });
    let effort = Effort {
        batches: 1001,
        operations: 100 * CALLS,
    };
    let functions: [&mut dyn FnMut() -> _; 4] = [&mut patched, &mut snug, &mut bare, &mut slower];
    let [patched, snug, bare, slower] = interleave(effort, functions);
    let row = |what, ours, goal| Row {
        what,
        ours,
        bare: Some(Bare {
            what: "the same, checks written by hand, no nops",
            figure: bare.clone(),
            goal,
        }),
        beside: false,
    };
    vec![
        row("hit, 100 in a row, sites that it fills", snug, Some(1.05)),
        row("the same with 19 bytes of nops in each site", patched, None),
        row("sensitivity: one more load in the check", slower, None),
    ]
}
