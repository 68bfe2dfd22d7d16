; Functions that call nobody and have unwind information, for tests/backtraces.rs: `entered` keeps its return address in
; its register, where there is one; `leaf`, too, on RISC-V. make.sh puts in the nops of each architecture.
declare void @llvm.experimental.stackmap(i64, i32, ...)

; A shadow, ID 3, of 16 bytes.
define i64 @leaf(i64 %a, i64 %b) uwtable {
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 3, i32 16, i64 %a, i64 %b)
  %m = mul i64 %a, %b
  %n = xor i64 %m, 77
  %o = add i64 %n, %a
  %p = mul i64 %o, %b
  ret i64 %p
}

; A shadow, ID 4, of 16 bytes, where the distance from the stack pointer to the frame's end is not known.
define i64 @framed(i64 %a) uwtable {
  %p = alloca i64, i64 %a
  store volatile i64 %a, ptr %p
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 4, i32 16, i64 %a)
  %v = load volatile i64, ptr %p
  %m = mul i64 %v, %a
  %n = xor i64 %m, 77
  %o = add i64 %n, %a
  ret i64 %o
}

; 16 bytes of nops before anything else.
define i64 @entered(i64 %a) uwtable prologue [4 x i32] [i32 NOP, i32 NOP, i32 NOP, i32 NOP] {
  %r = add i64 %a, 5
  ret i64 %r
}
