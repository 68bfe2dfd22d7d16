; llc: -enable-patchpoint-liveness=false (the pass crashes in llc 14 and 19 where a call or floating-point code follows a site)
; More live values than registers: some are spilled (Indirect). At O0 the fast register allocator wants all in registers.
; levels: 2
declare i64 @llvm.experimental.patchpoint.i64(i64, i32, ptr, i32, ...)
declare void @llvm.experimental.patchpoint.void(i64, i32, ptr, i32, ...)
declare void @llvm.experimental.stackmap(i64, i32, ...)


define i64 @live_spill(i64 %a, i64 %b) uwtable {
  %v1 = mul i64 %b, 7919
  %v2 = sub i64 %a, 209458
  %v3 = add i64 %b, 46457589
  %v4 = xor i64 %a, 5198836
  %v5 = mul i64 %b, 39595
  %v6 = sub i64 %a, 628374
  %v7 = add i64 %b, 108401041
  %v8 = xor i64 %a, 10397672
  %v9 = mul i64 %b, 71271
  %v10 = sub i64 %a, 1047290
  %v11 = add i64 %b, 170344493
  %v12 = xor i64 %a, 15596508
  %v13 = mul i64 %b, 102947
  %v14 = sub i64 %a, 1466206
  %v15 = add i64 %b, 232287945
  %v16 = xor i64 %a, 20795344
  %v17 = mul i64 %b, 134623
  %v18 = sub i64 %a, 1885122
  %v19 = add i64 %b, 294231397
  %v20 = xor i64 %a, 25994180
  %v21 = mul i64 %b, 166299
  %v22 = sub i64 %a, 2304038
  %v23 = add i64 %b, 356174849
  %v24 = xor i64 %a, 31193016
  %r = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 307, i32 32, ptr null, i32 1, i64 %a, i64 %v1, i64 %v2, i64 %v3, i64 %v4, i64 %v5, i64 %v6, i64 %v7, i64 %v8, i64 %v9, i64 %v10, i64 %v11, i64 %v12, i64 %v13, i64 %v14, i64 %v15, i64 %v16, i64 %v17, i64 %v18, i64 %v19, i64 %v20, i64 %v21, i64 %v22, i64 %v23, i64 %v24)
  %m1 = mul i64 %r, 31
  %s1 = add i64 %m1, %v1
  %m2 = mul i64 %s1, 31
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
  %m13 = mul i64 %s12, 31
  %s13 = add i64 %m13, %v13
  %m14 = mul i64 %s13, 31
  %s14 = add i64 %m14, %v14
  %m15 = mul i64 %s14, 31
  %s15 = add i64 %m15, %v15
  %m16 = mul i64 %s15, 31
  %s16 = add i64 %m16, %v16
  %m17 = mul i64 %s16, 31
  %s17 = add i64 %m17, %v17
  %m18 = mul i64 %s17, 31
  %s18 = add i64 %m18, %v18
  %m19 = mul i64 %s18, 31
  %s19 = add i64 %m19, %v19
  %m20 = mul i64 %s19, 31
  %s20 = add i64 %m20, %v20
  %m21 = mul i64 %s20, 31
  %s21 = add i64 %m21, %v21
  %m22 = mul i64 %s21, 31
  %s22 = add i64 %m22, %v22
  %m23 = mul i64 %s22, 31
  %s23 = add i64 %m23, %v23
  %m24 = mul i64 %s23, 31
  %s24 = add i64 %m24, %v24
  ret i64 %s24
}

define i64 @live_spill_c(i64 %a, i64 %b) uwtable {
  %v1 = mul i64 %b, 7919
  %v2 = sub i64 %a, 209458
  %v3 = add i64 %b, 46457589
  %v4 = xor i64 %a, 5198836
  %v5 = mul i64 %b, 39595
  %v6 = sub i64 %a, 628374
  %v7 = add i64 %b, 108401041
  %v8 = xor i64 %a, 10397672
  %v9 = mul i64 %b, 71271
  %v10 = sub i64 %a, 1047290
  %v11 = add i64 %b, 170344493
  %v12 = xor i64 %a, 15596508
  %v13 = mul i64 %b, 102947
  %v14 = sub i64 %a, 1466206
  %v15 = add i64 %b, 232287945
  %v16 = xor i64 %a, 20795344
  %v17 = mul i64 %b, 134623
  %v18 = sub i64 %a, 1885122
  %v19 = add i64 %b, 294231397
  %v20 = xor i64 %a, 25994180
  %v21 = mul i64 %b, 166299
  %v22 = sub i64 %a, 2304038
  %v23 = add i64 %b, 356174849
  %v24 = xor i64 %a, 31193016
  %r = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 308, i32 24, ptr null, i32 1, i64 %a, i64 %v1, i64 %v2, i64 %v3, i64 %v4, i64 %v5, i64 %v6, i64 %v7, i64 %v8, i64 %v9, i64 %v10, i64 %v11, i64 %v12, i64 %v13, i64 %v14, i64 %v15, i64 %v16, i64 %v17, i64 %v18, i64 %v19, i64 %v20, i64 %v21, i64 %v22, i64 %v23, i64 %v24)
  %m1 = mul i64 %r, 31
  %s1 = add i64 %m1, %v1
  %m2 = mul i64 %s1, 31
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
  %m13 = mul i64 %s12, 31
  %s13 = add i64 %m13, %v13
  %m14 = mul i64 %s13, 31
  %s14 = add i64 %m14, %v14
  %m15 = mul i64 %s14, 31
  %s15 = add i64 %m15, %v15
  %m16 = mul i64 %s15, 31
  %s16 = add i64 %m16, %v16
  %m17 = mul i64 %s16, 31
  %s17 = add i64 %m17, %v17
  %m18 = mul i64 %s17, 31
  %s18 = add i64 %m18, %v18
  %m19 = mul i64 %s18, 31
  %s19 = add i64 %m19, %v19
  %m20 = mul i64 %s19, 31
  %s20 = add i64 %m20, %v20
  %m21 = mul i64 %s20, 31
  %s21 = add i64 %m21, %v21
  %m22 = mul i64 %s21, 31
  %s22 = add i64 %m22, %v22
  %m23 = mul i64 %s22, 31
  %s23 = add i64 %m23, %v23
  %m24 = mul i64 %s23, 31
  %s24 = add i64 %m24, %v24
  ret i64 %s24
}

; Vectors and doubles that are spilled around a C call.
define i64 @live_spill_vector(i64 %a, i64 %b) uwtable {
  %v0 = insertelement <2 x i64> zeroinitializer, i64 %a, i32 0
  %v1 = insertelement <2 x i64> %v0, i64 %b, i32 1
  %f = sitofp i64 %a to float
  %r = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 309, i32 24, ptr null, i32 2, i64 %a, i64 %b, <2 x i64> %v1, float %f)
  %w = add <2 x i64> %v1, <i64 3, i64 5>
  %e0 = extractelement <2 x i64> %w, i32 0
  %e1 = extractelement <2 x i64> %w, i32 1
  %fb = bitcast float %f to i32
  %fz = zext i32 %fb to i64
  %s1 = add i64 %r, %e0
  %s2 = xor i64 %s1, %e1
  %s3 = add i64 %s2, %fz
  ret i64 %s3
}
