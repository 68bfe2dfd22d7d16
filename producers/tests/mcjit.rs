//! Code of LLVM's MCJIT, used through inkwell and placed by LLVM's own memory manager.
//!
//! MCJIT keeps the object to itself, but hands it to debuggers, with the addresses of its sections,
//! by the interface that GDB has for JITs. There it is found, and says all that has to be known.

mod llvm;

use inkwell::OptimizationLevel;
use inkwell::context::Context;
use inkwell::memory_buffer::MemoryBuffer;
use object::{Object, ObjectSection, SectionIndex};
use patchpoint::addr::CodeAddr;
use patchpoint::image::Adoption;
use patchpoint::memory::{Strategy, StrategyChoice};
use patchpoint_producers::{Function, engine, run};

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

#[test]
fn code_of_mcjit_is_patched_live() {
    let context = Context::create();
    let ir = llvm::ir();
    let ir = MemoryBuffer::create_from_memory_range(&ir, "sites");
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
    // SAFETY: `jit` keeps the code mapped to the end of this function, and nobody has executed it.
    let code = unsafe { adoption.not_yet_run().promise() }.expect("it is described");
    let engine = engine();
    let code = engine
        .adopt(code, StrategyChoice::Auto)
        .expect("it is private memory");
    // SAFETY: what is told of the module is true of its IR.
    let module = unsafe { llvm::register(engine.registration(code)) }.expect("its sites are as told");
    assert_eq!(module.areas()[0].strategy(), Strategy::Remap);
    let subjects = llvm::subjects(&module, |name| {
        // SAFETY: the IR gives every function this signature.
        unsafe { std::mem::transmute::<usize, Function>(address(name)) }
    });
    assert_eq!(subjects.len(), llvm::NAMES.len());
    let figures = run("LLVM MCJIT (inkwell)", &engine, &module, &subjects).expect("nothing is refused");
    assert!(figures.settled > 0, "{figures}");
}
