; Conventions that say where arguments are.
target triple = "x86_64-unknown-linux-gnu"
declare i64 @llvm.experimental.patchpoint.i64(i64, i32, ptr, i32, ...)
define i64 @most(i64 %a, i64 %b) {
  %r = call preserve_mostcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1, i32 32, ptr null, i32 2, i64 %a, i64 %b)
  ret i64 %r
}
define i64 @ghc(i64 %a, i64 %b) {
  %r = call cc 10 i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 2, i32 32, ptr null, i32 2, i64 %a, i64 %b)
  ret i64 %r
}
define i64 @windows(i64 %a, i64 %b) {
  %r = call win64cc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 3, i32 32, ptr null, i32 2, i64 %a, i64 %b)
  ret i64 %r
}
define i64 @any(i64 %a, i64 %b) {
  %r = call cc 13 i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 4, i32 32, ptr null, i32 2, i64 %a, i64 %b)
  ret i64 %r
}
define i64 @c(i64 %a, i64 %b) {
  %r = call cc 0 i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 5, i32 32, ptr null, i32 2, i64 %a, i64 %b)
  ret i64 %r
}
