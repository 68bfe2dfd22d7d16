; Code without a stack map. `twice` has 8 bytes of nops in inline assembly, at `twice_site`, where the result can be
; corrected; `outer` calls `callee`, which is elsewhere.
target triple = "x86_64-unknown-linux-gnu"

define i64 @twice(i64 %x) uwtable {
  %sum = add i64 %x, %x
  %result = call i64 asm sideeffect ".p2align 3\0A.globl twice_site\0Atwice_site:\0A.byte 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0", "={rax},{rdi},0,~{rcx},~{flags}"(i64 %x, i64 %sum)
  ret i64 %result
}

declare i64 @callee(i64)

define i64 @outer(i64 %x) uwtable {
  %result = call i64 @callee(i64 %x)
  %more = add i64 %result, 1
  ret i64 %more
}
