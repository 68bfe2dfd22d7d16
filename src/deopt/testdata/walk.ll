; The object of tests/walk.rs. Made with:
;
;   llc-19 -O2 -mtriple=x86_64-unknown-linux-gnu -relocation-model=pic -enable-patchpoint-liveness=false \
;       -filetype=obj walk.ll -o walk.o
;
;   ID  function   what                                                     reserved
;    1  inner      anyregcc, result, 1 argument                             32 bytes
;    2  outer      a C patchpoint that is patched to call `inner`           32 bytes
;  700  collects   a statepoint that calls `outer`, with one reference

declare i64 @llvm.experimental.patchpoint.i64(i64, i32, ptr, i32, ...)
declare token @llvm.experimental.gc.statepoint.p0(i64, i32, ptr, i32, i32, ...)
declare i64 @llvm.experimental.gc.result.i64(token)
declare ptr addrspace(1) @llvm.experimental.gc.relocate.p1(token, i32, i32)

define i64 @inner(i64 %x) uwtable {
  %value = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1, i32 32, ptr null, i32 1, i64 %x)
  ret i64 %value
}

; (inner(x) + 3 x) xor 3 x, where 3 x lives across the call, in a register and in a slot.
define i64 @outer(i64 %x) uwtable {
  %triple = mul i64 %x, 3
  %slot = alloca i64
  store volatile i64 %triple, ptr %slot
  %value = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 2, i32 32, ptr null, i32 1, i64 %x, i64 %triple, ptr %slot, i64 -5)
  %again = load volatile i64, ptr %slot
  %sum = add i64 %value, %again
  %result = xor i64 %sum, %triple
  ret i64 %result
}

; outer(x) + the word that the reference points to after the call.
define i64 @collects(i64 %x, ptr addrspace(1) %object) uwtable gc "statepoint-example" {
  %token = call token (i64, i32, ptr, i32, i32, ...) @llvm.experimental.gc.statepoint.p0(i64 700, i32 0, ptr elementtype(i64 (i64)) @outer, i32 1, i32 0, i64 %x, i32 0, i32 0) ["gc-live"(ptr addrspace(1) %object), "deopt"(i64 %x)]
  %value = call i64 @llvm.experimental.gc.result.i64(token %token)
  %moved = call ptr addrspace(1) @llvm.experimental.gc.relocate.p1(token %token, i32 0, i32 0)
  %word = load i64, ptr addrspace(1) %moved
  %sum = add i64 %value, %word
  ret i64 %sum
}
