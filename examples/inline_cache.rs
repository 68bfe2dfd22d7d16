//! An inline cache from empty to three shapes, and then the code that it is in is discarded in
//! mid-loop.
//!
//! `examples/objects/inline_cache.ll` was compiled by LLVM ahead of time. Its function `sum_fields`
//! reads a property of each of a list of objects through a patchpoint of 32 bytes. This program is
//! the runtime: it loads the object, answers the cache's misses, patches it for the shapes that it
//! has seen, and when an object turns up that no cache can serve, invalidates the function and
//! finishes the loop itself, from the values that the stack map names.
//!
//!     cargo run --release --example inline_cache
#![allow(unsafe_code, clippy::unwrap_used, clippy::indexing_slicing)]

#[path = "objects/mod.rs"]
mod compiled;
#[path = "inline_cache/objects.rs"]
mod objects;
#[path = "inline_cache/report.rs"]
mod report;

use std::error::Error;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use objects::{Object, SHAPE_OFFSET, lookup};
use patchpoint::addr::CodeAddr;
use patchpoint::deopt::{Answer, ExitStubs, Frame, ReturnValue};
use patchpoint::publish::SingleThreaded;
use patchpoint::sequence::{Field, Label, Sequence, Target, arg, result};
use patchpoint::{CallShape, Engine};
use report::Report;

/// The ID of the property reads in the IR.
const GET: u64 = 78;
/// The ID of the stackmap at which the loop can be left.
const LOOP: u64 = 90;

/// The runtime: what it has learnt, and what it has been asked.
#[derive(Default)]
struct Runtime {
    /// Whether it learns from misses by now.
    learns: AtomicBool,
    /// The shapes that the cache serves, with the offset of the property in each.
    entries: Mutex<Vec<(u32, i32)>>,
    misses: Mutex<u32>,
    /// The last change of the cache, and what the deoptimization saw: for the report.
    plan: Mutex<String>,
    deoptimized: Mutex<Vec<String>>,
}

impl Runtime {
    /// The cache has no entry for an object: find the property, remember its shape, patch.
    fn miss<'f>(&self, frame: &mut Frame<'f>) -> Answer<'f> {
        *self.misses.lock().unwrap() += 1;
        let object = frame.arg_u64(0).expect("the argument is a pointer");
        // SAFETY: the compiled code passes what it was given: pointers to objects.
        let object = unsafe { &*(object as *const Object) };
        frame.set_result(lookup(object)).expect("the shape has a result");
        if self.learns.load(Ordering::Relaxed) {
            match object.property_offset() {
                Some(offset) => self.learn(frame, (object.shape, offset)),
                // No cache can serve it: give the compiled loop up. It goes on to the stackmap at
                // its end.
                None => {
                    let function = frame.site().function();
                    let invalidated = frame.engine().invalidate(&function);
                    invalidated.expect("every site has room for a jump");
                }
            }
        }
        frame.resume()
    }

    /// Adds an entry to the caches of all reads of the property.
    fn learn(&self, frame: &Frame<'_>, entry: (u32, i32)) {
        let mut entries = self.entries.lock().unwrap();
        entries.push(entry);
        let sequence = cache(&entries);
        let engine = frame.engine();
        let plan = engine
            .transaction()
            .patch_site(frame.site(), &sequence)
            .and_then(|change| change.prepare());
        *self.plan.lock().unwrap() = plan.expect("the site takes the cache").to_string();
        engine.patch(GET, &sequence).expect("all sites take the cache");
    }

    /// An invalidated site was reached: read what the loop was doing, and do the rest of it here.
    fn deoptimize<'f>(&self, frame: &mut Frame<'f>) -> Answer<'f> {
        if frame.context().id.get() != LOOP {
            // At a property read the record does not hold all of the loop's state. Let the read
            // happen as before; the stackmap that follows holds it.
            return frame.resume();
        }
        let live: Vec<_> = frame
            .live_values()
            .map(|(place, value)| (place, value.unwrap()))
            .collect();
        *self.deoptimized.lock().unwrap() = report::live_values(&live);
        let number = |index: usize| live[index].1.u64().expect("the first five live values are words");
        let (objects, count, index, sum) = (number(0), number(1), number(2), number(3));
        // SAFETY: the slot is a local variable of the frame, the record says where.
        let seen = unsafe { *(number(4) as *const u64) };
        let halves = live[5].1.f64().expect("the sixth live value is a double");
        // SAFETY: the caller passed a list of `count` objects.
        let objects = unsafe { std::slice::from_raw_parts(objects as *const &Object, count as usize) };
        let rest = &objects[index as usize + 1..];
        let sum = rest
            .iter()
            .fold(sum, |sum, object| sum.wrapping_add(lookup(object)));
        let (seen, halves) = (seen + rest.len() as u64, halves + 0.5 * rest.len() as f64);
        let value = ReturnValue::Int(sum + seen + halves as u64);
        frame
            .return_to_caller(value)
            .expect("the function has unwind information")
    }
}

/// The sequence of a cache: for each shape a comparison and a load, and behind the last one a miss.
fn cache(entries: &[(u32, i32)]) -> Sequence {
    let mut sequence = Sequence::new();
    for (number, (shape, offset)) in (0..).zip(entries) {
        let next = Label::new(number);
        sequence = sequence
            .guard_eq(u32::at(arg(0), SHAPE_OFFSET), u64::from(*shape), next)
            .load(result(), u64::at(arg(0), *offset))
            .jump(Target::End)
            .bind(next);
    }
    sequence.jump(Target::Miss)
}

fn main() -> ExitCode {
    match run() {
        Ok(0) => ExitCode::SUCCESS,
        Ok(wrong) => {
            eprintln!("{wrong} results are wrong");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the story. Returns how many results were wrong.
fn run() -> Result<usize, Box<dyn Error>> {
    let runtime = Arc::new(Runtime::default());
    let (misses, leaves) = (Arc::clone(&runtime), Arc::clone(&runtime));
    let exit_stubs = ExitStubs::new()
        .on_miss(move |frame| misses.miss(frame))
        .on_deopt(move |frame| leaves.deoptimize(frame));
    // SAFETY: this program has one thread.
    let world = unsafe { SingleThreaded::promise() };
    let engine = Engine::builder().world(world).exits(exit_stubs).build()?;
    let mut report = Report::new();

    report.title("Loaded");
    let code = engine.load(compiled::INLINE_CACHE, |_| None::<CodeAddr>)?;
    let shape = |id| match id {
        GET => Some(CallShape::any_reg(32).result().args(1)),
        LOOP => Some(CallShape::shadow(24)),
        _ => None,
    };
    // SAFETY: that is what the IR says of the two, and objects are laid out as the sequences and handlers read them.
    let module = unsafe { engine.register(code, |record| shape(record.id().get())) }?;
    report.sites(&module);

    let function = module.function("sum_fields")?;
    type SumFields = extern "C" fn(*const &Object, u64) -> u64;
    // Its code may run from now on.
    module.release();
    // SAFETY: the IR gives the function this signature, and the module stays registered.
    let sum_fields = unsafe { function.typed::<SumFields>() }?;
    let call = |objects: &[&Object]| sum_fields(objects.as_ptr(), objects.len() as u64);

    report.title("An empty cache: every read goes to the runtime");
    let site = function
        .sites()
        .find(|site| site.id().get() == GET)
        .ok_or("no property read")?;
    let empty = engine.transaction().patch_site(&site, &cache(&[]))?.prepare()?;
    report.text(&format!("{empty:#?}"));
    empty.commit()?;
    report.call(
        "one shape, every read a miss",
        &objects::of_shapes(&[0x17]),
        &call,
        &runtime.misses,
    );
    runtime.learns.store(true, Ordering::Relaxed);

    for (step, shapes) in [&[0x17][..], &[0x17, 0x23], &[0x17, 0x23, 0x31]]
        .into_iter()
        .enumerate()
    {
        report.title(["One shape", "A second shape", "A third shape"][step]);
        let objects = objects::of_shapes(shapes);
        report.call("the first call learns", &objects, &call, &runtime.misses);
        report.text(&runtime.plan.lock().unwrap());
        report.call("the next call hits", &objects, &call, &runtime.misses);
    }

    report.title("An object that no cache can serve: the function's code is discarded in mid-loop");
    let mixed = objects::with_computed(&[0x17, 0x23, 0x31]);
    report.call_once("deoptimized", &mixed, &call, &runtime.misses);
    report.lines("read from the stack map", &runtime.deoptimized.lock().unwrap());
    report.bytes(&function);
    report.call_once(
        "called again, it leaves after the first object",
        &mixed,
        &call,
        &runtime.misses,
    );
    Ok(report.finish())
}
