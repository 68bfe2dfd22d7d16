//! Sites that see many classes: a lookup in the shared cache by their own code, against calls and
//! against a lookup written by hand.

use std::hint::black_box;

use patchpoint::addr::CodeAddr;
use patchpoint::arch::OnReturn;
use patchpoint::engine::{Engine, LoadedCode};
use patchpoint::ic::{Cache, CacheState, Caches, CachesBuilder, Chain, Counting, Probe};
use patchpoint::sequence::{Field, Sequence, arg};
use patchpoint::site::{Module, Site};

use crate::caches::{
    self, Installed, MISSES, OBJECTS, SumFields, batch, c_shape, engine, function, learn, property, site_of,
};
use crate::measure::{Effort, Figure, interleave, time};
use crate::report::Row;
use crate::subject::{self, C_LOOP, DATA_PROBE, INLINE_CACHE, Object, READ, SHAPE};

/// How many classes the sites see.
const CLASSES: usize = 256;
/// For how many entries the shared cache has room.
const ENTRIES: usize = 4096;

const HITS: Effort = Effort {
    batches: 1001,
    operations: 8 * OBJECTS,
};

/// What one way is measured on.
struct Made {
    // The code and the exit stubs stay as long as these.
    engine: Engine,
    caches: Caches,
    module: Module,
    cache: Cache,
}

impl Made {
    /// The loop, whose read is megamorphic from the first miss on.
    fn new(builder: CachesBuilder, installed: Installed) -> Self {
        let limit = Chain {
            limit: 0,
            back_off: 0,
            cool_down: 0,
        };
        let caches = builder.policy(limit).lookup(learn);
        let engine = engine(caches.exit_stubs());
        let registration = engine.registration(subject::load(&engine, C_LOOP));
        let registration = match installed {
            Installed::InPlace => registration,
            Installed::InStubs | Installed::Settled => registration.live(),
        };
        // SAFETY: what is told is true of the object's code, or refused.
        let module = unsafe { registration.register(c_shape) }.unwrap();
        let cache = caches.attach(&engine, &site_of(&module, "sum_fields")).unwrap();
        module.release();
        Self {
            engine,
            caches,
            module,
            cache,
        }
    }

    fn function(&self) -> SumFields {
        function(self.module.function("sum_fields").unwrap().entry().unwrap())
    }
}

/// What a site of the loop looks up.
fn probe(_: &Site) -> Option<Probe> {
    Some(Probe::load::<u64>(READ, u32::at(arg(0), 0), arg(0)))
}

/// Objects of many classes, in no order that can be foreseen, and the sum of their properties.
fn objects() -> (Vec<Object>, u64) {
    let mut state = 1_u32;
    let object = |property| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let shape = u64::from(SHAPE) + u64::from(state >> 16) % CLASSES as u64;
        Object { shape, property }
    };
    let objects: Vec<Object> = (0..OBJECTS as u64).map(object).collect();
    let sum = objects.iter().map(|object| object.property).sum();
    (objects, sum)
}

/// Fills the table of the lookup that is written by hand, as its assembly reads it.
fn fill(by_hand: &LoadedCode) {
    type TableAt = extern "C" fn() -> *mut [u64; 2];
    // SAFETY: the function that its source says.
    let at: TableAt = unsafe { std::mem::transmute(by_hand.symbol("table_at").unwrap().get() as usize) };
    for shape in (u64::from(SHAPE)..).take(CLASSES) {
        let slot = (shape + (shape >> 7)) & 0xfff;
        // SAFETY: the table has 4096 entries, and nobody reads it meanwhile.
        unsafe { at().add(slot as usize).write([shape, 8]) };
    }
}

/// All of them.
pub fn rows() -> Vec<Row> {
    let mut rows = found();
    rows.extend(not_found());
    rows.extend(orders());
    rows
}

/// The disassembly of the stub with the probe, and of the lookup written by hand.
pub fn show() -> String {
    let made = Made::new(Caches::builder().shared_cache(ENTRIES, probe), Installed::InPlace);
    let (objects, _) = objects();
    (made.function())(&(&raw const objects[0]), 1);
    let by_hand = subject::load(&made.engine, DATA_PROBE);
    let site = made.cache.site();
    let to = i32::from_le_bytes(site.read().unwrap()[1..5].try_into().unwrap());
    let stub = CodeAddr::new(site.addr().get().wrapping_add_signed(5 + i64::from(to)));
    [
        caches::disassembly(&made.engine, "megamorphic, the site", site.addr(), 32),
        caches::disassembly(&made.engine, "megamorphic, its stub", stub, 0x60),
        caches::disassembly(
            &made.engine,
            "lookup in a table, written by hand",
            by_hand.symbol("sum_fields").unwrap(),
            0x44,
        ),
    ]
    .join("\n")
}

fn found() -> Vec<Row> {
    let (objects, sum) = objects();
    let pointers: Vec<*const Object> = objects.iter().map(std::ptr::from_ref).collect();
    let make = |installed| {
        let made = Made::new(Caches::builder().shared_cache(ENTRIES, probe), installed);
        let learnt = |stats: patchpoint::ic::CacheStats| stats.misses;
        assert_eq!((made.function())(pointers.as_ptr(), pointers.len() as u64), sum);
        let classes = learnt(made.caches.stats(&made.cache));
        assert_eq!((made.function())(pointers.as_ptr(), pointers.len() as u64), sum);
        assert_eq!(learnt(made.caches.stats(&made.cache)), classes, "all are found");
        assert_eq!(made.cache.last_refusal(), None);
        made
    };
    let [quiescent, live] = [Installed::InPlace, Installed::InStubs].map(make);
    // SAFETY: the function can be called from the site.
    let call =
        unsafe { Sequence::new().call(CodeAddr::new(property as *const () as u64), OnReturn::FollowsC) };
    let generic = Made::new(Caches::builder().megamorphic(call), Installed::InPlace);
    (generic.function())(pointers.as_ptr(), 1);
    let by_hand = subject::load(&quiescent.engine, DATA_PROBE);
    fill(&by_hand);
    let rounds = HITS.operations / OBJECTS;
    let of = |function| batch(function, &pointers, sum, rounds);
    let hand = function(by_hand.symbol("sum_fields").unwrap());
    let (mut a, mut b) = (of(quiescent.function()), of(live.function()));
    let (mut c, mut d) = (of(generic.function()), of(hand));
    let mut e = || {
        // A pointer, or the compiler sees what is called and calls nothing.
        let called = black_box(property as extern "C" fn(*const Object) -> u64);
        time(|| {
            for _ in 0..rounds {
                let each = |object: &*const Object| called(*object);
                assert_eq!(black_box(&pointers).iter().map(each).sum::<u64>(), sum);
            }
        })
    };
    let [quiescent_took, live_took, generic_took, hand_took, called] =
        interleave(HITS, [&mut a, &mut b, &mut c, &mut d, &mut e]);
    const CALLED: &str = "a loop of Rust's that calls a function for each";
    const BY_HAND: &str = "the same loop, lookup in a table of its own written by hand";
    const GENERIC: &str = "a generic path that calls a function";
    const FOUND: &str = "megamorphic hit: 256 classes in the shared cache";
    const LIVE: &str = "the same at a live site";
    let row = |what, ours: &Figure, bare: &Figure, than, goal| {
        Row::against(what, [ours.clone(), bare.clone()], than, goal)
    };
    vec![
        row(FOUND, &quiescent_took, &called, CALLED, Some(10.0)),
        row(FOUND, &quiescent_took, &hand_took, BY_HAND, None),
        row(FOUND, &quiescent_took, &generic_took, GENERIC, None),
        row(LIVE, &live_took, &called, CALLED, Some(10.0)),
        row(
            "megamorphic, generic path calls a function",
            &generic_took,
            &called,
            CALLED,
            None,
        ),
    ]
}

fn not_found() -> Vec<Row> {
    let made = Made::new(Caches::builder(), Installed::InPlace);
    let (objects, sum) = objects();
    let pointers: Vec<*const Object> = objects.iter().map(std::ptr::from_ref).collect();
    (made.function())(pointers.as_ptr(), 1);
    let mut ours = batch(made.function(), &pointers, sum, 1);
    let called = black_box(property as extern "C" fn(*const Object) -> u64);
    let direct = |object: &*const Object| called(*object);
    let mut bare = || time(|| assert_eq!(black_box(&pointers).iter().map(direct).sum::<u64>(), sum));
    let [ours, bare] = interleave(MISSES, [&mut ours, &mut bare]);
    assert_eq!(made.cache.state(), CacheState::Megamorphic);
    vec![Row::against(
        "megamorphic without a generic path: a lookup",
        [ours, bare],
        "a loop of Rust's that calls a function for each",
        None,
    )]
}

/// The entry that is hit is the last of four, and then the first.
fn orders() -> Vec<Row> {
    let make = |reordered: bool| {
        let caches = caches::patient().counting(Counting::Plain).lookup(learn);
        let engine = engine(caches.exit_stubs());
        // SAFETY: what is told is true of the object's code, or refused.
        let module =
            unsafe { engine.register(subject::load(&engine, INLINE_CACHE), subject::shape) }.unwrap();
        let cache = caches.attach(&engine, &site_of(&module, "sum_fields")).unwrap();
        module.release();
        let sum_fields = function(module.function("sum_fields").unwrap().entry().unwrap());
        for shape in u64::from(SHAPE)..u64::from(SHAPE) + 4 {
            let object = Object { shape, property: 0 };
            sum_fields(&(&raw const object), 1);
        }
        if reordered {
            let object = Object {
                shape: SHAPE.into(),
                property: 0,
            };
            (0..1000).for_each(|_| _ = sum_fields(&(&raw const object), 1));
            assert_eq!(caches.reorder().unwrap(), 1);
        }
        assert_eq!(cache.entries().len(), 4);
        (engine, caches, module, sum_fields)
    };
    let (last, first) = (make(false), make(true));
    let object = Object {
        shape: SHAPE.into(),
        property: 3,
    };
    let pointers = vec![&raw const object; OBJECTS];
    let sum = 3 * OBJECTS as u64 + (OBJECTS + OBJECTS / 2) as u64;
    let rounds = HITS.operations / OBJECTS;
    let (mut a, mut b) = (
        batch(first.3, &pointers, sum, rounds),
        batch(last.3, &pointers, sum, rounds),
    );
    let [first, last] = interleave(HITS, [&mut a, &mut b]);
    vec![Row::against(
        "chain of 4 with counters, in the order of their hits",
        [first, last],
        "the same in the order in which they were learnt",
        None,
    )]
}
