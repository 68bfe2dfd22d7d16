//! Caches in code that LLVM compiled for this architecture: `testdata/sites.ll` says what the
//! functions do.
#![allow(unsafe_code)]

mod c_lookups;
mod entries;
mod life;
mod process;
// LLVM puts the result of these sites into the argument's register, and a probe there needs one more than are free.
#[cfg(target_arch = "powerpc64")]
mod not_shared;
#[cfg(not(target_arch = "powerpc64"))]
mod shared;
mod sites;
mod threads;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::*;
use crate::arch::{Arch, CallShape};
use crate::deopt::ExitStubs;
use crate::engine::Engine;
use crate::publish::{NeverStopped, SingleThreaded};
use crate::sequence::{Field, arg};
use crate::site::Module;

const GET: u64 = 78;
const METHOD: u64 = 80;
const SET: u64 = 81;
const SPILLED: u64 = 82;
const SHAPE: i32 = 8;

/// An object: a class, a shape, and values.
#[repr(C)]
struct Object {
    class: u64,
    shape: u32,
    unused: u32,
    values: [u64; 4],
}

impl Object {
    fn new(shape: u32, values: [u64; 4]) -> Self {
        Self {
            class: 0,
            shape,
            unused: 0,
            values,
        }
    }
}

/// The displacement of a value.
fn value_at(index: usize) -> i32 {
    16 + 8 * index as i32
}

/// The displacement of the low `size` bytes of a value.
fn low_at(index: usize, size: i32) -> i32 {
    value_at(index) + if cfg!(target_endian = "big") { 8 - size } else { 0 }
}

/// Where the property is in each shape, and what has been looked up.
#[derive(Default)]
struct Runtime {
    places: Mutex<HashMap<u32, usize>>,
    lookups: AtomicU64,
}

impl Runtime {
    fn define(&self, shape: u32, place: usize) {
        self.places.lock().insert(shape, place);
    }

    fn lookup<'f>(&self, miss: &mut Miss<'_, 'f>) -> Learn<'f> {
        self.lookups.fetch_add(1, Ordering::Relaxed);
        let at = miss.arg(0).unwrap().u64().unwrap() as *const Object;
        // SAFETY: the tests pass objects.
        let object = unsafe { &*at };
        let place = self.places.lock()[&object.shape];
        miss.set_result(object.values[place]).unwrap();
        Learn::Entry(entry(object.shape, place))
    }
}

fn entry(shape: u32, place: usize) -> Entry {
    Entry::new(Action::load::<u64>(Pointer::plain(arg(0)), value_at(place)))
        .guard(Guard::equal(u32::at(arg(0), SHAPE), shape.into()))
        .depends_on(u64::from(shape))
}

/// The object of this architecture.
fn object() -> &'static [u8] {
    match Arch::host().unwrap() {
        Arch::X86_64 => include_bytes!("../testdata/x86_64.o"),
        Arch::AArch64 => include_bytes!("../testdata/aarch64.o"),
        Arch::PowerPc64ElfV2 => include_bytes!("../testdata/powerpc64-elfv2.o"),
        Arch::PowerPc64 => include_bytes!("../testdata/powerpc64.o"),
        Arch::PowerPc64Le => include_bytes!("../testdata/powerpc64le.o"),
        Arch::SystemZ => include_bytes!("../testdata/s390x.o"),
        Arch::RiscV64 => include_bytes!("../testdata/riscv64.o"),
    }
}

fn shape(id: u64) -> Option<CallShape> {
    match id {
        GET => Some(CallShape::any_reg(32).result().args(1)),
        METHOD => Some(CallShape::c(64).result().args(3)),
        SET => Some(CallShape::any_reg(32).args(2)),
        SPILLED => Some(CallShape::any_reg(64).result().args(1)),
        _ => None,
    }
}

struct Lab {
    runtime: Arc<Runtime>,
    caches: Caches,
    engine: Engine,
    module: Module,
    cache: Cache,
}

impl Lab {
    fn new(builder: CachesBuilder) -> Self {
        let runtime = Arc::new(Runtime::default());
        let lookup = Arc::clone(&runtime);
        let caches = builder.lookup(move |miss| lookup.lookup(miss));
        Self::with(runtime, caches, false)
    }

    /// Live, if many threads are to run it.
    fn with(runtime: Arc<Runtime>, caches: Caches, live: bool) -> Self {
        for shape in 0..8 {
            runtime.define(shape, shape as usize % 4);
        }
        let exits = caches.exits(ExitStubs::new().on_deopt(|frame| frame.resume()));
        // SAFETY: the test's thread is the only one that runs the code of a module that is not live.
        let alone = unsafe { SingleThreaded::promise() };
        let builder = match live {
            true => Engine::builder().world(NeverStopped),
            false => Engine::builder().world(alone),
        };
        let engine = builder.exits(exits).build().unwrap();
        let code = engine.load(object(), |_| None).unwrap();
        let registration = engine.registration(code);
        let registration = match live {
            true => registration.live(),
            false => registration,
        };
        // SAFETY: what is told is true of the object's code, or refused.
        let module = unsafe { registration.register(|record| shape(record.id().get())) }.unwrap();
        let site = module.function("get").unwrap().sites().next().unwrap();
        let cache = caches.attach(&engine, &site).unwrap();
        Self {
            runtime,
            caches,
            engine,
            module,
            cache,
        }
    }

    /// A function of the object, as a function pointer.
    fn function(&self, name: &str) -> usize {
        self.module.release();
        self.module.function(name).unwrap().entry().unwrap().get() as usize
    }

    /// Calls `get` with any word.
    fn call_word(&self, word: u64) -> u64 {
        // SAFETY: that is the function's signature in the IR; the module stays registered.
        let get: extern "C" fn(u64) -> u64 = unsafe { std::mem::transmute(self.function("get")) };
        get(word)
    }

    /// Reads the property of an object of that shape; checks the result.
    fn read(&self, shape: u32) {
        let values = [10, 20, 30, 40].map(|v| v + u64::from(shape));
        let object = Object::new(shape, values);
        let place = self.runtime.places.lock()[&shape];
        let found = self.call_word(&raw const object as u64);
        assert_eq!(found, values[place], "shape {shape}");
    }

    /// The same at every site that reads.
    fn read_everywhere(&self, shape: u32) {
        self.read(shape);
        let object = Object::new(shape, [5, 6, 7, 8]);
        let place = self.runtime.places.lock()[&shape];
        // SAFETY: that is the function's signature in the IR; the module stays registered.
        let twice: extern "C" fn(&Object) -> u64 = unsafe { std::mem::transmute(self.function("get_twice")) };
        assert_eq!(twice(&object), 4 * object.values[place], "shape {shape}");
    }

    fn lookups(&self) -> u64 {
        self.runtime.lookups.load(Ordering::Relaxed)
    }

    fn stats(&self) -> CacheStats {
        self.caches.stats(&self.cache)
    }
}
