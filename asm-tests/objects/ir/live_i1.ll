; Narrow integers as live values: llc 14 cannot select i1.
; only: 19
declare i64 @llvm.experimental.patchpoint.i64(i64, i32, ptr, i32, ...)
declare void @llvm.experimental.patchpoint.void(i64, i32, ptr, i32, ...)
declare void @llvm.experimental.stackmap(i64, i32, ...)

define i64 @live_narrow(i64 %a, i64 %b) uwtable {
  %i1 = icmp slt i64 %a, %b
  %i8 = trunc i64 %a to i8
  %i16 = trunc i64 %b to i16
  %i32 = trunc i64 %a to i32
  %r = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 302, i32 32, ptr null, i32 1, i64 %a, i1 %i1, i8 %i8, i16 %i16, i32 %i32)
  %w1 = zext i1 %i1 to i64
  %w8 = sext i8 %i8 to i64
  %w16 = sext i16 %i16 to i64
  %w32 = zext i32 %i32 to i64
  %s1 = add i64 %r, %w1
  %s2 = xor i64 %s1, %w8
  %s3 = sub i64 %s2, %w16
  %s4 = add i64 %s3, %w32
  ret i64 %s4
}

