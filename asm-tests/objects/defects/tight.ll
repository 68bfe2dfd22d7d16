; PowerPC, defect 3: reserved bytes of just the length that the call is said to have (28 with ELFv2, 36 with ELFv1): it
; is one instruction longer, and ends behind them.
declare i64 @llvm.experimental.patchpoint.i64(i64, i32, ptr, i32, ...)

define i64 @tight_call(i64 %a) {
  %r = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1, i32 LENGTH, ptr inttoptr (i64 20015998341120 to ptr), i32 1, i64 %a)
  %s = add i64 %r, %a
  ret i64 %s
}
