; Stackmaps: the shadow holds real instructions of the function. Left alone, the functions do nothing special.
declare i64 @llvm.experimental.patchpoint.i64(i64, i32, ptr, i32, ...)
declare void @llvm.experimental.patchpoint.void(i64, i32, ptr, i32, ...)
declare void @llvm.experimental.stackmap(i64, i32, ...)
declare i64 @ext_add(i64, i64)

; A leaf whose slots may lie in the red zone.
define i64 @shadow_leaf(i64 %a, i64 %b) uwtable {
  %p = alloca i64
  %q = alloca i64
  store volatile i64 %a, ptr %p
  store volatile i64 %b, ptr %q
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 500, i32 16, i64 %a, i64 %b, ptr %p, ptr %q)
  %v = load volatile i64, ptr %p
  %w = load volatile i64, ptr %q
  %m = mul i64 %v, %w
  ret i64 %m
}

; A shadow of no bytes.
define i64 @shadow_zero(i64 %a, i64 %b) uwtable {
  %m = mul i64 %a, %b
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 501, i32 0, i64 %a, i64 %m)
  %s = add i64 %m, %a
  ret i64 %s
}

; Just enough for a near jump.
define i64 @shadow_five(i64 %a, i64 %b) uwtable {
  %m = mul i64 %a, %b
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 502, i32 5, i64 %a, i64 %m, i64 1311768467463790320)
  %s = add i64 %m, %a
  ret i64 %s
}

; Longer than the rest of the function: filled with nops, or it holds the return.
define i64 @shadow_long(i64 %a, i64 %b) uwtable {
  %m = xor i64 %a, %b
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 503, i32 32, i64 %m)
  ret i64 %m
}

; Followed by a call.
define i64 @shadow_call(i64 %a, i64 %b) uwtable {
  %m = mul i64 %a, %b
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 504, i32 13, i64 %a, i64 %b, i64 %m)
  %s = call i64 @ext_add(i64 %m, i64 %a)
  %t = add i64 %s, %b
  ret i64 %t
}

; In a loop, with a floating-point accumulator.
define i64 @shadow_loop(i64 %n, i64 %b) uwtable {
entry:
  %count = and i64 %n, 255
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i1, %loop ]
  %acc = phi double [ 1.0, %entry ], [ %acc1, %loop ]
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 505, i32 12, i64 %i, double %acc, i64 %b)
  %f = sitofp i64 %i to double
  %acc1 = fadd double %acc, %f
  %i1 = add i64 %i, 1
  %more = icmp ule i64 %i1, %count
  br i1 %more, label %loop, label %done
done:
  %r = bitcast double %acc1 to i64
  %s = xor i64 %r, %b
  ret i64 %s
}

; A patchpoint and a shadow in one function.
define i64 @shadow_and_patchpoint(ptr %obj, i64 %b) uwtable {
  %r = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 506, i32 32, ptr null, i32 1, ptr %obj, i64 %b)
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 507, i32 16, ptr %obj, i64 %b, i64 %r)
  %v = load i64, ptr %obj
  %s = add i64 %r, %v
  %t = mul i64 %s, %b
  ret i64 %t
}
