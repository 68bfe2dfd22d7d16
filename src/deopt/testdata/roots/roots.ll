; The objects of compiled_tests/roots.rs, made by make.sh for the architectures that have statepoints: LLVM 19 crashes on
; them for PowerPC and SystemZ.
;
;   ID  function  what                                                                     reserved
;    1  safepoint where the walk begins                                                    48 bytes
;  700  collects  a statepoint that calls `safepoint`, with a reference, one derived from it, and another

declare void @llvm.experimental.patchpoint.void(i64, i32, ptr, i32, ...)
declare token @llvm.experimental.gc.statepoint.p0(i64, i32, ptr, i32, i32, ...)
declare ptr addrspace(1) @llvm.experimental.gc.relocate.p1(token, i32, i32)

define internal void @id() noinline uwtable {
  call void asm sideeffect "", "~{memory}"()
  ret void
}

define void @safepoint() noinline uwtable {
  call void @id()
  call void (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.void(i64 1, i32 48, ptr null, i32 0)
  ret void
}

; The first word of `object`, 10 times its word `n`, and 100 times the first word of `other`, all after the call.
define i64 @collects(ptr addrspace(1) %object, i64 %n, ptr addrspace(1) %other) uwtable gc "statepoint-example" {
  %derived = getelementptr i64, ptr addrspace(1) %object, i64 %n
  %token = call token (i64, i32, ptr, i32, i32, ...) @llvm.experimental.gc.statepoint.p0(i64 700, i32 0, ptr elementtype(void ()) @safepoint, i32 0, i32 0, i32 0, i32 0) ["gc-live"(ptr addrspace(1) %object, ptr addrspace(1) %derived, ptr addrspace(1) %other)]
  %object.now = call ptr addrspace(1) @llvm.experimental.gc.relocate.p1(token %token, i32 0, i32 0)
  %derived.now = call ptr addrspace(1) @llvm.experimental.gc.relocate.p1(token %token, i32 0, i32 1)
  %other.now = call ptr addrspace(1) @llvm.experimental.gc.relocate.p1(token %token, i32 2, i32 2)
  %first = load i64, ptr addrspace(1) %object.now
  %word = load i64, ptr addrspace(1) %derived.now
  %third = load i64, ptr addrspace(1) %other.now
  %ten = mul i64 %word, 10
  %hundred = mul i64 %third, 100
  %sum = add i64 %first, %ten
  %result = add i64 %sum, %hundred
  ret i64 %result
}
