use std::error::Error;

use inkwell::OptimizationLevel;
use inkwell::context::Context;
use inkwell::llvm_sys::support::LLVMParseCommandLineOptions;
use inkwell::memory_buffer::MemoryBuffer;
use inkwell::targets::{CodeModel, FileType, InitializationConfig, RelocMode, Target, TargetMachine};
use patchpoint::deopt::ExitStubs;
use patchpoint::publish::SingleThreaded;
use patchpoint::sequence::{Field, Sequence, Target as To, arg, result};
use patchpoint::{CallShape, Engine};

const IR: &str = "
declare i64 @llvm.experimental.patchpoint.i64(i64, i32, ptr, i32, ...)

define i64 @get(ptr %obj) {
  %value = call anyregcc i64 (i64, i32, ptr, i32, ...)
      @llvm.experimental.patchpoint.i64(i64 78, i32 32, ptr null, i32 1, ptr %obj)
  ret i64 %value
}
";

fn main() -> Result<(), Box<dyn Error>> {
    // LLVM makes an object.
    Target::initialize_native(&InitializationConfig::default())?;
    let options = [c"first".as_ptr(), c"-enable-patchpoint-liveness=false".as_ptr()];
    // SAFETY: they are two strings, and nobody compiles now.
    unsafe { LLVMParseCommandLineOptions(2, options.as_ptr(), std::ptr::null()) };
    let context = Context::create();
    let ir = MemoryBuffer::create_from_memory_range_copy(IR.as_bytes(), "get");
    let module = context.create_module_from_ir(ir)?;
    let triple = TargetMachine::get_default_triple();
    let machine = Target::from_triple(&triple)?
        .create_target_machine(
            &triple,
            "",
            "",
            OptimizationLevel::Default,
            RelocMode::PIC,
            CodeModel::Default,
        )
        .ok_or("LLVM has no such machine")?;
    let object = machine.write_to_memory_buffer(&module, FileType::Object)?;

    // From here on it is the first patch: engine, load, register, patch, run.
    let exit_stubs = ExitStubs::new().on_miss(|frame| {
        frame.set_result(0).expect("there is a result");
        frame.resume()
    });
    // SAFETY: this program has one thread.
    let world = unsafe { SingleThreaded::promise() };
    let engine = Engine::builder().world(world).exits(exit_stubs).build()?;
    let code = engine.load(object.as_slice(), |_symbol| None)?;
    let shape = |id| (id == 78).then(|| CallShape::any_reg(32).result().args(1));
    // SAFETY: that is what the IR says.
    let module = unsafe { engine.register(code, |record| shape(record.id().get())) }?;
    let hit = Sequence::new()
        .guard_eq(u64::at(arg(0), 8), 0x17, To::Miss)
        .load(result(), u64::at(arg(0), 24));
    module.patch(78, &hit)?;
    module.release();
    // SAFETY: this is the function's signature in the IR, and the module stays registered.
    let get = unsafe { module.function("get")?.typed::<extern "C" fn(&[u64; 4]) -> u64>() }?;
    let (hit, miss) = (get(&[0, 0x17, 0, 1234]), get(&[0, 0x18, 0, 1234]));
    println!("hit: {hit}, miss: {miss}");
    Ok(())
}
