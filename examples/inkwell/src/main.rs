//! Code that LLVM compiled, patched from Rust: an inline cache that learns, and a loop that is left in the middle.
//!
//! The function `sum` in `code.rs` reads a property of each of a list of objects through a patchpoint,
//! as code of a dynamic language does. The same story is told twice, for the two ways in which such code gets into memory:
//!
//! 1. LLVM makes an object, and patchpoint's own linker [loads](patchpoint::Engine::load) it into memory that was made to be patched.
//! 2. MCJIT, which inkwell calls an execution engine, places the code. patchpoint *adopts* it: told where the functions and
//!    the stack map are, it maps memory that can be patched over the code's pages, at the same addresses.
//!
//! Whoever is free to choose takes the first: there is less to tell, and less to keep in step.

mod code;
mod debugged;

use std::collections::HashMap;
use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};

use inkwell::OptimizationLevel;
use inkwell::context::Context;
use inkwell::llvm_sys::support::LLVMParseCommandLineOptions;
use inkwell::module::Module;
use inkwell::targets::{CodeModel, FileType, InitializationConfig, RelocMode, Target, TargetMachine};
use object::{Object as _, ObjectSection, SectionIndex};
use patchpoint::addr::CodeAddr;
use patchpoint::deopt::{Answer, ExitStubs, Frame, ReturnValue};
use patchpoint::engine::LoadedCode;
use patchpoint::ic::{Action, Caches, Entry, Guard, Learn, Miss, Pointer};
use patchpoint::image::Adoption;
use patchpoint::memory::StrategyChoice;
use patchpoint::publish::SingleThreaded;
use patchpoint::sequence::arg;
use patchpoint::{CallShape, Engine};

use code::{LOOP, READ};

/// An object of the language. Its shape says where its property is: word 1 or 2. Shape 0 has none, and computes it.
#[repr(C)]
struct Object {
    shape: u64,
    words: [u64; 2],
}

const COMPUTED: u64 = 0;

impl Object {
    fn property(&self) -> u64 {
        match self.shape {
            COMPUTED => self.words[0] * self.words[1],
            shape => self.words[(shape % 2) as usize],
        }
    }

    /// Where the property is, in bytes.
    fn offset(&self) -> i32 {
        8 + 8 * (self.shape % 2) as i32
    }
}

static MISSES: AtomicUsize = AtomicUsize::new(0);
static DEOPTIMIZED: AtomicUsize = AtomicUsize::new(0);

/// No entry of the cache is for this object. What is found is the result, and what it says of the shape becomes an entry: the
/// next object of that shape does not come here.
fn look_up<'f>(miss: &mut Miss<'_, 'f>) -> Learn<'f> {
    MISSES.fetch_add(1, Ordering::Relaxed);
    let receiver = miss.frame().arg_u64(0).expect("the argument is a pointer");
    // SAFETY: compiled code was given pointers to objects.
    let receiver = unsafe { &*(receiver as *const Object) };
    miss.set_result(receiver.property())
        .expect("the shape has a result");
    if receiver.shape == COMPUTED {
        // No entry can serve it. Give the function up: its loop goes on to the next site, and from there to `leave`.
        let frame = miss.frame();
        let invalidated = frame.engine().invalidate(&frame.site().function());
        invalidated.expect("each site has room for a jump");
        return Learn::Nothing;
    }
    let object = || Pointer::plain(arg(0));
    let is_of_shape = Guard::field::<u64>(object(), 0, receiver.shape);
    Learn::Entry(Entry::new(Action::load::<u64>(object(), receiver.offset())).guard(is_of_shape))
}

/// A site of the function that was given up is reached. At the stackmap all that the loop needs is known: the rest of it is done
/// here, as an interpreter would, and its caller gets the result.
fn leave<'f>(frame: &mut Frame<'f>) -> Answer<'f> {
    if frame.context().id.get() != LOOP.0 {
        return frame.resume(); // The stackmap follows.
    }
    DEOPTIMIZED.fetch_add(1, Ordering::Relaxed);
    let live = |at| frame.live_u64(at).expect("the stackmap names four words");
    let (objects, count, index, sum) = (live(0), live(1) as usize, live(2) as usize, live(3));
    // SAFETY: that is what the caller of `sum` passed.
    let objects = unsafe { std::slice::from_raw_parts(objects as *const &Object, count) };
    let rest: u64 = objects[index + 1..].iter().map(|object| object.property()).sum();
    println!("  left after object {index} of {count}, with a sum of {sum}");
    let left = frame.return_to_caller(ReturnValue::Int(sum + rest));
    left.expect("the function has unwind information")
}

/// Calls `sum`, and says how many of its reads missed.
fn call(sum: extern "C" fn(*const &Object, u64) -> u64, name: &str, shapes: &[u64]) {
    let objects: Vec<_> = (0..1000u64)
        .map(|at| Object {
            shape: shapes[at as usize % shapes.len()],
            words: [at, 3 * at],
        })
        .collect();
    let list: Vec<&Object> = objects.iter().collect();
    let before = MISSES.load(Ordering::Relaxed);
    let found = sum(list.as_ptr(), list.len() as u64);
    let misses = MISSES.load(Ordering::Relaxed) - before;
    println!(
        "  {name:<36} {found:>9}, {misses:>4} misses of {} reads",
        list.len()
    );
    assert_eq!(
        found,
        objects.iter().map(Object::property).sum(),
        "the sum is wrong"
    );
}

/// The story. `place` puts the code into memory, and answers where it is.
fn story(place: impl FnOnce(&Engine) -> Result<LoadedCode, Box<dyn Error>>) -> Result<(), Box<dyn Error>> {
    let caches = Caches::builder().whole_frames().lookup(look_up);
    let exits = caches.exits(ExitStubs::new().on_deopt(leave));
    // SAFETY: this program has one thread.
    let world = unsafe { SingleThreaded::promise() };
    let engine = Engine::builder().world(world).exits(exits).build()?;
    let code = place(&engine)?;
    // A stack map does not say how many bytes are reserved, nor what is an argument: the runtime does, by IDs.
    let shapes = HashMap::from([
        (READ.0.into(), CallShape::any_reg(READ.1).result().args(1)),
        (LOOP.0.into(), CallShape::shadow(LOOP.1)),
    ]);
    // SAFETY: that is what `code.rs` has made; what is looked up is what the code would have read.
    let (module, missing) = unsafe { engine.registration(code).register_ids(&shapes) }?;
    assert!(missing.is_empty(), "LLVM has left out {missing:?}");
    println!(
        "  {} sites, written by {:?}",
        module.sites().count(),
        module.areas()[0].strategy()
    );
    let attached = caches.attach_all(&engine, READ.0)?;
    let cache = attached.first().ok_or("LLVM has left the read out")?;
    module.release(); // Its code may run from now on.
    // SAFETY: that is its signature; the module stays registered.
    let sum = unsafe {
        module
            .function("sum")?
            .typed::<extern "C" fn(*const &Object, u64) -> u64>()
    }?;

    call(sum, "one shape, for the first time", &[1]);
    call(sum, "once more", &[1]);
    call(sum, "a second shape", &[1, 2]);
    call(sum, "once more", &[1, 2]);
    println!(
        "  the cache is {:?}, with {} entries",
        cache.state(),
        cache.entries().len()
    );
    call(sum, "an object that no cache can serve", &[1, 2, 1, 2, COMPUTED]);
    assert_eq!(DEOPTIMIZED.swap(0, Ordering::Relaxed), 1);
    Ok(())
}

/// LLVM makes an object, which patchpoint links.
fn load(module: &Module<'_>, engine: &Engine) -> Result<LoadedCode, Box<dyn Error>> {
    let triple = TargetMachine::get_default_triple();
    let target = Target::from_triple(&triple)?;
    let (level, relocation) = (OptimizationLevel::Default, RelocMode::PIC);
    let machine = target.create_target_machine(&triple, "", "", level, relocation, CodeModel::Default);
    let machine = machine.ok_or("LLVM has no such machine")?;
    let object = machine.write_to_memory_buffer(module, FileType::Object)?;
    Ok(engine.load(object.as_slice(), |_symbol| None)?)
}

/// MCJIT has placed the code. inkwell does not say where, but MCJIT tells debuggers.
fn adopt(engine: &Engine) -> Result<LoadedCode, Box<dyn Error>> {
    let object = debugged::last_object().ok_or("MCJIT has registered no object")?;
    let file = object::File::parse(object.as_slice())?;
    // The copy for debuggers has the addresses of sections in their headers.
    let address = |index| {
        let section = file.section_by_index(SectionIndex(index)).ok()?;
        Some(CodeAddr::new(section.address())).filter(|at| at.get() != 0)
    };
    let adoption = Adoption::from_object(&object, |index, _name| address(index))?.not_yet_run();
    // SAFETY: the execution engine keeps the code where it is until the story is over, and nobody has run it.
    let code = unsafe { adoption.promise() }?;
    Ok(engine.adopt(code, StrategyChoice::Remap)?)
}

fn main() -> Result<(), Box<dyn Error>> {
    Target::initialize_native(&InitializationConfig::default())?;
    // LLVM 14 to 19 crash in this pass at many a patchpoint: see `guide/`. patchpoint does not need it.
    let arguments = [c"sum".as_ptr(), c"-enable-patchpoint-liveness=false".as_ptr()];
    // SAFETY: they are two strings, and nobody compiles now.
    unsafe { LLVMParseCommandLineOptions(2, arguments.as_ptr(), std::ptr::null()) };
    let context = Context::create();

    println!("an object, loaded:");
    let module = code::compile(&context)?;
    story(|engine| load(&module, engine))?;

    println!("code of MCJIT, adopted:");
    let module = code::compile(&context)?;
    let jit = module.create_jit_execution_engine(OptimizationLevel::Default)?;
    jit.get_function_address("sum")?; // It compiles now.
    story(adopt)
}
