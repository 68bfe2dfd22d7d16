; llc: -enable-patchpoint-liveness=false (the pass crashes in llc 14 and 19 where a call or floating-point code follows a site)
; Patchpoints that LLVM filled with a call. callee_ID(x, ..) returns x + ID, as the patched site must.
declare i64 @llvm.experimental.patchpoint.i64(i64, i32, ptr, i32, ...)
declare void @llvm.experimental.patchpoint.void(i64, i32, ptr, i32, ...)
declare void @llvm.experimental.stackmap(i64, i32, ...)
declare i64 @callee_600(i64, i64)
declare i64 @callee_601(i64)
declare void @callee_602(i64)
declare i64 @ext_add(i64, i64)

define i64 @call_symbol(i64 %a, i64 %b) uwtable {
  %r = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 600, i32 32, ptr @callee_600, i32 2, i64 %a, i64 %b)
  %s = mul i64 %r, %b
  ret i64 %s
}

; Exactly the 13 bytes of the call.
define i64 @call_symbol_tight(i64 %a, i64 %b) uwtable {
  %r = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 601, i32 13, ptr @callee_601, i32 1, i64 %a)
  %s = sub i64 %r, %b
  ret i64 %s
}

define i64 @call_symbol_void(i64 %a, i64 %b) uwtable {
  call void (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.void(i64 602, i32 24, ptr @callee_602, i32 1, i64 %a)
  %s = sub i64 %a, %b
  ret i64 %s
}

; A constant target, which is nobody's address: must be patched before it runs.
define i64 @call_constant(i64 %a, i64 %b) uwtable {
  %r = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 603, i32 24, ptr inttoptr (i64 20015998341120 to ptr), i32 2, i64 %a, i64 %b)
  %s = add i64 %r, %b
  ret i64 %s
}

; The same with anyregcc.
define i64 @call_constant_any(i64 %a, i64 %b) uwtable {
  %r = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 604, i32 24, ptr inttoptr (i64 20015998341120 to ptr), i32 2, i64 %a, i64 %b)
  %s = add i64 %r, %b
  ret i64 %s
}

; Ordinary calls around it.
define i64 @call_around(i64 %a, i64 %b) uwtable {
  %x = call i64 @ext_add(i64 %a, i64 %b)
  %r = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 605, i32 32, ptr null, i32 2, i64 %x, i64 %b, i64 %a)
  %y = call i64 @ext_add(i64 %r, i64 %x)
  %s = mul i64 %y, %a
  ret i64 %s
}

; A function of the same object that has a site of its own.
define internal i64 @callee_inner(i64 %a) noinline uwtable {
  %r = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 606, i32 32, ptr null, i32 1, i64 %a)
  ret i64 %r
}
define i64 @call_inner(i64 %a, i64 %b) uwtable {
  %x = call i64 @callee_inner(i64 %a)
  %y = call i64 @callee_inner(i64 %b)
  %z = mul i64 %x, %y
  ret i64 %z
}

; A patchpoint that no bytes are reserved for.
define i64 @call_nothing(i64 %a, i64 %b) uwtable {
  call void (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.void(i64 607, i32 0, ptr null, i32 0, i64 %a, i64 %b)
  %s = sub i64 %a, %b
  ret i64 %s
}
