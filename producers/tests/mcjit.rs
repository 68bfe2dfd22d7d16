//! Code of LLVM's MCJIT, used through inkwell and placed by LLVM's own memory manager.
//!
//! MCJIT keeps the object to itself, but hands it to debuggers, with the addresses of its sections,
//! by the interface that GDB has for JITs. There it is found, and says all that has to be known.

mod llvm;

use std::time::Duration;

use inkwell::OptimizationLevel;
use inkwell::context::Context;
use inkwell::memory_buffer::MemoryBuffer;
use object::{Object, ObjectSection, SectionIndex};
use patchpoint::Engine;
use patchpoint::addr::CodeAddr;
use patchpoint::image::Adoption;
use patchpoint_producers::{Figures, Function, adopt, engine, exercise, lives, registered, unregister};

/// GDB's interface: `struct jit_code_entry`.
#[repr(C)]
struct Entry {
    next: *const Entry,
    prev: *const Entry,
    object: *const u8,
    len: u64,
}

/// `struct jit_descriptor`.
#[repr(C)]
struct Descriptor {
    version: u32,
    action: u32,
    relevant: *const Entry,
    first: *const Entry,
}

unsafe extern "C" {
    /// Of LLVM's library.
    static __jit_debug_descriptor: Descriptor;
}

/// The object that was registered last.
fn registered_object() -> Vec<u8> {
    // SAFETY: LLVM changes the list while it compiles, which nobody does now; what is in it stays.
    unsafe {
        let first = (&raw const __jit_debug_descriptor.first).read();
        assert!(!first.is_null(), "MCJIT has registered no object");
        std::slice::from_raw_parts((*first).object, (*first).len as usize).to_vec()
    }
}

/// The addresses in the headers of an object's sections, where there are some.
fn section_address(object: &[u8], index: usize) -> Option<CodeAddr> {
    let object = object::File::parse(object).expect("LLVM has made it");
    let section = object
        .section_by_index(SectionIndex(index))
        .expect("it has that many");
    Some(CodeAddr::new(section.address())).filter(|addr| addr.get() != 0)
}

/// Compiles the module, and patches it for a while. Other modules are compiled meanwhile. If it has run,
/// another thread executes it while it is adopted and registered.
fn live_once(engine: &Engine, has_run: bool, duration: Duration, figures: &mut Figures) {
    let context = Context::create();
    let ir = MemoryBuffer::create_from_memory_range_copy(llvm::ir().as_bytes(), "sites");
    let module = context.create_module_from_ir(ir).expect("it is IR");
    let jit = module
        .create_jit_execution_engine(OptimizationLevel::Default)
        .expect("LLVM has this machine's target");
    let address = |name: &str| jit.get_function_address(name).expect("it is compiled");
    assert!(llvm::NAMES.iter().all(|name| address(name) != 0));

    let object = registered_object();
    let adoption = Adoption::from_object(&object, |index, _| section_address(&object, index))
        .expect("it is an object of this machine");
    for function in adoption.functions() {
        assert_eq!(
            function.addr.get(),
            address(&function.name) as u64,
            "{}",
            function.name
        );
    }
    // SAFETY: the IR gives every function this signature.
    let function = |name: &str| unsafe { std::mem::transmute::<usize, Function>(address(name)) };
    let register = || {
        // SAFETY: `jit` keeps the code mapped to the end of this function; unless said, nobody has executed it.
        let code = unsafe { adopt(engine, adoption, has_run) };
        // SAFETY: what is told of the module is true of its IR.
        unsafe { llvm::register(engine.registration(code)) }.expect("its sites are as told")
    };
    let executed = has_run.then(|| llvm::executable(function));
    let patched = registered(engine, executed.as_deref(), register);
    let subjects = llvm::subjects(&patched, function);
    assert_eq!(subjects.len(), llvm::NAMES.len());
    let mut others = 0;
    let beside = || {
        others += 1;
        let name = format!("other_{others}");
        let other = context.create_module(&name);
        let word = context.i64_type();
        let function = other.add_function(&name, word.fn_type(&[word.into()], false), None);
        let builder = context.create_builder();
        builder.position_at_end(context.append_basic_block(function, ""));
        let number = word.const_int(others, false);
        builder.build_return(Some(&number)).expect("it is valid");
        jit.add_module(&other).expect("it is of no JIT yet");
        // SAFETY: it has this signature.
        let function = unsafe { std::mem::transmute::<usize, Function>(address(&name)) };
        assert_eq!(function(0), others);
    };
    exercise(engine, &patched, &subjects, duration, figures, beside).expect("nothing is refused");
    drop(subjects);
    // SAFETY: the thread that has executed it is gone, and nobody else knows it.
    unsafe { unregister(engine, patched) }.expect("it is registered");
}

fn is_patched_live(producer: &'static str, has_run: bool) {
    let (engine, mut figures) = (engine(), Figures::of(producer));
    let (lives, duration) = lives();
    (0..lives).for_each(|_| live_once(&engine, has_run, duration, &mut figures));
    // Long instructions at once become a jump and bytes that are not executed: nothing is left to settle.
    assert_eq!(figures.settled > 0, !has_run, "{figures}");
    figures.finish();
}

#[test]
fn code_of_mcjit_is_patched_live() {
    is_patched_live("LLVM MCJIT (inkwell)", false);
}

#[test]
fn code_of_mcjit_that_runs_is_patched_live() {
    is_patched_live("LLVM MCJIT (inkwell), code that runs", true);
}
