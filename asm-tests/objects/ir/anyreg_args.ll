; anyregcc patchpoints with 0 to 12 arguments, each of them computed before the site and, from the second on,
; used after it, so that a clobbered register shows in the result.
declare i64 @llvm.experimental.patchpoint.i64(i64, i32, ptr, i32, ...)
declare void @llvm.experimental.patchpoint.void(i64, i32, ptr, i32, ...)
declare void @llvm.experimental.stackmap(i64, i32, ...)

define i64 @anyreg_args_0(i64 %a, i64 %b) uwtable {
  %r = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 100, i32 32, ptr null, i32 0)
  %x = xor i64 %r, %b
  ret i64 %x
}

define i64 @anyreg_args_1(i64 %a, i64 %b) uwtable {
  %v1 = add i64 %a, 7919
  %r = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 101, i32 32, ptr null, i32 1, i64 %v1)
  %x = xor i64 %r, %b
  ret i64 %x
}

define i64 @anyreg_args_2(i64 %a, i64 %b) uwtable {
  %v1 = add i64 %a, 7919
  %v2 = sub i64 %b, 209458
  %r = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 102, i32 32, ptr null, i32 2, i64 %v1, i64 %v2)
  %m2 = mul i64 %r, 31
  %s2 = add i64 %m2, %v2
  %x = xor i64 %s2, %b
  ret i64 %x
}

define i64 @anyreg_args_3(i64 %a, i64 %b) uwtable {
  %v1 = add i64 %a, 7919
  %v2 = sub i64 %b, 209458
  %v3 = xor i64 %a, 3899127
  %r = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 103, i32 32, ptr null, i32 3, i64 %v1, i64 %v2, i64 %v3)
  %m2 = mul i64 %r, 31
  %s2 = add i64 %m2, %v2
  %m3 = mul i64 %s2, 31
  %s3 = add i64 %m3, %v3
  %x = xor i64 %s3, %b
  ret i64 %x
}

define i64 @anyreg_args_4(i64 %a, i64 %b) uwtable {
  %v1 = add i64 %a, 7919
  %v2 = sub i64 %b, 209458
  %v3 = xor i64 %a, 3899127
  %v4 = add i64 %a, 31676
  %r = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 104, i32 32, ptr null, i32 4, i64 %v1, i64 %v2, i64 %v3, i64 %v4)
  %m2 = mul i64 %r, 31
  %s2 = add i64 %m2, %v2
  %m3 = mul i64 %s2, 31
  %s3 = add i64 %m3, %v3
  %m4 = mul i64 %s3, 31
  %s4 = add i64 %m4, %v4
  %x = xor i64 %s4, %b
  ret i64 %x
}

define i64 @anyreg_args_5(i64 %a, i64 %b) uwtable {
  %v1 = add i64 %a, 7919
  %v2 = sub i64 %b, 209458
  %v3 = xor i64 %a, 3899127
  %v4 = add i64 %a, 31676
  %v5 = sub i64 %b, 523645
  %r = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 105, i32 32, ptr null, i32 5, i64 %v1, i64 %v2, i64 %v3, i64 %v4, i64 %v5)
  %m2 = mul i64 %r, 31
  %s2 = add i64 %m2, %v2
  %m3 = mul i64 %s2, 31
  %s3 = add i64 %m3, %v3
  %m4 = mul i64 %s3, 31
  %s4 = add i64 %m4, %v4
  %m5 = mul i64 %s4, 31
  %s5 = add i64 %m5, %v5
  %x = xor i64 %s5, %b
  ret i64 %x
}

define i64 @anyreg_args_6(i64 %a, i64 %b) uwtable {
  %v1 = add i64 %a, 7919
  %v2 = sub i64 %b, 209458
  %v3 = xor i64 %a, 3899127
  %v4 = add i64 %a, 31676
  %v5 = sub i64 %b, 523645
  %v6 = xor i64 %a, 7798254
  %r = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 106, i32 32, ptr null, i32 6, i64 %v1, i64 %v2, i64 %v3, i64 %v4, i64 %v5, i64 %v6)
  %m2 = mul i64 %r, 31
  %s2 = add i64 %m2, %v2
  %m3 = mul i64 %s2, 31
  %s3 = add i64 %m3, %v3
  %m4 = mul i64 %s3, 31
  %s4 = add i64 %m4, %v4
  %m5 = mul i64 %s4, 31
  %s5 = add i64 %m5, %v5
  %m6 = mul i64 %s5, 31
  %s6 = add i64 %m6, %v6
  %x = xor i64 %s6, %b
  ret i64 %x
}

define i64 @anyreg_args_7(i64 %a, i64 %b) uwtable {
  %v1 = add i64 %a, 7919
  %v2 = sub i64 %b, 209458
  %v3 = xor i64 %a, 3899127
  %v4 = add i64 %a, 31676
  %v5 = sub i64 %b, 523645
  %v6 = xor i64 %a, 7798254
  %v7 = add i64 %a, 55433
  %r = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 107, i32 32, ptr null, i32 7, i64 %v1, i64 %v2, i64 %v3, i64 %v4, i64 %v5, i64 %v6, i64 %v7)
  %m2 = mul i64 %r, 31
  %s2 = add i64 %m2, %v2
  %m3 = mul i64 %s2, 31
  %s3 = add i64 %m3, %v3
  %m4 = mul i64 %s3, 31
  %s4 = add i64 %m4, %v4
  %m5 = mul i64 %s4, 31
  %s5 = add i64 %m5, %v5
  %m6 = mul i64 %s5, 31
  %s6 = add i64 %m6, %v6
  %m7 = mul i64 %s6, 31
  %s7 = add i64 %m7, %v7
  %x = xor i64 %s7, %b
  ret i64 %x
}

define i64 @anyreg_args_8(i64 %a, i64 %b) uwtable {
  %v1 = add i64 %a, 7919
  %v2 = sub i64 %b, 209458
  %v3 = xor i64 %a, 3899127
  %v4 = add i64 %a, 31676
  %v5 = sub i64 %b, 523645
  %v6 = xor i64 %a, 7798254
  %v7 = add i64 %a, 55433
  %v8 = sub i64 %b, 837832
  %r = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 108, i32 32, ptr null, i32 8, i64 %v1, i64 %v2, i64 %v3, i64 %v4, i64 %v5, i64 %v6, i64 %v7, i64 %v8)
  %m2 = mul i64 %r, 31
  %s2 = add i64 %m2, %v2
  %m3 = mul i64 %s2, 31
  %s3 = add i64 %m3, %v3
  %m4 = mul i64 %s3, 31
  %s4 = add i64 %m4, %v4
  %m5 = mul i64 %s4, 31
  %s5 = add i64 %m5, %v5
  %m6 = mul i64 %s5, 31
  %s6 = add i64 %m6, %v6
  %m7 = mul i64 %s6, 31
  %s7 = add i64 %m7, %v7
  %m8 = mul i64 %s7, 31
  %s8 = add i64 %m8, %v8
  %x = xor i64 %s8, %b
  ret i64 %x
}

define i64 @anyreg_args_9(i64 %a, i64 %b) uwtable {
  %v1 = add i64 %a, 7919
  %v2 = sub i64 %b, 209458
  %v3 = xor i64 %a, 3899127
  %v4 = add i64 %a, 31676
  %v5 = sub i64 %b, 523645
  %v6 = xor i64 %a, 7798254
  %v7 = add i64 %a, 55433
  %v8 = sub i64 %b, 837832
  %v9 = xor i64 %a, 11697381
  %r = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 109, i32 32, ptr null, i32 9, i64 %v1, i64 %v2, i64 %v3, i64 %v4, i64 %v5, i64 %v6, i64 %v7, i64 %v8, i64 %v9)
  %m2 = mul i64 %r, 31
  %s2 = add i64 %m2, %v2
  %m3 = mul i64 %s2, 31
  %s3 = add i64 %m3, %v3
  %m4 = mul i64 %s3, 31
  %s4 = add i64 %m4, %v4
  %m5 = mul i64 %s4, 31
  %s5 = add i64 %m5, %v5
  %m6 = mul i64 %s5, 31
  %s6 = add i64 %m6, %v6
  %m7 = mul i64 %s6, 31
  %s7 = add i64 %m7, %v7
  %m8 = mul i64 %s7, 31
  %s8 = add i64 %m8, %v8
  %m9 = mul i64 %s8, 31
  %s9 = add i64 %m9, %v9
  %x = xor i64 %s9, %b
  ret i64 %x
}

define i64 @anyreg_args_10(i64 %a, i64 %b) uwtable {
  %v1 = add i64 %a, 7919
  %v2 = sub i64 %b, 209458
  %v3 = xor i64 %a, 3899127
  %v4 = add i64 %a, 31676
  %v5 = sub i64 %b, 523645
  %v6 = xor i64 %a, 7798254
  %v7 = add i64 %a, 55433
  %v8 = sub i64 %b, 837832
  %v9 = xor i64 %a, 11697381
  %v10 = add i64 %a, 79190
  %r = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 110, i32 32, ptr null, i32 10, i64 %v1, i64 %v2, i64 %v3, i64 %v4, i64 %v5, i64 %v6, i64 %v7, i64 %v8, i64 %v9, i64 %v10)
  %m2 = mul i64 %r, 31
  %s2 = add i64 %m2, %v2
  %m3 = mul i64 %s2, 31
  %s3 = add i64 %m3, %v3
  %m4 = mul i64 %s3, 31
  %s4 = add i64 %m4, %v4
  %m5 = mul i64 %s4, 31
  %s5 = add i64 %m5, %v5
  %m6 = mul i64 %s5, 31
  %s6 = add i64 %m6, %v6
  %m7 = mul i64 %s6, 31
  %s7 = add i64 %m7, %v7
  %m8 = mul i64 %s7, 31
  %s8 = add i64 %m8, %v8
  %m9 = mul i64 %s8, 31
  %s9 = add i64 %m9, %v9
  %m10 = mul i64 %s9, 31
  %s10 = add i64 %m10, %v10
  %x = xor i64 %s10, %b
  ret i64 %x
}

define i64 @anyreg_args_11(i64 %a, i64 %b) uwtable {
  %v1 = add i64 %a, 7919
  %v2 = sub i64 %b, 209458
  %v3 = xor i64 %a, 3899127
  %v4 = add i64 %a, 31676
  %v5 = sub i64 %b, 523645
  %v6 = xor i64 %a, 7798254
  %v7 = add i64 %a, 55433
  %v8 = sub i64 %b, 837832
  %v9 = xor i64 %a, 11697381
  %v10 = add i64 %a, 79190
  %v11 = sub i64 %b, 1152019
  %r = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 111, i32 32, ptr null, i32 11, i64 %v1, i64 %v2, i64 %v3, i64 %v4, i64 %v5, i64 %v6, i64 %v7, i64 %v8, i64 %v9, i64 %v10, i64 %v11)
  %m2 = mul i64 %r, 31
  %s2 = add i64 %m2, %v2
  %m3 = mul i64 %s2, 31
  %s3 = add i64 %m3, %v3
  %m4 = mul i64 %s3, 31
  %s4 = add i64 %m4, %v4
  %m5 = mul i64 %s4, 31
  %s5 = add i64 %m5, %v5
  %m6 = mul i64 %s5, 31
  %s6 = add i64 %m6, %v6
  %m7 = mul i64 %s6, 31
  %s7 = add i64 %m7, %v7
  %m8 = mul i64 %s7, 31
  %s8 = add i64 %m8, %v8
  %m9 = mul i64 %s8, 31
  %s9 = add i64 %m9, %v9
  %m10 = mul i64 %s9, 31
  %s10 = add i64 %m10, %v10
  %m11 = mul i64 %s10, 31
  %s11 = add i64 %m11, %v11
  %x = xor i64 %s11, %b
  ret i64 %x
}

define i64 @anyreg_args_12(i64 %a, i64 %b) uwtable {
  %v1 = add i64 %a, 7919
  %v2 = sub i64 %b, 209458
  %v3 = xor i64 %a, 3899127
  %v4 = add i64 %a, 31676
  %v5 = sub i64 %b, 523645
  %v6 = xor i64 %a, 7798254
  %v7 = add i64 %a, 55433
  %v8 = sub i64 %b, 837832
  %v9 = xor i64 %a, 11697381
  %v10 = add i64 %a, 79190
  %v11 = sub i64 %b, 1152019
  %v12 = xor i64 %a, 15596508
  %r = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 112, i32 32, ptr null, i32 12, i64 %v1, i64 %v2, i64 %v3, i64 %v4, i64 %v5, i64 %v6, i64 %v7, i64 %v8, i64 %v9, i64 %v10, i64 %v11, i64 %v12)
  %m2 = mul i64 %r, 31
  %s2 = add i64 %m2, %v2
  %m3 = mul i64 %s2, 31
  %s3 = add i64 %m3, %v3
  %m4 = mul i64 %s3, 31
  %s4 = add i64 %m4, %v4
  %m5 = mul i64 %s4, 31
  %s5 = add i64 %m5, %v5
  %m6 = mul i64 %s5, 31
  %s6 = add i64 %m6, %v6
  %m7 = mul i64 %s6, 31
  %s7 = add i64 %m7, %v7
  %m8 = mul i64 %s7, 31
  %s8 = add i64 %m8, %v8
  %m9 = mul i64 %s8, 31
  %s9 = add i64 %m9, %v9
  %m10 = mul i64 %s9, 31
  %s10 = add i64 %m10, %v10
  %m11 = mul i64 %s10, 31
  %s11 = add i64 %m11, %v11
  %m12 = mul i64 %s11, 31
  %s12 = add i64 %m12, %v12
  %x = xor i64 %s12, %b
  ret i64 %x
}
