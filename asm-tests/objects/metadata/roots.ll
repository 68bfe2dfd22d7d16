; Two functions that keep references in their frames while they call: `outer` calls `inner`, which calls `collect`.

declare void @collect()
declare token @llvm.experimental.gc.statepoint.p0(i64, i32, ptr, i32, i32, ...)
declare i64 @llvm.experimental.gc.result.i64(token)
declare ptr addrspace(1) @llvm.experimental.gc.relocate.p1(token, i32, i32)

; 1000 times the first word of `object`, after the call.
define i64 @inner(ptr addrspace(1) %object) noinline gc "statepoint-example" {
  %token = call token (i64, i32, ptr, i32, i32, ...) @llvm.experimental.gc.statepoint.p0(i64 1, i32 0, ptr elementtype(void ()) @collect, i32 0, i32 0, i32 0, i32 0) ["gc-live"(ptr addrspace(1) %object)]
  %now = call ptr addrspace(1) @llvm.experimental.gc.relocate.p1(token %token, i32 0, i32 0)
  %word = load i64, ptr addrspace(1) %now
  %result = mul i64 %word, 1000
  ret i64 %result
}

; The first word of `object`, 10 times its word `n`, 100 times the first word of `other`, and what `inner` makes of `other`.
define i64 @outer(ptr addrspace(1) %object, i64 %n, ptr addrspace(1) %other) gc "statepoint-example" {
  %derived = getelementptr i64, ptr addrspace(1) %object, i64 %n
  %token = call token (i64, i32, ptr, i32, i32, ...) @llvm.experimental.gc.statepoint.p0(i64 2, i32 0, ptr elementtype(i64 (ptr addrspace(1))) @inner, i32 1, i32 0, ptr addrspace(1) %other, i32 0, i32 0) ["gc-live"(ptr addrspace(1) %object, ptr addrspace(1) %derived, ptr addrspace(1) %other)]
  %inner = call i64 @llvm.experimental.gc.result.i64(token %token)
  %object.now = call ptr addrspace(1) @llvm.experimental.gc.relocate.p1(token %token, i32 0, i32 0)
  %derived.now = call ptr addrspace(1) @llvm.experimental.gc.relocate.p1(token %token, i32 0, i32 1)
  %other.now = call ptr addrspace(1) @llvm.experimental.gc.relocate.p1(token %token, i32 2, i32 2)
  %first = load i64, ptr addrspace(1) %object.now
  %word = load i64, ptr addrspace(1) %derived.now
  %third = load i64, ptr addrspace(1) %other.now
  %ten = mul i64 %word, 10
  %hundred = mul i64 %third, 100
  %sum = add i64 %first, %ten
  %more = add i64 %sum, %hundred
  %result = add i64 %more, %inner
  ret i64 %result
}
