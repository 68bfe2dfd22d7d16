//! Inline caches: hits against checks written by hand and against caches held in data, chains,
//! misses, exit stubs, and invalidations of many functions.

use std::hint::black_box;
use std::time::Duration;

use patchpoint::addr::CodeAddr;
use patchpoint::arch::OnReturn;
use patchpoint::deopt::{Assumptions, ExitStubs};
use patchpoint::engine::{Engine, Exits, LoadedCode};
use patchpoint::ic::{Action, Cache, Caches, CachesBuilder, Chain, Entry, Guard, Learn, Miss, Pointer};
use patchpoint::publish::{Attached, SingleThreaded};
use patchpoint::sequence::{Field, Sequence, Target, arg};
use patchpoint::site::{Module, Site};
use patchpoint::{CallShape, verify};

use crate::measure::{Effort, Figure, interleave, time};
use crate::report::Row;
use crate::subject::{
    self, C_LOOP, DATA_CALL, DATA_HUNDRED, DATA_OFFSET, HANDWRITTEN, INLINE_CACHE, Object, READ, RESERVED,
    SHAPE,
};
use crate::{megamorphic, misses, pages};

pub(crate) const OBJECTS: usize = 1000;

const HITS: Effort = Effort {
    batches: 1001,
    operations: 8 * OBJECTS,
};

pub(crate) const MISSES: Effort = Effort {
    batches: 201,
    operations: OBJECTS,
};

pub(crate) type SumFields = extern "C" fn(*const *const Object, u64) -> u64;
pub(crate) type Get = extern "C" fn(*const Object) -> u64;

/// All of them.
pub fn all() -> Vec<Row> {
    let mut rows = Hits::new().rows();
    rows.extend(in_a_row());
    rows.extend(exit_stubs());
    rows.extend(megamorphic::rows());
    rows.extend(misses::rows());
    rows.extend(invalidations());
    rows
}

// ---- what is measured on ----

pub(crate) fn engine(exits: impl Exits + 'static) -> Engine {
    // SAFETY: the measurements run on one thread.
    let world = unsafe { SingleThreaded::promise() };
    Engine::builder().world(world).exits(exits).build().unwrap()
}

pub(crate) fn object_of(miss: &Miss<'_, '_>) -> Object {
    let at = miss.arg(0).unwrap().u64().unwrap() as *const Object;
    // SAFETY: the loops pass objects.
    unsafe { *at }
}

pub(crate) fn learn<'f>(miss: &mut Miss<'_, 'f>) -> Learn<'f> {
    let object = object_of(miss);
    miss.set_result(object.property).unwrap();
    Learn::Entry(
        Entry::new(Action::load::<u64>(Pointer::plain(arg(0)), 8))
            .guard(Guard::equal(u32::at(arg(0), 0), object.shape))
            .depends_on(object.shape),
    )
}

/// Caches that never stop learning and never wait.
pub(crate) fn patient() -> CachesBuilder {
    Caches::builder().policy(Chain {
        limit: 8,
        back_off: 0,
        cool_down: 0,
    })
}

pub(crate) fn site_of(module: &Module, function: &str) -> Site {
    let function = module.function(function).unwrap();
    let mut sites = function.sites().filter(|site| site.id().get() == READ);
    sites.next().unwrap()
}

/// A load of an object whose loop begins so far into a cache line: where it does can cost more than
/// what is measured. Loads that do not suit are kept until one does, else the next would get the
/// same place.
fn load_at(engine: &Engine, object: &[u8], want: u64) -> LoadedCode {
    let mut loads = Vec::new();
    loop {
        let code = subject::load(engine, object);
        if code.symbol("sum_fields").unwrap().get() % 64 == want {
            return code;
        }
        loads.push(code);
        assert!(loads.len() < 64, "no load begins {want} bytes into a cache line");
    }
}

/// Where the code of caches is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Installed {
    /// In sites that are changed while nobody executes them.
    InPlace,
    /// In stubs of live sites.
    InStubs,
    /// In live sites that have been settled.
    Settled,
}

/// Settles what was patched.
pub(crate) fn settle(engine: &Engine, sites: usize) {
    let thread = engine.attach_thread();
    // SAFETY: this thread alone executes, and is outside of all code.
    let attached = unsafe { Attached::promise() };
    engine.settle(&attached).unwrap();
    thread.checkpoint();
    assert_eq!(engine.settle(&attached).unwrap().settled, sites);
}

/// A compiled loop whose read has a cache that knows the shape.
struct Cached {
    // The code and the exit stubs stay as long as these.
    engine: Engine,
    _caches: Caches,
    module: Module,
    _cache: Cache,
}

impl Cached {
    /// The entry for the shape is the last of `depth`.
    fn new(object: &[u8], want: u64, installed: Installed, depth: u64) -> Self {
        let caches = patient().lookup(learn);
        let engine = engine(caches.exit_stubs());
        let registration = engine.registration(load_at(&engine, object, want));
        let registration = match installed {
            Installed::InPlace => registration,
            Installed::InStubs | Installed::Settled => registration.live(),
        };
        // SAFETY: what is told is true of the object's code, or refused.
        let module = unsafe { registration.register(subject::shape) }.unwrap();
        let cache = caches.attach(&engine, &site_of(&module, "sum_fields")).unwrap();
        module.release();
        let this = Self {
            engine,
            _caches: caches,
            module,
            _cache: cache,
        };
        for shape in 0..depth {
            let object = Object {
                shape: u64::from(SHAPE) + shape,
                property: 0,
            };
            this.function()(&(&raw const object), 1);
        }
        assert_eq!(this._cache.entries().len() as u64, depth);
        if installed == Installed::Settled {
            settle(&this.engine, 1);
        }
        this
    }

    fn addr(&self) -> CodeAddr {
        self.module.function("sum_fields").unwrap().entry().unwrap()
    }

    fn function(&self) -> SumFields {
        function(self.addr())
    }

    fn show(&self, name: &str) -> String {
        let len = self.module.function("sum_fields").unwrap().len().as_usize();
        disassembly(&self.engine, name, self.addr(), len)
    }
}

pub(crate) fn function(addr: CodeAddr) -> SumFields {
    // SAFETY: each is the C function that its source says, and stays mapped as long as its engine.
    unsafe { std::mem::transmute(addr.get() as usize) }
}

pub(crate) fn disassembly(engine: &Engine, name: &str, addr: CodeAddr, len: usize) -> String {
    // SAFETY: code that was loaded; the room taken for it is longer than the function.
    let code = unsafe { pages::read(addr.get(), len) };
    let mut out = format!("{name}, {} bytes into a cache line:\n", addr.get() % 64);
    for line in verify::disassemble(engine.modules()[0].arch(), addr, &code) {
        out += &format!("  {:x}  {}\n", line.addr.get(), line.text);
    }
    out
}

/// The objects, and the sum of their properties.
pub(crate) fn objects() -> (Vec<Object>, u64) {
    let object = |property| Object {
        shape: u64::from(SHAPE),
        property,
    };
    let objects: Vec<Object> = (0..OBJECTS as u64).map(object).collect();
    let sum = objects.iter().map(|object| object.property).sum();
    (objects, sum)
}

/// A batch of a loop over the objects.
pub(crate) fn batch(
    function: SumFields,
    pointers: &[*const Object],
    sum: u64,
    rounds: usize,
) -> impl FnMut() -> Duration + '_ {
    move || {
        time(|| {
            for _ in 0..rounds {
                assert_eq!(function(black_box(pointers.as_ptr()), pointers.len() as u64), sum);
            }
        })
    }
}

// ---- hits ----

/// The same loop with a check in different ways.
pub struct Hits {
    in_place: Cached,
    through_stub: Cached,
    settled: Cached,
    /// The last entry of chains of 2, 3 and 4.
    chains: [Cached; 3],
    handwritten: LoadedCode,
    data_call: LoadedCode,
    data_offset: LoadedCode,
}

impl Hits {
    /// Loads and warms all.
    pub fn new() -> Self {
        let want = {
            let engine = engine(ExitStubs::new());
            subject::load(&engine, INLINE_CACHE)
                .symbol("sum_fields")
                .unwrap()
                .get()
                % 64
        };
        let in_place = Cached::new(INLINE_CACHE, want, Installed::InPlace, 1);
        let load = |object| load_at(&in_place.engine, object, want);
        Self {
            through_stub: Cached::new(INLINE_CACHE, want, Installed::InStubs, 1),
            settled: Cached::new(INLINE_CACHE, want, Installed::Settled, 1),
            chains: [2, 3, 4].map(|depth| Cached::new(INLINE_CACHE, want, Installed::InPlace, depth)),
            handwritten: load(HANDWRITTEN),
            data_call: load(DATA_CALL),
            data_offset: load(DATA_OFFSET),
            in_place,
        }
    }

    /// The disassembly of the loops.
    pub fn show(&self) -> String {
        let engine = &self.in_place.engine;
        let code =
            |name, code: &LoadedCode| disassembly(engine, name, code.symbol("sum_fields").unwrap(), 0x8c);
        [
            self.in_place.show("hit in place"),
            self.through_stub.show("hit through a stub"),
            self.settled.show("hit of a settled site"),
            self.chains[2].show("chain of 4"),
            code("check written by hand", &self.handwritten),
            code("cache in data, call", &self.data_call),
            code("cache in data, offset", &self.data_offset),
        ]
        .join("\n")
    }

    fn rows(&self) -> Vec<Row> {
        let (objects, sum) = objects();
        let count = OBJECTS as u64;
        let sum = sum + count + count / 2;
        let pointers: Vec<*const Object> = objects.iter().map(std::ptr::from_ref).collect();
        let of = |code: &LoadedCode| function(code.symbol("sum_fields").unwrap());
        let functions = [
            self.in_place.function(),
            self.through_stub.function(),
            self.settled.function(),
            self.chains[0].function(),
            self.chains[1].function(),
            self.chains[2].function(),
            of(&self.handwritten),
            of(&self.data_call),
            of(&self.data_offset),
        ];
        let mut ways = functions.map(|function| batch(function, &pointers, sum, HITS.operations / OBJECTS));
        let [a, b, c, d, e, f, g, h, i] = &mut ways;
        let [in_place, stub, settled, two, three, four, by_hand, call, offset] =
            interleave(HITS, [a, b, c, d, e, f, g, h, i]);
        let row = |what, ours: &Figure, bare: &Figure, than, goal| {
            Row::against(what, [ours.clone(), bare.clone()], than, goal)
        };
        const BY_HAND: &str = "the same loop, check written by hand";
        const CALL: &str = "cache in data: load, compare, indirect call";
        const OFFSET: &str = "cache in data: load, compare, load by offset";
        const IN_PLACE: &str = "monomorphic hit in place, per object";
        const STUB: &str = "monomorphic hit through a stub (live site)";
        const SETTLED: &str = "monomorphic hit of a settled live site";
        vec![
            row(IN_PLACE, &in_place, &by_hand, BY_HAND, Some(1.05)),
            row(IN_PLACE, &in_place, &call, CALL, Some(1.0)),
            row(IN_PLACE, &in_place, &offset, OFFSET, None),
            row(STUB, &stub, &by_hand, BY_HAND, Some(1.5)),
            row(STUB, &stub, &call, CALL, Some(1.0)),
            row(STUB, &stub, &offset, OFFSET, None),
            row(SETTLED, &settled, &by_hand, BY_HAND, Some(1.05)),
            row(SETTLED, &settled, &call, CALL, Some(1.0)),
            row(SETTLED, &settled, &offset, OFFSET, Some(1.0)),
            row("polymorphic hit, 2nd of 2 entries", &two, &by_hand, BY_HAND, None),
            row(
                "polymorphic hit, 3rd of 3 entries",
                &three,
                &by_hand,
                BY_HAND,
                None,
            ),
            row(
                "polymorphic hit, 4th of 4 entries",
                &four,
                &by_hand,
                BY_HAND,
                None,
            ),
        ]
    }
}

impl Default for Hits {
    fn default() -> Self {
        Self::new()
    }
}

// ---- hits where every instruction takes time ----

/// A function of 100 reads, each with a cache that knows the shape.
fn hundred(installed: Installed, object: &Object) -> (Engine, Caches, Module) {
    let caches = patient().lookup(learn);
    let engine = engine(caches.exit_stubs());
    let registration = engine.registration(subject::load(&engine, subject::HUNDRED));
    let registration = match installed {
        Installed::InPlace => registration,
        Installed::InStubs | Installed::Settled => registration.live(),
    };
    // SAFETY: what is told is true of the object's code, or refused.
    let module = unsafe { registration.register(subject::shape) }.unwrap();
    caches.attach_all(&engine, READ).unwrap();
    module.release();
    get(module.function("hundred").unwrap().entry().unwrap())(object);
    assert_eq!(caches.totals().installed, 100);
    if installed == Installed::Settled {
        settle(&engine, 100);
    }
    (engine, caches, module)
}

pub(crate) fn get(entry: CodeAddr) -> Get {
    // SAFETY: the C function that its source says; its code stays as long as what is measured.
    unsafe { std::mem::transmute(entry.get() as usize) }
}

/// The loop waits for other things than the check; 100 reads one after the other do not.
fn in_a_row() -> Vec<Row> {
    const CALLS: usize = 100;
    let object = Object {
        shape: u64::from(SHAPE),
        property: 3,
    };
    let [in_place, stubs, settled] = [Installed::InPlace, Installed::InStubs, Installed::Settled]
        .map(|installed| hundred(installed, &object));
    let (by_hand, data) = (
        subject::load(&in_place.0, subject::CHECKS),
        subject::load(&in_place.0, DATA_HUNDRED),
    );
    let entry =
        |(_, _, module): &(Engine, Caches, Module)| module.function("hundred").unwrap().entry().unwrap();
    let addrs = [
        entry(&in_place),
        entry(&stubs),
        entry(&settled),
        by_hand.symbol("hundred").unwrap(),
        data.symbol("hundred_call").unwrap(),
        data.symbol("hundred_offset").unwrap(),
    ];
    let mut ways = addrs.map(|addr| {
        let (function, object) = (get(addr), &object);
        move || time(|| (0..CALLS).for_each(|_| assert_eq!(function(black_box(object)), 300)))
    });
    let effort = Effort {
        batches: 1001,
        operations: 100 * CALLS,
    };
    let [a, b, c, d, e, f] = &mut ways;
    let [in_place, stubs, settled, by_hand, call, offset] = interleave(effort, [a, b, c, d, e, f]);
    let row = |what, ours: &Figure, bare: &Figure, than| {
        Row::against(what, [ours.clone(), bare.clone()], than, None)
    };
    const BY_HAND: &str = "the same, checks written by hand, no nops";
    const CALL: &str = "caches in data: load, compare, indirect call";
    const OFFSET: &str = "caches in data: load, compare, load by offset";
    const IN_PLACE: &str = "100 hits in a row, in place, per hit";
    const STUBS: &str = "100 hits in a row, each through its stub";
    const SETTLED: &str = "100 hits in a row, of settled live sites";
    vec![
        row(IN_PLACE, &in_place, &by_hand, BY_HAND),
        row(IN_PLACE, &in_place, &call, CALL),
        row(IN_PLACE, &in_place, &offset, OFFSET),
        row(STUBS, &stubs, &by_hand, BY_HAND),
        row(STUBS, &stubs, &call, CALL),
        row(STUBS, &stubs, &offset, OFFSET),
        row(SETTLED, &settled, &in_place, "the same in place"),
        row(SETTLED, &settled, &by_hand, BY_HAND),
        row(SETTLED, &settled, &call, CALL),
        row(SETTLED, &settled, &offset, OFFSET),
    ]
}

/// Which ways of patched code lose to a cache held in data, in words: each with how many times the
/// time it takes.
pub fn losses(rows: &[Row]) -> String {
    let data = rows.iter().filter_map(|row| {
        let bare = row.bare.as_ref().filter(|bare| bare.what.contains("in data"))?;
        let ratio = row.ratio()?;
        Some((row.what, bare.what, ratio))
    });
    let (lost, won): (Vec<_>, Vec<_>) = data.partition(|(.., ratio)| *ratio > 1.0);
    let won = won.len();
    let mut text = match lost.is_empty() {
        true => format!("\npatched code wins against caches held in data in all {won} comparisons\n"),
        false => format!(
            "\npatched code LOSES to caches held in data in {} of {} comparisons:\n",
            lost.len(),
            lost.len() + won
        ),
    };
    for (what, than, ratio) in lost {
        text += &format!("  {what}: {ratio:.2} times the time of {than}\n");
    }
    text
}

// ---- exit stubs ----

/// What a lookup or generic path of the least does.
pub(crate) extern "C" fn property(object: *const Object) -> u64 {
    // SAFETY: the loops pass objects.
    unsafe { (*object).property }
}

pub(crate) fn c_shape(_: &patchpoint::site::Candidate<'_>) -> Option<CallShape> {
    Some(CallShape::c(RESERVED as u32).result().args(1))
}

/// A loop whose read is this sequence.
fn with_sequence(exits: impl Exits + 'static, object: &[u8], sequence: &Sequence) -> (Engine, Module) {
    let engine = engine(exits);
    let code = subject::load(&engine, object);
    let module = match object == C_LOOP {
        // SAFETY: what is told is true of the object's code, or refused.
        true => unsafe { engine.register(code, c_shape) }.unwrap(),
        // SAFETY: what is told is true of the object's code, or refused.
        false => unsafe { engine.register(code, subject::shape) }.unwrap(),
    };
    engine
        .patch_site(&site_of(&module, "sum_fields"), sequence)
        .unwrap();
    module.release();
    (engine, module)
}

fn exit_stubs() -> Vec<Row> {
    fn handle<'f>(frame: &mut patchpoint::deopt::Frame<'f>) -> patchpoint::deopt::Answer<'f> {
        let at = frame.arg(0).unwrap().u64().unwrap();
        frame.set_result(property(at as *const Object)).unwrap();
        frame.resume()
    }
    let (miss, call) = (
        Sequence::new().jump(Target::Miss),
        // SAFETY: the function can be called from the site.
        unsafe { Sequence::new().call(CodeAddr::new(property as *const () as u64), OnReturn::FollowsC) },
    );
    let live_registers = with_sequence(ExitStubs::new().on_live_register_miss(handle), C_LOOP, &miss);
    let whole = with_sequence(ExitStubs::new().on_miss(handle), C_LOOP, &miss);
    let any_reg = with_sequence(ExitStubs::new().on_miss(handle), INLINE_CACHE, &miss);
    let called = with_sequence(ExitStubs::new(), C_LOOP, &call);
    let (objects, sum) = objects();
    let pointers: Vec<*const Object> = objects.iter().map(std::ptr::from_ref).collect();
    let counted = sum + (OBJECTS + OBJECTS / 2) as u64;
    let of = |(_, module): &(Engine, Module), sum| {
        let function = function(module.function("sum_fields").unwrap().entry().unwrap());
        batch(function, &pointers, sum, 1)
    };
    let mut ways = [
        of(&live_registers, sum),
        of(&whole, sum),
        of(&any_reg, counted),
        of(&called, sum),
    ];
    let [a, b, c, d] = &mut ways;
    let [live_registers, whole, any_reg, called] = interleave(MISSES, [a, b, c, d]);
    const CALL: &str = "the site calls a C function that does the same";
    vec![
        Row::against(
            "exit stub into the handler and back, live registers",
            [live_registers, called.clone()],
            CALL,
            None,
        ),
        Row::against("the same with all registers", [whole, called.clone()], CALL, None),
        Row::against(
            "the same at an anyregcc site without live-outs",
            [any_reg, called],
            CALL,
            None,
        ),
    ]
}

// ---- invalidations ----

/// All functions that depend on an assumption, in one transaction: so many, two in each module, with
/// three sites together.
pub(crate) fn break_assumption(functions: usize) -> Duration {
    let engine = subject::engine();
    let assumptions = Assumptions::new();
    for _ in 0..functions.div_ceil(2) {
        let module = subject::module(&engine);
        let both = ["get", "sum_fields"].map(|name| module.function(name).unwrap());
        for function in both.iter().take(functions) {
            assumptions.depend(function, [1u64]).unwrap();
        }
    }
    time(|| _ = black_box(assumptions.break_one(&engine, 1u64).unwrap()))
}

/// New functions for each batch.
fn invalidations() -> Vec<Row> {
    let whats = [
        (1, "invalidate 1 function, in all"),
        (10, "invalidate 10 functions in one transaction, in all"),
        (1000, "invalidate 1000 functions in one transaction, in all"),
    ];
    let row = |(count, what)| {
        let effort = Effort {
            batches: if count > 100 { 11 } else { 51 },
            operations: 1,
        };
        let [ours] = interleave(effort, [&mut || break_assumption(count)]);
        Row::alone(what, ours)
    };
    whats.into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(bare: &'static str, ours: f64, theirs: f64) -> Row {
        let [ours, theirs] = [ours, theirs].map(|time| Figure::of(vec![time]));
        Row::against("a hit", [ours, theirs], bare, None)
    }

    #[test]
    fn where_patched_code_loses_is_said() {
        let rows = [
            row("cache in data: call", 2.0, 3.0),
            row("cache in data: offset", 2.7, 2.0),
            row("written by hand", 5.0, 1.0),
        ];
        let text = losses(&rows);
        assert!(
            text.contains("LOSES to caches held in data in 1 of 2 comparisons"),
            "{text}"
        );
        assert!(
            text.contains("a hit: 1.35 times the time of cache in data: offset"),
            "{text}"
        );
        assert_eq!(text.lines().count(), 3, "{text}");
        assert!(losses(&rows[..1]).contains("wins against caches held in data in all 1"));
    }
}
