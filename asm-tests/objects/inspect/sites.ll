; Every kind of location, both conventions, and several functions, for every architecture.

declare void @llvm.experimental.stackmap(i64, i32, ...)
declare void @llvm.experimental.patchpoint.void(i64, i32, ptr, i32, ...)
declare i64 @llvm.experimental.patchpoint.i64(i64, i32, ptr, i32, ...)
declare void @escape(ptr)

; The result and the arguments are wherever the register allocator puts them.
define i64 @get(i64 %object, i64 %key) {
  %value = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(
      i64 7, i32 40, ptr null, i32 2, i64 %object, i64 %key, i64 %key)
  %sum = add i64 %value, %key
  ret i64 %sum
}

; LLVM's own call to a constant address, and a result in the convention's register.
define i64 @call_c(i64 %a, i64 %b) {
  %value = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(
      i64 8, i32 48, ptr inttoptr (i64 81985529216486895 to ptr), i32 2, i64 %a, i64 %b, i64 %a)
  ret i64 %value
}

; Small and large constants, undef, floating point, and a stack slot by address.
define void @values(i64 %int, i32 %half, float %single, double %double) {
  %slot = alloca i64, align 8
  store i64 %int, ptr %slot
  call void @escape(ptr %slot)
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 9, i32 16,
      i64 %int, i32 %half, float %single, double %double, ptr %slot,
      i32 -1, i64 -1, i64 4294967295, i64 1311768467463790320, i32 undef, i16 65535, i1 true)
  ret void
}

; The same ID twice, as inlining makes it, and one more right behind.
define i64 @twice(i64 %a) {
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 10, i32 8, i64 %a)
  %b = mul i64 %a, 3
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 10, i32 8, i64 %b)
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 -1, i32 0)
  ret i64 %b
}

; The size of the stack is not known.
define void @dynamic(i64 %count) {
  %slots = alloca i64, i64 %count, align 8
  call void @escape(ptr %slots)
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 11, i32 4, i64 %count)
  ret void
}
