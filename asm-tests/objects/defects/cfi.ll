; AArch64, defect 1: a CFI pseudo-instruction counts 4 bytes of a shadow, so that it is shorter than it promises.
declare void @llvm.experimental.stackmap(i64, i32, ...)
declare i64 @ext_add(i64, i64)

define i64 @cfi_shadow(i64 %a, i64 %b) uwtable {
  %x = call i64 @ext_add(i64 %a, i64 %b)
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 1, i32 32, i64 %x)
  ret i64 %x
}

; What a shadow that is too short reaches into.
define i64 @cfi_next(i64 %a) uwtable {
  %r = add i64 %a, 1
  ret i64 %r
}
