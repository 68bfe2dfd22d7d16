; llc: -enable-patchpoint-liveness=false (floating-point code)
; anyregcc arguments that are not just computed integers: constants, stack slots, globals, doubles, undef, the same
; value twice.
declare i64 @llvm.experimental.patchpoint.i64(i64, i32, ptr, i32, ...)
@global = internal global [4 x i64] [i64 3, i64 5, i64 7, i64 9]

define i64 @mixed_constants(i64 %a) uwtable {
  %r = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 160, i32 32, ptr null, i32 4, i64 %a, i64 5, i64 -1, i64 1311768467463790320)
  ret i64 %r
}
define i64 @mixed_constant_first(i64 %a) uwtable {
  %r = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 161, i32 32, ptr null, i32 2, i64 40, i64 %a)
  %s = mul i64 %r, %a
  ret i64 %s
}
define i64 @mixed_slot(i64 %a) uwtable {
  %p = alloca i64
  store volatile i64 %a, ptr %p
  %r = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 162, i32 32, ptr null, i32 2, i64 %a, ptr %p)
  %v = load volatile i64, ptr %p
  %s = add i64 %r, %v
  ret i64 %s
}
define i64 @mixed_global(i64 %a) uwtable {
  %r = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 163, i32 32, ptr null, i32 2, i64 %a, ptr getelementptr ([4 x i64], ptr @global, i64 0, i64 2), ptr @global)
  %v = load i64, ptr getelementptr ([4 x i64], ptr @global, i64 0, i64 2)
  %s = add i64 %r, %v
  ret i64 %s
}
define i64 @mixed_double(i64 %a, i64 %b) uwtable {
  %f = sitofp i64 %b to double
  %r = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 164, i32 32, ptr null, i32 2, i64 %a, double %f)
  %g = bitcast double %f to i64
  %s = xor i64 %r, %g
  ret i64 %s
}
define i64 @mixed_undef(i64 %a) uwtable {
  %r = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 165, i32 32, ptr null, i32 2, i64 %a, i64 undef)
  ret i64 %r
}
define i64 @mixed_twice(i64 %a) uwtable {
  %r = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 166, i32 32, ptr null, i32 3, i64 %a, i64 %a, i64 %a, i64 %a)
  %s = add i64 %r, %a
  ret i64 %s
}
