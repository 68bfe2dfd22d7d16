; llc: -enable-patchpoint-liveness=false (floating-point code)
; Generated: cargo run -p asm-tests --bin gen_ir -- 7
declare i64 @llvm.experimental.patchpoint.i64(i64, i32, ptr, i32, ...)
declare void @llvm.experimental.patchpoint.void(i64, i32, ptr, i32, ...)
declare void @llvm.experimental.stackmap(i64, i32, ...)

define i64 @random_7_0(i64 %a, i64 %b) uwtable {
entry:
  %v1 = alloca i64
  store volatile i64 0, ptr %v1
  %v2 = alloca i64
  store volatile i64 0, ptr %v2
  %v3 = add i64 %a, %a
  %v4 = xor i64 %v3, -1565445730991619507
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 1000, i32 6, i64 -1, i64 %a)
  call void (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.void(i64 1001, i32 27, ptr null, i32 2, i64 %a, i64 %b, i64 -1, i64 %v4, ptr %v1, ptr %v1, i64 %b, i64 %b)
  %v5 = add i64 %a, %a
  %v6 = xor i64 %v5, -7989501964813183863
  %v7 = and i64 %v4, %v4
  %v8 = xor i64 %v7, -2310531837888256407
  %v9 = or i64 %v4, %v8
  %v10 = xor i64 %v9, 296300242293861015
  %v11 = trunc i64 %v4 to i32
  %v12 = mul i64 %b, %b
  %v13 = xor i64 %v12, -5832014332922155529
  call void (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.void(i64 1002, i32 64, ptr null, i32 5, i64 %v4, i64 %v13, i64 %a, i64 %v6, i64 %v13, ptr %v1, ptr %v1, i64 %v4, i64 %v4, i64 4294967295, i64 0, i64 5, i64 -2147483649)
  %v14 = mul i64 17, 31
  %v15 = add i64 %v14, %a
  %v16 = mul i64 %v15, 31
  %v17 = add i64 %v16, %b
  %v18 = mul i64 %v17, 31
  %v19 = add i64 %v18, %v4
  %v20 = mul i64 %v19, 31
  %v21 = add i64 %v20, %v6
  %v22 = mul i64 %v21, 31
  %v23 = add i64 %v22, %v8
  %v24 = mul i64 %v23, 31
  %v25 = add i64 %v24, %v10
  %v26 = mul i64 %v25, 31
  %v27 = add i64 %v26, %v13
  %v28 = zext i32 %v11 to i64
  %v29 = mul i64 %v27, 31
  %v30 = add i64 %v29, %v28
  %v31 = load volatile i64, ptr %v1
  %v32 = mul i64 %v30, 31
  %v33 = add i64 %v32, %v31
  %v34 = load volatile i64, ptr %v2
  %v35 = mul i64 %v33, 31
  %v36 = add i64 %v35, %v34
  ret i64 %v36
}

define i64 @random_7_1(i64 %a, i64 %b) uwtable {
entry:
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 1003, i32 3, i64 %a, i64 %a, i64 %a, i64 5)
  %v1 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1004, i32 32, ptr null, i32 1, i64 %b, i64 %a)
  %v2 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1005, i32 45, ptr null, i32 0, i64 %b, i64 5, i64 %b, i64 5)
  %v3 = or i64 %v1, %v2
  %v4 = xor i64 %v3, 7771144268585444979
  %v5 = and i64 %v2, 65535
  %v6 = sitofp i64 %v5 to float
  %v7 = fmul float %v6, 1.250000e+00
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 1006, i32 4, i64 %a, i64 %b)
  %v8 = mul i64 %v4, %v1
  %v9 = xor i64 %v8, 3770252683692327279
  %v10 = insertelement <2 x i64> zeroinitializer, i64 %v4, i32 1
  %v11 = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1007, i32 34, ptr null, i32 1, i64 %v9)
  %v12 = add i64 %v4, %v1
  %v13 = xor i64 %v12, 1273292171868233553
  %v14 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1008, i32 30, ptr null, i32 1, i64 %v11, i64 %v9, i64 %v2, i64 %v4, i64 %v13, i64 -2147483649)
  %v15 = mul i64 17, 31
  %v16 = add i64 %v15, %a
  %v17 = mul i64 %v16, 31
  %v18 = add i64 %v17, %b
  %v19 = mul i64 %v18, 31
  %v20 = add i64 %v19, %v1
  %v21 = mul i64 %v20, 31
  %v22 = add i64 %v21, %v2
  %v23 = mul i64 %v22, 31
  %v24 = add i64 %v23, %v4
  %v25 = mul i64 %v24, 31
  %v26 = add i64 %v25, %v9
  %v27 = mul i64 %v26, 31
  %v28 = add i64 %v27, %v11
  %v29 = mul i64 %v28, 31
  %v30 = add i64 %v29, %v13
  %v31 = mul i64 %v30, 31
  %v32 = add i64 %v31, %v14
  %v33 = bitcast float %v7 to i32
  %v34 = zext i32 %v33 to i64
  %v35 = mul i64 %v32, 31
  %v36 = add i64 %v35, %v34
  %v37 = extractelement <2 x i64> %v10, i32 1
  %v38 = mul i64 %v36, 31
  %v39 = add i64 %v38, %v37
  ret i64 %v39
}

define i64 @random_7_2(i64 %a, i64 %b) uwtable {
entry:
  %v1 = alloca i64
  store volatile i64 0, ptr %v1
  %v2 = icmp ult i64 %a, %b
  br i1 %v2, label %then1, label %else1
then1:
  %v3 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1009, i32 32, ptr null, i32 2, i64 %a, i64 %b, i64 %a, i64 %a, i64 0)
  br label %join1
else1:
  %v4 = sub i64 %a, %b
  br label %join1
join1:
  %v5 = phi i64 [ %v3, %then1 ], [ %v4, %else1 ]
  %v6 = mul i64 %a, %a
  %v7 = xor i64 %v6, -4556546646904419125
  %v8 = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1010, i32 43, ptr null, i32 4, i64 %b, i64 %b, i64 %b, i64 %b, i64 %v7)
  call anyregcc void (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.void(i64 1011, i32 45, ptr null, i32 1, i64 %b, i64 4294967295)
  %v9 = icmp ult i64 %v5, %v5
  br i1 %v9, label %then8, label %else8
then8:
  %v10 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1012, i32 32, ptr null, i32 2, i64 %v5, i64 %v5, i64 -2147483649, i64 %b, ptr %v1)
  br label %join8
else8:
  %v11 = sub i64 %v5, %v5
  br label %join8
join8:
  %v12 = phi i64 [ %v10, %then8 ], [ %v11, %else8 ]
  %v13 = mul i64 %v5, %v8
  %v14 = xor i64 %v13, 3405800122735895923
  %v15 = trunc i64 %v5 to i8
  %v16 = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1013, i32 48, ptr null, i32 5, i64 %v5, i64 %b, i64 %v7, i64 %v5, i64 %v14, i64 %v5, i64 %v12, i64 -2147483649, i64 5, i64 -1, i64 4294967295, i64 5, i64 4294967295)
  %v17 = mul i64 17, 31
  %v18 = add i64 %v17, %a
  %v19 = mul i64 %v18, 31
  %v20 = add i64 %v19, %b
  %v21 = mul i64 %v20, 31
  %v22 = add i64 %v21, %v5
  %v23 = mul i64 %v22, 31
  %v24 = add i64 %v23, %v7
  %v25 = mul i64 %v24, 31
  %v26 = add i64 %v25, %v8
  %v27 = mul i64 %v26, 31
  %v28 = add i64 %v27, %v12
  %v29 = mul i64 %v28, 31
  %v30 = add i64 %v29, %v14
  %v31 = mul i64 %v30, 31
  %v32 = add i64 %v31, %v16
  %v33 = zext i8 %v15 to i64
  %v34 = mul i64 %v32, 31
  %v35 = add i64 %v34, %v33
  %v36 = load volatile i64, ptr %v1
  %v37 = mul i64 %v35, 31
  %v38 = add i64 %v37, %v36
  ret i64 %v38
}

define i64 @random_7_3(i64 %a, i64 %b) uwtable {
entry:
  %v1 = alloca i64
  store volatile i64 0, ptr %v1
  %v2 = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1014, i32 44, ptr null, i32 0, i64 4294967295, i64 5, i64 5, ptr %v1, i64 %a, i64 %a, i64 -1, i64 %a)
  %v3 = icmp ult i64 %b, %a
  br i1 %v3, label %then2, label %else2
then2:
  %v4 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1015, i32 32, ptr null, i32 2, i64 %b, i64 %a, i64 %v2, ptr %v1, i64 %v2)
  br label %join2
else2:
  %v5 = sub i64 %b, %a
  br label %join2
join2:
  %v6 = phi i64 [ %v4, %then2 ], [ %v5, %else2 ]
  %v7 = or i64 %v2, %a
  %v8 = xor i64 %v7, 8333643309223941689
  %v9 = icmp ult i64 %v8, %v2
  br i1 %v9, label %then8, label %else8
then8:
  %v10 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1016, i32 32, ptr null, i32 2, i64 %v8, i64 %v2, i64 %b, i64 %v2)
  br label %join8
else8:
  %v11 = sub i64 %v8, %v2
  br label %join8
join8:
  %v12 = phi i64 [ %v10, %then8 ], [ %v11, %else8 ]
  %v13 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1017, i32 64, ptr null, i32 2, i64 %v6, i64 %a, i64 %v8, i64 %v8, i64 %v6, i64 %b, i64 5)
  %v14 = and i64 %v2, %v13
  %v15 = xor i64 %v14, -8090448708220229071
  %v16 = and i64 %v13, 65535
  %v17 = sitofp i64 %v16 to float
  %v18 = fmul float %v17, 1.250000e+00
  %v19 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1018, i32 59, ptr null, i32 0, i64 %v12, float %v18, float %v18, i64 %v12, i64 0, i64 %v12)
  %v20 = mul i64 17, 31
  %v21 = add i64 %v20, %a
  %v22 = mul i64 %v21, 31
  %v23 = add i64 %v22, %b
  %v24 = mul i64 %v23, 31
  %v25 = add i64 %v24, %v2
  %v26 = mul i64 %v25, 31
  %v27 = add i64 %v26, %v6
  %v28 = mul i64 %v27, 31
  %v29 = add i64 %v28, %v8
  %v30 = mul i64 %v29, 31
  %v31 = add i64 %v30, %v12
  %v32 = mul i64 %v31, 31
  %v33 = add i64 %v32, %v13
  %v34 = mul i64 %v33, 31
  %v35 = add i64 %v34, %v15
  %v36 = mul i64 %v35, 31
  %v37 = add i64 %v36, %v19
  %v38 = bitcast float %v18 to i32
  %v39 = zext i32 %v38 to i64
  %v40 = mul i64 %v37, 31
  %v41 = add i64 %v40, %v39
  %v42 = load volatile i64, ptr %v1
  %v43 = mul i64 %v41, 31
  %v44 = add i64 %v43, %v42
  ret i64 %v44
}

define i64 @random_7_4(i64 %a, i64 %b) uwtable {
entry:
  %v1 = alloca i64
  store volatile i64 0, ptr %v1
  %v2 = alloca i64
  store volatile i64 0, ptr %v2
  %v3 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1019, i32 64, ptr null, i32 0, i64 5, i64 %a, i64 %a, i64 %a, i64 1311768467463790320)
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 1020, i32 26, i64 %v3, i64 %b, i64 %b)
  %v4 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1021, i32 26, ptr null, i32 4, i64 %b, i64 %b, i64 %a, i64 %v3, ptr %v1, i64 -2147483649, i64 %b, i64 %v3)
  %v5 = and i64 %a, %v3
  %v6 = xor i64 %v5, 1463118318506456367
  %v7 = icmp ult i64 %v4, %a
  br i1 %v7, label %then6, label %else6
then6:
  %v8 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1022, i32 32, ptr null, i32 2, i64 %v4, i64 %a, i64 -1, i64 %b, i64 %a, i64 -2147483649)
  br label %join6
else6:
  %v9 = sub i64 %v4, %a
  br label %join6
join6:
  %v10 = phi i64 [ %v8, %then6 ], [ %v9, %else6 ]
  %v11 = sub i64 %v3, %b
  %v12 = xor i64 %v11, 2605713595504116831
  %v13 = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1023, i32 31, ptr null, i32 5, i64 %v10, i64 %v6, i64 %v3, i64 %v3, i64 %a, ptr %v2, i64 %v4, i64 %b, i64 -2147483649, i64 4294967295, ptr %v1, i64 1311768467463790320, i64 1311768467463790320)
  %v14 = mul i64 17, 31
  %v15 = add i64 %v14, %a
  %v16 = mul i64 %v15, 31
  %v17 = add i64 %v16, %b
  %v18 = mul i64 %v17, 31
  %v19 = add i64 %v18, %v3
  %v20 = mul i64 %v19, 31
  %v21 = add i64 %v20, %v4
  %v22 = mul i64 %v21, 31
  %v23 = add i64 %v22, %v6
  %v24 = mul i64 %v23, 31
  %v25 = add i64 %v24, %v10
  %v26 = mul i64 %v25, 31
  %v27 = add i64 %v26, %v12
  %v28 = mul i64 %v27, 31
  %v29 = add i64 %v28, %v13
  %v30 = load volatile i64, ptr %v1
  %v31 = mul i64 %v29, 31
  %v32 = add i64 %v31, %v30
  %v33 = load volatile i64, ptr %v2
  %v34 = mul i64 %v32, 31
  %v35 = add i64 %v34, %v33
  ret i64 %v35
}

define i64 @random_7_5(i64 %a, i64 %b) uwtable {
entry:
  %v1 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1024, i32 45, ptr null, i32 3, i64 %a, i64 %b, i64 %a)
  %v2 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1025, i32 42, ptr null, i32 4, i64 %a, i64 %v1, i64 %a, i64 %b, i64 1311768467463790320, i64 %v1, i64 4294967295)
  %v3 = and i64 %a, %a
  %v4 = xor i64 %v3, 1085260260048768331
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 1026, i32 7, i64 -1, i64 %v2, i64 %a, i64 %v1, i64 4294967295)
  %v5 = or i64 %v2, %v2
  %v6 = xor i64 %v5, -5584923618612589393
  %v7 = insertelement <2 x i64> zeroinitializer, i64 %v2, i32 1
  %v8 = xor i64 %v6, %b
  %v9 = xor i64 %v8, 8712025272010766875
  %v10 = insertelement <2 x i64> zeroinitializer, i64 %v6, i32 1
  call anyregcc void (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.void(i64 1027, i32 35, ptr null, i32 1, i64 %v9, i64 %v4)
  %v11 = mul i64 17, 31
  %v12 = add i64 %v11, %a
  %v13 = mul i64 %v12, 31
  %v14 = add i64 %v13, %b
  %v15 = mul i64 %v14, 31
  %v16 = add i64 %v15, %v1
  %v17 = mul i64 %v16, 31
  %v18 = add i64 %v17, %v2
  %v19 = mul i64 %v18, 31
  %v20 = add i64 %v19, %v4
  %v21 = mul i64 %v20, 31
  %v22 = add i64 %v21, %v6
  %v23 = mul i64 %v22, 31
  %v24 = add i64 %v23, %v9
  %v25 = extractelement <2 x i64> %v7, i32 1
  %v26 = mul i64 %v24, 31
  %v27 = add i64 %v26, %v25
  %v28 = extractelement <2 x i64> %v10, i32 1
  %v29 = mul i64 %v27, 31
  %v30 = add i64 %v29, %v28
  ret i64 %v30
}
