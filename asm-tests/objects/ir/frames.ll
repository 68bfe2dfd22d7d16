; Frames of unusual shape: dynamic allocas and realignment (unknown stack size), large frames, none at all.
declare i64 @llvm.experimental.patchpoint.i64(i64, i32, ptr, i32, ...)
declare void @llvm.experimental.patchpoint.void(i64, i32, ptr, i32, ...)
declare void @llvm.experimental.stackmap(i64, i32, ...)

; Unknown stack size: a dynamic alloca.
define i64 @frame_dynamic(i64 %a, i64 %b) uwtable {
  %n = and i64 %a, 63
  %n1 = add i64 %n, 1
  %p = alloca i64, i64 %n1
  %last = getelementptr i64, ptr %p, i64 %n
  store volatile i64 %b, ptr %last
  %r = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 400, i32 32, ptr null, i32 1, i64 %a, ptr %p, ptr %last)
  %v = load volatile i64, ptr %last
  %s = add i64 %r, %v
  ret i64 %s
}

; Unknown stack size: a realigned frame.
define i64 @frame_realigned(i64 %a, i64 %b) uwtable {
  %p = alloca [8 x i64], align 64
  store volatile i64 %b, ptr %p
  %r = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 401, i32 32, ptr null, i32 1, i64 %a, ptr %p, i64 %b)
  %v = load volatile i64, ptr %p
  %s = sub i64 %r, %v
  ret i64 %s
}

; A frame with offsets of more than 8 bits.
define i64 @frame_large(i64 %a, i64 %b) uwtable {
  %p = alloca [200 x i64]
  %q = getelementptr [200 x i64], ptr %p, i64 0, i64 199
  store volatile i64 %b, ptr %q
  %x = alloca i64
  store volatile i64 %a, ptr %x
  %r = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 402, i32 32, ptr null, i32 1, i64 %a, ptr %p, ptr %x)
  %v = load volatile i64, ptr %q
  %w = load volatile i64, ptr %x
  %s = add i64 %r, %v
  %t = add i64 %s, %w
  ret i64 %t
}

; Every callee-saved register is in use.
define i64 @frame_callee_saved(i64 %a, i64 %b) uwtable {
  %v1 = mul i64 %a, 3
  %v2 = mul i64 %b, 5
  %v3 = xor i64 %a, %b
  %v4 = sub i64 %b, %a
  %v5 = add i64 %v1, %v2
  %r = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 403, i32 24, ptr null, i32 2, i64 %a, i64 %b, i64 %v1, i64 %v5)
  %s1 = mul i64 %r, %v1
  %s2 = add i64 %s1, %v2
  %s3 = mul i64 %s2, %v3
  %s4 = add i64 %s3, %v4
  %s5 = mul i64 %s4, %v5
  %s6 = add i64 %s5, %a
  ret i64 %s6
}
