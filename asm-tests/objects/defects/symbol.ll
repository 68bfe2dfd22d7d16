; AArch64, defect 5: a symbol as target.
declare i64 @llvm.experimental.patchpoint.i64(i64, i32, ptr, i32, ...)
declare i64 @callee_600(i64, i64)

define i64 @symbol_target(i64 %a, i64 %b) {
  %r = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 600, i32 32, ptr @callee_600, i32 2, i64 %a, i64 %b)
  ret i64 %r
}
