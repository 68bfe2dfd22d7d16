//! The function that is patched, and what the runtime knows of it.
//!
//! `patchpoint(id, bytes, target, n, ...)` reserves bytes: with no target they are nops. The convention `anyregcc` leaves
//! the n arguments and the result in registers of LLVM's choice. `stackmap(id, bytes, ...)` emits nothing: the bytes that
//! follow it may be overwritten once its function is to be left there. Where each of the other arguments is at that place
//! is written into a *stack map*, a section of the object.
//!
//! With a builder instead of text: both are variadic functions of these names, `module.add_function(name, type, None)`,
//! and a call of the first gets `call.set_call_convention(13)`, which is anyregcc.

use inkwell::context::Context;
use inkwell::memory_buffer::MemoryBuffer;
use inkwell::module::Module;
use inkwell::support::LLVMString;

/// The ID of the property read, and how many bytes it reserves: an entry of a cache takes some twenty on x86-64.
/// What does not fit is put into a stub beside the code.
pub const READ: (u64, u32) = (78, 32);
/// The ID of the stackmap, and how many bytes may be overwritten.
pub const LOOP: (u64, u32) = (90, 24);

/// `sum += objects[index]->property` for each of `count` objects, at least one. A function that is not `nounwind` has unwind
/// information, by which its frame can be left in the middle.
const IR: &str = "
declare i64 @llvm.experimental.patchpoint.i64(i64, i32, i8*, i32, ...)
declare void @llvm.experimental.stackmap(i64, i32, ...)

define i64 @sum(i64* %objects, i64 %count) {
entry:
  br label %loop
loop:
  %index = phi i64 [ 0, %entry ], [ %index.next, %loop ]
  %sum = phi i64 [ 0, %entry ], [ %sum.next, %loop ]
  %at = getelementptr i64, i64* %objects, i64 %index
  %object = load i64, i64* %at
  %value = call anyregcc i64 (i64, i32, i8*, i32, ...)
    @llvm.experimental.patchpoint.i64(i64 78, i32 32, i8* null, i32 1, i64 %object)
  %sum.next = add i64 %sum, %value
  call void (i64, i32, ...)
    @llvm.experimental.stackmap(i64 90, i32 24, i64* %objects, i64 %count, i64 %index, i64 %sum.next)
  %index.next = add i64 %index, 1
  %more = icmp ult i64 %index.next, %count
  br i1 %more, label %loop, label %done
done:
  ret i64 %sum.next
}
";

/// Makes the module.
pub fn compile(context: &Context) -> Result<Module<'_>, LLVMString> {
    // Pointers have types up to LLVM 14, and none from 15 on.
    let ir = match cfg!(feature = "llvm19") {
        true => IR.replace("i8*", "ptr").replace("i64*", "ptr"),
        false => IR.to_owned(),
    };
    context.create_module_from_ir(MemoryBuffer::create_from_memory_range_copy(ir.as_bytes(), "sum"))
}
