//! Told sites, executed: code emitted by hand with a site of each content, patched in place and
//! live, under threads that execute it; random sites whose registers are compared; objects that
//! were compiled without stack maps, loaded or placed by somebody else.
#![cfg(all(target_os = "linux", target_arch = "x86_64", not(miri)))]
#![allow(unsafe_code, reason = "executes machine code")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "the lints know tests by their attribute, and all of this serves only tests"
)]

mod adopted;
mod contents;
mod random;
mod threads;

use std::sync::Arc;

use patchpoint::addr::{CodeAddr, Len};
use patchpoint::arch::{Arch, RegSet, x86_64};
use patchpoint::deopt::ExitStubs;
use patchpoint::engine::LoadedCode;
use patchpoint::image::Adoption;
use patchpoint::memory::{Arena, CodeMemory, PlacedSegments, Reach, SegmentKind, SegmentNeed};
use patchpoint::publish::{NeverStopped, SingleThreaded};
use patchpoint::site::{Module, SiteSpec};
use patchpoint::{Engine, Result};

/// Code in memory of its own.
struct Emitted {
    start: CodeAddr,
    len: u32,
    memory: Arc<dyn CodeMemory>,
    _placed: PlacedSegments,
}

impl Emitted {
    fn new(code: &[u8]) -> Self {
        let need = SegmentNeed {
            kind: SegmentKind::Code,
            len: 4096,
            align: 64,
        };
        let mut placement = Arena::default().place(&[need], Reach::Anywhere).unwrap();
        let start = placement.segments()[0].range.start();
        placement.fill(start, code).unwrap();
        let placed = placement.finalize().unwrap();
        Self {
            start,
            len: code.len() as u32,
            // SAFETY: the engine alone writes through it, what it has checked.
            memory: Arc::new(unsafe { placed.writable() }),
            _placed: placed,
        }
    }

    /// The code as a function `f`, which has not run.
    fn adopt(&self, engine: &Engine) -> LoadedCode {
        let adoption = Adoption::without_stack_maps(Arch::X86_64)
            .function("f", self.start, Len::new(self.len))
            .not_yet_run();
        // SAFETY: the memory is there longer than the engine uses it, and nobody else writes to it.
        let adopted = unsafe { adoption.promise() }.unwrap();
        engine.adopt_with(adopted, &self.memory).unwrap()
    }

    fn register(&self, engine: &Engine, sites: impl IntoIterator<Item = SiteSpec>) -> Result<Module> {
        let registration = engine.registration(self.adopt(engine)).sites(sites);
        // SAFETY: what is told is true of the code.
        unsafe { registration.finish() }
    }

    fn register_live(&self, engine: &Engine, sites: impl IntoIterator<Item = SiteSpec>) -> Result<Module> {
        let registration = engine.registration(self.adopt(engine)).sites(sites);
        // SAFETY: what is told is true of the code.
        unsafe { registration.live().finish() }
    }
}

fn exit_stubs() -> ExitStubs {
    ExitStubs::new()
        .on_miss(|frame| frame.resume())
        .on_deopt(|frame| frame.resume())
}

/// An engine of this thread alone.
fn engine() -> Engine {
    // SAFETY: no other thread executes what the test registers with it.
    let world = unsafe { SingleThreaded::promise() };
    Engine::builder()
        .world(world)
        .exits(exit_stubs())
        .build()
        .unwrap()
}

/// An engine of live sites.
fn live_engine() -> Engine {
    let builder = Engine::builder().world(NeverStopped).exits(exit_stubs());
    builder.build().unwrap()
}

/// The function `f` of a module, which may run from now on.
fn function(module: &Module) -> extern "C" fn(u64) -> u64 {
    module.release();
    // SAFETY: every `f` of these tests takes a word and returns one.
    unsafe { module.function("f").unwrap().typed() }.unwrap()
}

const RAX_ALONE: RegSet = RegSet::of(&[x86_64::RAX]);
