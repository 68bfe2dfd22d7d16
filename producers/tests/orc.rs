//! Code of LLVM's ORC: an LLJIT, used through its C interface and placed by its own linking layer.
//!
//! Its object transform layer sees each object before it is linked. Where the sections are follows
//! from the addresses of the functions in them.

mod llvm;

use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr;
use std::time::Duration;

use llvm_sys::core::{LLVMCreateMemoryBufferWithMemoryRangeCopy, LLVMGetBufferSize, LLVMGetBufferStart};
use llvm_sys::error::{LLVMErrorRef, LLVMGetErrorMessage};
use llvm_sys::ir_reader::LLVMParseIRInContext;
use llvm_sys::orc2::lljit::{
    LLVMOrcCreateLLJIT, LLVMOrcDisposeLLJIT, LLVMOrcLLJITAddLLVMIRModule, LLVMOrcLLJITGetMainJITDylib,
    LLVMOrcLLJITGetObjTransformLayer, LLVMOrcLLJITLookup, LLVMOrcLLJITRef,
};
use llvm_sys::orc2::{
    LLVMOrcCreateNewThreadSafeContext, LLVMOrcCreateNewThreadSafeModule, LLVMOrcDisposeThreadSafeContext,
    LLVMOrcObjectTransformLayerSetTransform, LLVMOrcThreadSafeContextGetContext,
};
use llvm_sys::prelude::LLVMMemoryBufferRef;
use llvm_sys::target::{LLVM_InitializeNativeAsmPrinter, LLVM_InitializeNativeTarget};
use object::{Object, ObjectSection, ObjectSymbol};
use patchpoint::Engine;
use patchpoint::addr::CodeAddr;
use patchpoint::image::Adoption;
use patchpoint_producers::{Figures, Function, adopt, engine, exercise, lives, registered, unregister};

fn check(error: LLVMErrorRef) {
    if !error.is_null() {
        // SAFETY: an error of LLVM's has a message, which is not freed.
        panic!("{:?}", unsafe { CStr::from_ptr(LLVMGetErrorMessage(error)) });
    }
}

/// Keeps a copy of an object that is about to be linked.
extern "C" fn keep(objects: *mut c_void, object: *mut LLVMMemoryBufferRef) -> LLVMErrorRef {
    // SAFETY: LLVM calls this with a buffer, on the thread that looks symbols up, with what was set.
    unsafe {
        let bytes = LLVMGetBufferStart(*object).cast::<u8>();
        let bytes = std::slice::from_raw_parts(bytes, LLVMGetBufferSize(*object));
        (*objects.cast::<Vec<Vec<u8>>>()).push(bytes.to_vec());
    }
    ptr::null_mut()
}

/// Makes an LLJIT of the module, which leaves its object in `objects`.
///
/// # Safety
/// `objects` stays where it is until the functions are compiled, and is used by nobody else then.
unsafe fn compile(objects: *mut Vec<Vec<u8>>) -> LLVMOrcLLJITRef {
    let ir = llvm::ir();
    let mut jit = ptr::null_mut();
    // SAFETY: each call is given what the ones before it have made, as LLVM's documentation says.
    unsafe {
        assert_eq!(
            (LLVM_InitializeNativeTarget(), LLVM_InitializeNativeAsmPrinter()),
            (0, 0)
        );
        let context = LLVMOrcCreateNewThreadSafeContext();
        let text = ir.as_ptr().cast::<c_char>();
        let name = c"sites".as_ptr();
        let buffer = LLVMCreateMemoryBufferWithMemoryRangeCopy(text, ir.len(), name);
        let (mut module, mut message) = (ptr::null_mut(), ptr::null_mut());
        let parsed = LLVMOrcThreadSafeContextGetContext(context);
        let refused = LLVMParseIRInContext(parsed, buffer, &mut module, &mut message);
        assert!(refused == 0, "{:?}", CStr::from_ptr(message));
        let module = LLVMOrcCreateNewThreadSafeModule(module, context);
        LLVMOrcDisposeThreadSafeContext(context);
        check(LLVMOrcCreateLLJIT(&mut jit, ptr::null_mut()));
        let layer = LLVMOrcLLJITGetObjTransformLayer(jit);
        LLVMOrcObjectTransformLayerSetTransform(layer, keep, objects.cast());
        let library = LLVMOrcLLJITGetMainJITDylib(jit);
        check(LLVMOrcLLJITAddLLVMIRModule(jit, library, module));
    }
    jit
}

/// Where a function is. The first that is asked for has the module compiled.
fn address(jit: LLVMOrcLLJITRef, name: &str) -> u64 {
    let (name, mut address) = (CString::new(name).expect("a name has no zeros"), 0);
    // SAFETY: the JIT is there until the end of the test.
    check(unsafe { LLVMOrcLLJITLookup(jit, &mut address, name.as_ptr()) });
    address
}

/// Compiles the module by an LLJIT of its own, and patches it for a while. If it has run, another thread
/// executes it while it is adopted and registered.
fn live_once(engine: &Engine, has_run: bool, duration: Duration, figures: &mut Figures) {
    let mut objects = Vec::new();
    // SAFETY: they are compiled by the next statement.
    let jit = unsafe { compile(&raw mut objects) };
    let addresses = llvm::NAMES.map(|name| address(jit, name));
    assert_eq!(objects.len(), 1);

    let bytes = &objects[0];
    let parsed = object::File::parse(bytes.as_slice()).expect("LLVM has made it");
    // A section is as far before a function in memory as it is in the object.
    let start = |section: usize| {
        let mut symbols = parsed
            .symbols()
            .filter(|symbol| symbol.section_index().map(|at| at.0) == Some(section));
        symbols.find_map(|symbol| {
            let at = llvm::NAMES.iter().position(|name| symbol.name() == Ok(name))?;
            Some(CodeAddr::new(addresses[at] - symbol.address()))
        })
    };
    assert!(
        parsed
            .section_by_name(".text")
            .is_some_and(|text| start(text.index().0).is_some())
    );
    let adoption =
        Adoption::from_object(bytes, |index, _| start(index)).expect("it is an object of this machine");
    // SAFETY: the IR gives every function this signature.
    let function = |name: &str| unsafe { std::mem::transmute::<u64, Function>(address(jit, name)) };
    let register = || {
        // SAFETY: the JIT keeps the code mapped to the end of this function; unless said, nobody has executed it.
        let code = unsafe { adopt(engine, adoption, has_run) };
        // SAFETY: what is told of the module is true of its IR.
        unsafe { llvm::register(engine.registration(code)) }.expect("its sites are as told")
    };
    let executed = has_run.then(|| llvm::executable(function));
    let module = registered(engine, executed.as_deref(), register);
    let subjects = llvm::subjects(&module, function);
    assert_eq!(subjects.len(), llvm::NAMES.len());
    exercise(engine, &module, &subjects, duration, figures, || {}).expect("nothing is refused");
    drop(subjects);
    // SAFETY: the thread that has executed it is gone, and nobody else knows it.
    unsafe { unregister(engine, module) }.expect("it is registered");
    // SAFETY: nobody uses it or its code any more.
    check(unsafe { LLVMOrcDisposeLLJIT(jit) });
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
fn code_of_orc_is_patched_live() {
    is_patched_live("LLVM ORC (LLJIT)", false);
}

#[test]
fn code_of_orc_that_runs_is_patched_live() {
    is_patched_live("LLVM ORC (LLJIT), code that runs", true);
}
