//! The traps that exist without concurrency, on an object that LLVM compiled for them.

mod entries;
mod lookup;
mod machine;
mod registers;
mod registration;
mod return_offsets;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use machine::HOST;
use patchpoint::addr::{CodeAddr, RecordId};
use patchpoint::arch::Arch;
use patchpoint::deopt::ExitStubs;
use patchpoint::engine::{Engine, LoadedCode};
use patchpoint::publish::SingleThreaded;
use patchpoint::site::{self, EntrySpec, Module, Site};
use patchpoint::{CallShape, Error, Result};

const ARCH: Arch = Arch::host().unwrap();

/// The reserved length of a patchpoint that the source gives for x86-64.
const fn length(x86_64: u32) -> u32 {
    match ARCH {
        Arch::X86_64 => x86_64,
        _ => 2 * x86_64,
    }
}

/// What is reserved in the source.
fn shape(id: RecordId) -> Option<CallShape> {
    Some(match id.get() {
        1 | 2 => CallShape::c(length(40)).result().args(1),
        3 => CallShape::shadow(16),
        4 => CallShape::any_reg(length(24)).result().args(1),
        5 => CallShape::any_reg(length(32)).result().args(1),
        6 | 7 => CallShape::any_reg(length(20)).result().args(1),
        8 => CallShape::shadow(12),
        9 => CallShape::any_reg(ALIGNED).result().args(1),
        _ => return None,
    })
}

/// What site 9 reserves, so that it ends at a multiple of 16.
const ALIGNED: u32 = match ARCH {
    Arch::X86_64 => 28,
    Arch::PowerPc64Le => 52,
    Arch::PowerPc64 => 60,
    Arch::SystemZ => 54,
    _ => 56,
};

fn reserved(id: u64) -> u32 {
    shape(RecordId::new(id)).unwrap().reserved().get()
}

/// An engine that counts how often invalidated code was entered, and resumes.
fn engine() -> (Engine, Arc<AtomicU64>) {
    let deopts = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&deopts);
    let exit_stubs = ExitStubs::new().on_deopt(move |frame| {
        count.fetch_add(1, Ordering::Relaxed);
        frame.resume()
    });
    // SAFETY: each test has its own engine and calls its code on one thread.
    let world = unsafe { SingleThreaded::promise() };
    (
        Engine::builder().world(world).exits(exit_stubs).build().unwrap(),
        deopts,
    )
}

extern "C" fn nobody(a: u64) -> u64 {
    a
}

fn address(function: extern "C" fn(u64) -> u64) -> CodeAddr {
    CodeAddr::new(function as usize as u64)
}

fn load(engine: &Engine, callee: extern "C" fn(u64) -> u64) -> LoadedCode {
    let callee = address(callee);
    engine
        .load(&machine::object(callee.get()), |_| Some(callee))
        .unwrap()
}

/// The object registered, its patchpoints calling `callee`.
fn registered(engine: &Engine, callee: extern "C" fn(u64) -> u64) -> Module {
    // SAFETY: what is told is true of the object's code, or refused.
    unsafe { engine.register(load(engine, callee), |record| shape(record.id())) }.unwrap()
}

/// The same where sequences are to call: LLVM for RISC-V writes no lists of live-outs here, and by
/// the source nobody needs the return address in its register.
fn registered_for_calls(engine: &Engine, callee: extern "C" fn(u64) -> u64) -> Module {
    let registration = engine.registration(load(engine, callee));
    let registration = match ARCH {
        Arch::RiscV64 => registration.trust_live_outs(),
        _ => registration,
    };
    // SAFETY: what is told is true of the object's code, or refused.
    unsafe { registration.register(|record| shape(record.id())) }.unwrap()
}

/// A registration in which one record has another shape.
fn with_shape(id: u64, other: CallShape) -> Result<Module> {
    let (engine, _) = engine();
    // SAFETY: what is told is true of the object's code, or refused.
    unsafe {
        engine.register(load(&engine, nobody), |record| {
            if record.id().get() == id {
                Some(other)
            } else {
                shape(record.id())
            }
        })
    }
}

fn with_entry(entry: EntrySpec) -> Result<Module> {
    let (engine, _) = engine();
    let registration = engine.registration(load(&engine, nobody)).entry(entry);
    // SAFETY: what is told is true of the object's code, or refused.
    unsafe { registration.register(|record| shape(record.id())) }
}

fn the_site(engine: &Engine, id: u64) -> Site {
    let sites = engine.sites(id).unwrap();
    assert_eq!(sites.len(), 1);
    sites[0].clone()
}

fn call(module: &Module, function: &str, args: [u64; 2]) -> u64 {
    module.release();
    call_at(module.function(function).unwrap().entry().unwrap(), args)
}

fn call_at(addr: CodeAddr, [a, b]: [u64; 2]) -> u64 {
    // SAFETY: the object's functions take two numbers or fewer and return one.
    let function: extern "C" fn(u64, u64) -> u64 = unsafe { std::mem::transmute(addr.get() as usize) };
    function(a, b)
}

/// The bytes from a site to the end of its function, and where instructions begin and end in them.
fn rest(site: &Site) -> (u32, Vec<u32>) {
    let len = site.function().len().get() - site.offset().get();
    // SAFETY: the site's module keeps its code mapped and readable.
    let bytes = unsafe { std::slice::from_raw_parts(site.addr().get() as *const u8, len as usize) };
    let mut boundaries = patchpoint::verify::boundaries(ARCH, site.addr(), bytes);
    boundaries.push(len);
    (len, boundaries)
}

fn bytes(site: &Site) -> Vec<u8> {
    // SAFETY: the site's module keeps its code mapped and readable.
    unsafe { std::slice::from_raw_parts(site.addr().get() as *const u8, site.reserved().as_usize()) }.to_vec()
}

/// Asserts that a result is an error of a variant, whose sentence names the site's ID.
macro_rules! refused {
    ($result:expr, Site($refusal:ident), $id:expr) => {{
        let result = $result;
        let Err(error @ Error::Site(patchpoint::site::Error::$refusal { .. })) = &result else {
            panic!("expected {}, got {result:#?}", stringify!($refusal));
        };
        assert!(error.to_string().contains(&format!(" {} at ", $id)), "{error}");
    }};
    ($result:expr, Assemble($refusal:ident), $id:expr) => {{
        let result = $result;
        let Err(error @ Error::Assemble(patchpoint::sequence::Error::$refusal { .. })) = &result else {
            panic!("expected {}, got {result:#?}", stringify!($refusal));
        };
        assert!(error.to_string().contains(&format!(" {} at ", $id)), "{error}");
    }};
    ($result:expr, Check($refusal:ident), $id:expr) => {{
        let result = $result;
        let Err(error @ Error::Check(patchpoint::verify::Error::$refusal { .. })) = &result else {
            panic!("expected {}, got {result:#?}", stringify!($refusal));
        };
        assert!(error.to_string().contains(&format!(" {} at ", $id)), "{error}");
    }};
    ($result:expr, $variant:ident, $id:expr) => {{
        let result = $result;
        let Err(error @ Error::$variant { .. }) = &result else {
            panic!("expected {}, got {result:#?}", stringify!($variant));
        };
        assert!(error.to_string().contains(&format!(" {} at ", $id)), "{error}");
    }};
}
use refused;
