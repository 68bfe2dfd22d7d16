//! What is measured on: engines, copies of the example's object in every kind of memory, a large
//! module.

use patchpoint::addr::{CodeAddr, Len};
use patchpoint::arch::{Arch, SiteContext};
use patchpoint::deopt::ExitStubs;
use patchpoint::engine::{Engine, LoadedCode};
use patchpoint::image::Adoption;
use patchpoint::memory::StrategyChoice;
use patchpoint::publish::SingleThreaded;
use patchpoint::sequence::{self, Assembled, Environment, Field, Fit, Sequence, Target, arg, result};
use patchpoint::site::{Candidate, Module, Site};
use patchpoint::stackmap::Endian;
use patchpoint::{CallShape, Error};

use crate::pages::{self, Foreign};

/// The object with the patchpoints.
pub const INLINE_CACHE: &[u8] = include_bytes!("../../examples/objects/inline_cache.o");
/// The same loop with the check written by hand.
pub const HANDWRITTEN: &[u8] = include_bytes!("../objects/handwritten.o");
/// Written by hand and slower on purpose.
pub const SLOWER: &[u8] = include_bytes!("../objects/slower.o");
/// The 100 reads with the checks written by hand.
pub const CHECKS: &[u8] = include_bytes!("../objects/checks.o");
/// The same loop with an inline cache held in data, whose routine is called.
pub const DATA_CALL: &[u8] = include_bytes!("../objects/data_call.o");
/// The same loop with an inline cache held in data, which says where the property is.
pub const DATA_OFFSET: &[u8] = include_bytes!("../objects/data_offset.o");
/// The 100 reads with inline caches held in data.
pub const DATA_HUNDRED: &[u8] = include_bytes!("../objects/data_hundred.o");
/// The loop with a lookup in a hashed table in data.
pub const DATA_PROBE: &[u8] = include_bytes!("../objects/data_probe.o");
/// The loop with a read that follows the C convention.
pub const C_LOOP: &[u8] = include_bytes!("../objects/c_loop.o");
/// The same source with the check as inline assembly.
pub const INLINE_ASM: &[u8] = include_bytes!("../objects/inline_asm.o");

/// A function of 100 property reads.
pub const HUNDRED: &[u8] = include_bytes!("../objects/hundred.o");
/// The same with sites that a hit fills.
pub const SNUG: &[u8] = include_bytes!("../objects/snug.o");
/// How many bytes a hit takes.
pub const HIT: u32 = 13;

/// The ID of the property read.
pub const READ: u64 = 78;
/// The shape for which the check is a hit.
pub const SHAPE: u32 = 7;
/// How many bytes the property read has reserved.
pub const RESERVED: usize = 32;

/// What compiled code reads properties of.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Object {
    /// Its shape.
    pub shape: u64,
    /// The property.
    pub property: u64,
}

/// An engine with handlers for both roles, which nothing that is measured enters.
pub fn engine() -> Engine {
    let exit_stubs = ExitStubs::new()
        .on_miss(|frame| frame.resume())
        .on_deopt(|frame| frame.resume());
    // SAFETY: the measurements run on one thread.
    let world = unsafe { SingleThreaded::promise() };
    Engine::builder().world(world).exits(exit_stubs).build().unwrap()
}

/// The shapes of the example's sites.
pub fn shape(record: &Candidate<'_>) -> Option<CallShape> {
    match record.id().get() {
        READ => Some(CallShape::any_reg(RESERVED as u32).result().args(1)),
        90 => Some(CallShape::shadow(24)),
        _ => None,
    }
}

/// Loads an object that refers to nothing.
pub fn load(engine: &Engine, object: &[u8]) -> LoadedCode {
    engine.load(object, |_| None).unwrap()
}

/// Loads and registers the example's object.
pub fn module(engine: &Engine) -> Module {
    // SAFETY: what is told is true of the object's code, or refused.
    unsafe { engine.register(load(engine, INLINE_CACHE), shape) }.unwrap()
}

/// An inline cache: the property at `at` of an object of that shape.
pub fn hit(at: i32) -> Sequence {
    Sequence::new()
        .guard_eq(u32::at(arg(0), 0), SHAPE, Target::Miss)
        .load(result(), u64::at(arg(0), at))
}

/// The property reads of a module.
pub fn reads(module: &Module) -> Vec<Site> {
    module.sites().filter(|site| site.id().get() == READ).collect()
}

/// An address for assembling that is as far away as exit stubs are.
pub fn a_exit_stub(site: &Site) -> CodeAddr {
    CodeAddr::new(site.addr().get() + 0x1000)
}

/// Assembles a sequence that fits in place.
pub fn assemble(sequence: &Sequence, context: &SiteContext<'_>, exit_stub: CodeAddr) -> Assembled {
    let environment = Environment {
        miss: Some(exit_stub),
        deopt: Some(exit_stub),
    };
    match sequence::assemble(sequence, context, &environment).unwrap() {
        Fit::InPlace(assembled) => assembled,
        Fit::OutOfLine { .. } => unreachable!("it fits"),
    }
}

/// Copies of the example's code and stack map in memory of a JIT's.
#[derive(Debug)]
pub struct Copies {
    /// Their stack maps, one after the other.
    pub stack_maps: Vec<u8>,
    functions: Vec<(&'static str, CodeAddr, Len)>,
}

impl Copies {
    /// Makes `count` copies, `stride` bytes apart (0: as tight as alignment allows). They stay
    /// mapped.
    pub fn new(engine: &Engine, count: usize, stride: usize) -> Self {
        let loaded = load(engine, INLINE_CACHE);
        let image = loaded.image();
        let own = ["get", "sum_fields"].map(|name| {
            let function = image.functions.iter().find(|f| f.name == name).unwrap();
            (name, function.addr.get(), function.len)
        });
        let (start, end) = (own[0].1, own[1].1 + u64::from(own[1].2.get()));
        // SAFETY: the code that was loaded.
        let mut code = unsafe { pages::read(start, (end - start) as usize) };
        code.resize(stride.max(code.len().next_multiple_of(16)), 0x90);
        let foreign = Foreign::new(&code.repeat(count));
        let functions = (0..count).flat_map(|copy| {
            let at = foreign.at + (copy * code.len()) as u64;
            own.map(|(name, addr, len)| (name, CodeAddr::new(at + (addr - start)), len))
        });
        Self {
            functions: functions.collect(),
            stack_maps: image.stack_maps.repeat(count),
        }
    }

    /// Adopts them.
    pub fn adopt(&self, engine: &Engine, ask: StrategyChoice) -> Result<LoadedCode, Error> {
        let mut adoption = Adoption::new(Arch::X86_64, Endian::Little, self.stack_maps.clone()).not_yet_run();
        let addrs: Vec<CodeAddr> = self.functions.iter().map(|(_, addr, _)| *addr).collect();
        for (name, addr, len) in &self.functions {
            adoption = adoption.function(*name, *addr, *len);
        }
        // SAFETY: the copies stay mapped read-execute, nobody else writes them, and they are not executed.
        let code = unsafe { adoption.function_addresses(&addrs)?.promise()? };
        engine.adopt(code, ask)
    }
}
