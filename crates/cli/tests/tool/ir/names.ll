; Names that are not those of symbols, and calls that are not written as LLVM prints them.
declare void @llvm.experimental.stackmap(i64, i32, ...)
declare i64 @llvm.experimental.patchpoint.i64(i64, i32, ptr, i32, ...)
define i64 @one(i64 %a) {
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64  7,i32	8)
  ret i64 %a
}
define i64 @"t\22w o"(i64 %a) {
  call void (i64, i32, ...) ; @llvm.experimental.stackmap(i64 7, i32 99)
    @"llvm.experimental.stackmap"(
      i64 7, ; the ID
      i32 24)
  ret i64 %a
}
define i64 @"\01three"(i64 %a) {
  %r = tail call anyregcc i64
     (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(
         i64 7, i32 40, ptr null, i32 1, i64 %a)
  ret i64 %r
}
