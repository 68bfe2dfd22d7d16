; Defect 5: reserved bytes too few for the call, which release builds do not diagnose.
declare i64 @llvm.experimental.patchpoint.i64(i64, i32, ptr, i32, ...)

define i64 @short_call(i64 %a) {
  %r = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1, i32 4, ptr inttoptr (i64 20015998341120 to ptr), i32 1, i64 %a)
  %s = add i64 %r, %a
  ret i64 %s
}
