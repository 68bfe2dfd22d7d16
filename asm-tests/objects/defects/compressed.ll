; RISC-V, defect 2: with compressed instructions, each counts 4 bytes of a shadow.
declare void @llvm.experimental.stackmap(i64, i32, ...)

define i64 @compressed_shadow(i64 %a, i64 %b) {
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 1, i32 32, i64 %a)
  %c = xor i64 %a, %b
  %d = and i64 %c, %a
  %e = or i64 %d, %b
  %f = sub i64 %e, %c
  %g = add i64 %f, %d
  ret i64 %g
}

define i64 @compressed_next(i64 %a) {
  %r = add i64 %a, 1
  ret i64 %r
}
