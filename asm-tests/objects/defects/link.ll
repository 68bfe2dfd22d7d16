; RISC-V, defect 4: a patchpoint calls through ra, which nothing saves in a function without other calls: DWARF register
; 1 is live out of it.
declare i64 @llvm.experimental.patchpoint.i64(i64, i32, ptr, i32, ...)

define i64 @link_live(i64 %a) {
  %r = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1, i32 32, ptr null, i32 1, i64 %a)
  %s = add i64 %r, %a
  ret i64 %s
}
