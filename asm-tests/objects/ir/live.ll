; llc: -enable-patchpoint-liveness=false (the pass crashes in llc 14 and 19 where a call or floating-point code follows a site)
; Every kind of location: registers, stack slots (Direct), spills (Indirect), constants small and large.
declare i64 @llvm.experimental.patchpoint.i64(i64, i32, ptr, i32, ...)
declare void @llvm.experimental.patchpoint.void(i64, i32, ptr, i32, ...)
declare void @llvm.experimental.stackmap(i64, i32, ...)

; Constants: small, negative, zero-extended -1, larger than 32 bits, the extremes, null.
define i64 @live_constants(i64 %a) uwtable {
  %r = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 300, i32 32, ptr null, i32 1, i64 %a, i64 5, i32 -7, i64 -1, i32 -1, i64 4294967295, i64 1311768467463790320, i64 -9223372036854775808, i64 9223372036854775807, i64 2147483648, i64 -2147483649, ptr null, i1 true, i8 -128, i16 32767)
  ret i64 %r
}

; Undefined values.
define i64 @live_undef(i64 %a) uwtable {
  %r = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 301, i32 24, ptr null, i32 1, i64 %a, i64 undef, i32 undef)
  ret i64 %r
}

; Stack slots whose address is the live value, of several sizes.
define i64 @live_alloca(i64 %a, i64 %b) uwtable {
  %p = alloca i64
  %q = alloca [4 x i32], align 16
  store volatile i64 %a, ptr %p
  store volatile i32 77, ptr %q
  %r = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 303, i32 32, ptr null, i32 1, i64 %b, ptr %p, ptr %q)
  %v = load volatile i64, ptr %p
  %w = load volatile i32, ptr %q
  %x = zext i32 %w to i64
  %s = add i64 %r, %v
  %t = add i64 %s, %x
  ret i64 %t
}

; float, double and vectors.
define i64 @live_float(i64 %a, i64 %b) uwtable {
  %a32 = trunc i64 %a to i32
  %b32 = trunc i64 %b to i32
  %f = sitofp i32 %a32 to float
  %d = sitofp i32 %b32 to double
  %v0 = insertelement <4 x i32> zeroinitializer, i32 %a32, i32 0
  %v1 = insertelement <4 x i32> %v0, i32 %b32, i32 3
  %u0 = insertelement <2 x double> zeroinitializer, double %d, i32 1
  %r = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 304, i32 32, ptr null, i32 1, i64 %a, float %f, double %d, <4 x i32> %v1, <2 x double> %u0)
  %fb = bitcast float %f to i32
  %db = bitcast double %d to i64
  %e3 = extractelement <4 x i32> %v1, i32 3
  %u1 = extractelement <2 x double> %u0, i32 1
  %ub = bitcast double %u1 to i64
  %fz = zext i32 %fb to i64
  %e3z = zext i32 %e3 to i64
  %s1 = add i64 %r, %fz
  %s2 = xor i64 %s1, %db
  %s3 = add i64 %s2, %e3z
  %s4 = sub i64 %s3, %ub
  ret i64 %s4
}

; 256-bit vectors: needs a machine with AVX to run.
define i64 @live_avx(i64 %a, i64 %b) uwtable "target-features"="+avx" {
  %v0 = insertelement <4 x i64> zeroinitializer, i64 %a, i32 0
  %v1 = insertelement <4 x i64> %v0, i64 %b, i32 3
  %r = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 305, i32 32, ptr null, i32 1, i64 %a, <4 x i64> %v1)
  %e0 = extractelement <4 x i64> %v1, i32 0
  %e3 = extractelement <4 x i64> %v1, i32 3
  %s1 = add i64 %r, %e0
  %s2 = xor i64 %s1, %e3
  ret i64 %s2
}

; Floating-point constants and values that a C call would clobber.
define i64 @live_float_c(i64 %a, i64 %b) uwtable {
  %f = sitofp i64 %a to double
  %g = fmul double %f, 2.5
  %r = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 306, i32 24, ptr null, i32 1, i64 %b, double %f, double %g, double 1.0, float 0.5)
  %h = fadd double %f, %g
  %i = bitcast double %h to i64
  %s = xor i64 %i, %r
  ret i64 %s
}

