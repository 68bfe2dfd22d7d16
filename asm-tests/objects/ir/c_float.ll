; llc: -enable-patchpoint-liveness=false (the pass crashes in llc 14 and 19 where a call or floating-point code follows a site)
; Floating-point arguments.
declare i64 @llvm.experimental.patchpoint.i64(i64, i32, ptr, i32, ...)
declare void @llvm.experimental.patchpoint.void(i64, i32, ptr, i32, ...)
declare void @llvm.experimental.stackmap(i64, i32, ...)

; Floating-point arguments go to xmm registers.
define i64 @c_float_mixed(i64 %a, i64 %b) uwtable {
  %f = sitofp i64 %a to double
  %g = sitofp i64 %b to double
  %r = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 220, i32 24, ptr null, i32 4, i64 %a, double %f, i64 %b, double %g)
  %h = fadd double %f, %g
  %i = fptosi double %h to i64
  %s = add i64 %r, %i
  ret i64 %s
}

; Ten floating-point arguments: two of them on the stack.
define i64 @c_float_float(i64 %a) uwtable {
  %s = and i64 %a, 65535
  %f = sitofp i64 %s to double
  %g = fadd double %f, 1.5
  %r = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 221, i32 24, ptr null, i32 11, i64 %a, double %f, double %g, double %f, double %g, double %f, double %g, double %f, double %g, double %f, double %g)
  %i = fptosi double %g to i64
  %t = add i64 %r, %i
  ret i64 %t
}

