//! Tests of the engine on code that they write themselves, in memory that fails when it is told to.
#![allow(unsafe_code)]

mod ahead;
#[cfg(target_arch = "x86_64")]
mod batches;
#[cfg(target_arch = "x86_64")]
mod entered;
#[cfg(target_os = "linux")]
mod exhausted;
mod exit_blocks;
mod faults;
#[cfg(target_os = "linux")]
mod forked;
mod ids;
#[cfg(feature = "latency")]
mod latency;
mod limit;
mod lives;
mod maps;
#[cfg(target_os = "linux")]
mod mirrored;
#[cfg(target_os = "linux")]
mod observed;
mod placed;
#[cfg(any(target_arch = "x86_64", target_arch = "powerpc64"))]
mod red_zone;
mod return_offsets;
#[cfg(target_os = "linux")]
mod rolled_back;
#[cfg(target_os = "linux")]
mod telling;
#[cfg(target_arch = "x86_64")]
mod templates;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::*;
use crate::addr::{CodeRange, Len};
use crate::arch::CallShape;
use crate::deopt::ExitStubs;
use crate::image::Adoption;
use crate::memory::testing::FailingMemory;
use crate::memory::testing::host_code::{HOST, pointer};
use crate::memory::{Alias, CodeMemory, PlacedSegments, Reach, SegmentKind, SegmentNeed};
use crate::publish::{Resumption, SingleThreaded, Stopped};
use crate::sequence::{arg, result};
use crate::stackmap::testing::{MapSpec, RecordSpec, record, reg};

/// The bytes of a site of [`identity`].
const RESERVED: u32 = 16;
/// The distance between the functions of a [`Text`].
const STRIDE: usize = 64;

const ARCH: Arch = Arch::host().unwrap();
/// The registers of a function's result and of its first argument, and one that it leaves to its
/// caller.
const RESULT: u16 = CONVENTION[0];
const ARGUMENT: u16 = CONVENTION[1];
const KEPT: u16 = CONVENTION[2];
const CONVENTION: [u16; 3] = match ARCH {
    Arch::X86_64 => [0, 5, 3],
    Arch::AArch64 => [0, 0, 19],
    Arch::PowerPc64 | Arch::PowerPc64Le | Arch::PowerPc64ElfV2 => [3, 3, 30],
    Arch::SystemZ => [2, 2, 11],
    Arch::RiscV64 => [10, 10, 18],
};

/// A world that can be told to refuse, and that says when it has been stopped.
#[derive(Debug, Default)]
struct Moody {
    refuses: AtomicBool,
    stops: AtomicU64,
}

#[derive(Debug)]
struct Shared(Arc<Moody>);

// SAFETY: every test calls its code on one thread, which is the one that patches.
unsafe impl World for Shared {
    fn while_stopped(
        &self,
        vacated: &[crate::publish::Vacated],
        work: &mut dyn FnMut(&Stopped),
    ) -> crate::publish::Result<()> {
        if self.0.refuses.load(Ordering::Relaxed) {
            return Err(crate::publish::Error::WorldNotStopped {
                why: "it was told so",
            });
        }
        self.0.stops.fetch_add(1, Ordering::Relaxed);
        // SAFETY: there is one world in each test, of one thread.
        unsafe { SingleThreaded::promise() }.while_stopped(vacated, work)
    }

    fn resumption(&self) -> Resumption {
        Resumption::Alone
    }
}

/// An engine with what a test wants to look at.
struct Lab {
    engine: Engine,
    world: Arc<Moody>,
    /// How often the handler of invalidated sites was called, which resumes.
    deopts: Arc<AtomicU64>,
}

impl Lab {
    fn new() -> Self {
        let (world, deopts) = (Arc::new(Moody::default()), Arc::new(AtomicU64::new(0)));
        let count = Arc::clone(&deopts);
        let exit_stubs = ExitStubs::new()
            .on_miss(|frame| frame.resume())
            .on_deopt(move |frame| {
                count.fetch_add(1, Ordering::Relaxed);
                frame.resume()
            });
        let builder = Engine::builder()
            .world(Shared(Arc::clone(&world)))
            .exits(exit_stubs);
        Self {
            engine: builder.build().unwrap(),
            world,
            deopts,
        }
    }

    /// Registers the functions of a text, every record with its shape. None of them has run.
    fn register(&self, text: &Text, functions: &[Written]) -> Module {
        let code = self
            .engine
            .adopt_with(text.adopted(functions), &text.shared())
            .unwrap();
        let shape = |id: RecordId| {
            functions
                .iter()
                .find(|f| f.record.id == id.get())
                .map(|f| f.shape)
        };
        // SAFETY: what is told is true of the object's code, or refused.
        unsafe { self.engine.register(code, |record| shape(record.id())) }.unwrap()
    }
}

/// A function with one record.
struct Written {
    bytes: Vec<u8>,
    record: RecordSpec,
    shape: CallShape,
}

/// The nops of a site.
fn nops() -> Vec<u8> {
    HOST.nop.repeat(RESERVED as usize / HOST.nop.len())
}

/// A map in this machine's byte order.
fn map() -> MapSpec {
    crate::stackmap::testing::map().endian(ARCH.endian())
}

/// A site of nops, then a return: once it is patched with `result = ..`, a function of one
/// argument.
fn identity(id: u64) -> Written {
    Written {
        bytes: [&nops(), HOST.ret].concat(),
        record: record(id)
            .at(0)
            .location(reg(RESULT, 8))
            .location(reg(ARGUMENT, 8)),
        shape: CallShape::any_reg(RESERVED).result().args(1),
    }
}

/// `result = argument + by`, in the site, of which it fills more than half.
fn plus(by: u64) -> Sequence {
    let sequence = Sequence::new().mov(result(), arg(0));
    // Where both are in one register, nothing is moved.
    let ones = if RESULT == ARGUMENT { 2 } else { 1 };
    let sequence = (0..ones).fold(sequence, |sequence, _| sequence.add(result(), 1u64));
    sequence.add(result(), by.wrapping_sub(ones))
}

/// The same in a stub.
fn plus_in_stub(by: u64) -> Sequence {
    let sequence = plus(by - 3);
    (0..3).fold(sequence, |sequence, _| sequence.add(result(), 1u64))
}

/// Memory that fails on demand, with functions in it.
struct Text {
    placed: PlacedSegments,
    memory: Arc<FailingMemory<Alias>>,
    range: CodeRange,
}

impl Text {
    fn new(functions: &[Written]) -> Self {
        let bytes = laid_out(functions);
        let need = SegmentNeed {
            kind: SegmentKind::Code,
            len: bytes.len() as u64,
            align: 64,
        };
        let mut placement = Arena::new(1 << 16).place(&[need], Reach::Anywhere).unwrap();
        let range = placement.segments()[0].range;
        placement.fill(range.start(), &bytes).unwrap();
        let placed = placement.finalize().unwrap();
        let memory = Arc::new(FailingMemory::new(placed.memory()));
        publish(range);
        Self {
            placed,
            memory,
            range,
        }
    }

    fn addr(&self, index: usize) -> CodeAddr {
        CodeAddr::new(self.range.start().get() + (index * STRIDE) as u64)
    }

    fn shared(&self) -> Arc<dyn CodeMemory> {
        Arc::clone(&self.memory) as Arc<dyn CodeMemory>
    }

    fn adopted(&self, functions: &[Written]) -> crate::image::AdoptedCode {
        self.adopted_with(functions, &[])
    }

    /// The same with these large constants in its stack map.
    fn adopted_with(&self, functions: &[Written], constants: &[u64]) -> crate::image::AdoptedCode {
        let mut maps = constants.iter().fold(map(), |maps, value| maps.constant(*value));
        for (index, function) in functions.iter().enumerate() {
            maps = maps.function(self.addr(index).get(), 8, [function.record.clone()]);
        }
        let mut adoption = Adoption::new(ARCH, ARCH.endian(), maps.bytes()).not_yet_run();
        for (index, function) in functions.iter().enumerate() {
            let (at, len) = (self.addr(index), Len::of(&function.bytes).unwrap());
            adoption = adoption
                .function(format!("f{index}"), at, len)
                .called_at(CodeAddr::new(pointer(at) as u64));
        }
        // SAFETY: the memory outlives the engine's use of it in every test, and is the test's alone.
        unsafe { adoption.promise() }.unwrap()
    }

    /// Writes behind the engine's back.
    fn poke(&self, at: CodeAddr, bytes: &[u8]) {
        self.memory.write(at, bytes).unwrap();
        publish(self.range);
    }
}

/// The bytes of a text of these functions.
fn laid_out(functions: &[Written]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for function in functions {
        assert!(function.bytes.len() <= STRIDE);
        bytes.extend(&function.bytes);
        bytes.resize(bytes.len().next_multiple_of(STRIDE), 0xcc);
    }
    bytes
}

/// Makes this thread execute what has been written.
fn publish(range: CodeRange) {
    Publisher::new().publish(&[range], Level::Eventual).unwrap();
}

/// The bytes of a site as they are in memory.
fn bytes(site: &Site) -> Vec<u8> {
    let mut found = vec![0; site.reserved().as_usize()];
    // SAFETY: the text of the test is mapped and readable, and nobody writes to it now.
    unsafe {
        std::ptr::copy_nonoverlapping(
            std::ptr::with_exposed_provenance::<u8>(site.addr().get() as usize),
            found.as_mut_ptr(),
            found.len(),
        );
    }
    found
}

/// Calls the function of a site with two numbers.
fn call2(site: &Site, a: u64, b: u64) -> u64 {
    site.module().release();
    let addr = site.function().entry().unwrap().get() as usize;
    // SAFETY: the tests' functions take two numbers or fewer and return one.
    let function: extern "C" fn(u64, u64) -> u64 =
        unsafe { std::mem::transmute(std::ptr::with_exposed_provenance::<u8>(addr)) };
    function(a, b)
}

fn call(site: &Site, a: u64) -> u64 {
    call2(site, a, 0)
}

/// Asserts that a result is an error of a variant.
macro_rules! refused {
    ($result:expr, $variant:ident) => {{
        let result = $result;
        assert!(
            matches!(result, Err(crate::Error::$variant { .. })),
            "expected {}, got {:#?}",
            stringify!($variant),
            result
        );
    }};
    ($result:expr, Memory($variant:ident)) => {{
        let result = ($result).map_err(crate::Error::from);
        assert!(
            matches!(
                result,
                Err(crate::Error::Memory(crate::memory::Error::$variant { .. }))
            ),
            "expected {}, got {:#?}",
            stringify!($variant),
            result
        );
    }};
    ($result:expr, Publish($variant:ident)) => {{
        let result = ($result).map_err(crate::Error::from);
        assert!(
            matches!(
                result,
                Err(crate::Error::Publish(crate::publish::Error::$variant { .. }))
            ),
            "expected {}, got {:#?}",
            stringify!($variant),
            result
        );
    }};
    ($result:expr, Site($variant:ident)) => {{
        let result = ($result).map_err(crate::Error::from);
        assert!(
            matches!(
                result,
                Err(crate::Error::Site(crate::site::Error::$variant { .. }))
            ),
            "expected {}, got {:#?}",
            stringify!($variant),
            result
        );
    }};
    ($result:expr, Assemble($variant:ident)) => {{
        let result = $result;
        assert!(
            matches!(
                result,
                Err(crate::Error::Assemble(crate::sequence::Error::$variant { .. }))
            ),
            "expected {}, got {:#?}",
            stringify!($variant),
            result
        );
    }};
    ($result:expr, Check($variant:ident)) => {{
        let result = $result;
        assert!(
            matches!(
                result,
                Err(crate::Error::Check(crate::verify::Error::$variant { .. }))
            ),
            "expected {}, got {:#?}",
            stringify!($variant),
            result
        );
    }};
}
use refused;
