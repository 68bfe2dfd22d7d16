; llc: -enable-patchpoint-liveness=false (floating-point code)
; Generated: cargo run -p asm-tests --bin gen_ir -- 3
declare i64 @llvm.experimental.patchpoint.i64(i64, i32, ptr, i32, ...)
declare void @llvm.experimental.patchpoint.void(i64, i32, ptr, i32, ...)
declare void @llvm.experimental.stackmap(i64, i32, ...)

define i64 @random_3_0(i64 %a, i64 %b) uwtable {
entry:
  %v1 = alloca i64
  store volatile i64 0, ptr %v1
  %v2 = alloca i64
  store volatile i64 0, ptr %v2
  %v3 = alloca i64
  store volatile i64 0, ptr %v3
  store volatile i64 %b, ptr %v1
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 1000, i32 27, i64 %a)
  %v4 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1001, i32 42, ptr null, i32 4, i64 %a, i64 %b, i64 %a, i64 %a, i64 %b, ptr %v2, ptr %v3, ptr %v3, ptr %v3, i64 %b)
  %v5 = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1002, i32 50, ptr null, i32 3, i64 %b, i64 %a, i64 %b, i64 4294967295)
  %v6 = sub i64 %v5, %v4
  %v7 = xor i64 %v6, -8013287015583554725
  %v8 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1003, i32 63, ptr null, i32 4, i64 %a, i64 %a, i64 %v4, i64 %a, ptr %v3, ptr %v1, i64 5)
  %v9 = mul i64 17, 31
  %v10 = add i64 %v9, %a
  %v11 = mul i64 %v10, 31
  %v12 = add i64 %v11, %b
  %v13 = mul i64 %v12, 31
  %v14 = add i64 %v13, %v4
  %v15 = mul i64 %v14, 31
  %v16 = add i64 %v15, %v5
  %v17 = mul i64 %v16, 31
  %v18 = add i64 %v17, %v7
  %v19 = mul i64 %v18, 31
  %v20 = add i64 %v19, %v8
  %v21 = load volatile i64, ptr %v1
  %v22 = mul i64 %v20, 31
  %v23 = add i64 %v22, %v21
  %v24 = load volatile i64, ptr %v2
  %v25 = mul i64 %v23, 31
  %v26 = add i64 %v25, %v24
  %v27 = load volatile i64, ptr %v3
  %v28 = mul i64 %v26, 31
  %v29 = add i64 %v28, %v27
  ret i64 %v29
}

define i64 @random_3_1(i64 %a, i64 %b) uwtable {
entry:
  %v1 = alloca i64
  store volatile i64 0, ptr %v1
  %v2 = alloca i64
  store volatile i64 0, ptr %v2
  %v3 = alloca i64
  store volatile i64 0, ptr %v3
  call anyregcc void (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.void(i64 1004, i32 24, ptr null, i32 0, i64 %b, i64 %a, i64 %a)
  %v4 = or i64 %a, %a
  %v5 = xor i64 %v4, -1609772365699704565
  %v6 = mul i64 %a, %v5
  %v7 = xor i64 %v6, -2415843693134320883
  call anyregcc void (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.void(i64 1005, i32 50, ptr null, i32 3, i64 %b, i64 %v7, i64 %v7, i64 %v7, ptr %v1, ptr %v2, i64 -1, ptr %v1)
  %v8 = mul i64 %b, %b
  %v9 = xor i64 %v8, -8161058537157494827
  call anyregcc void (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.void(i64 1006, i32 24, ptr null, i32 1, i64 %v7, i64 %v5, i64 1311768467463790320)
  %v10 = mul i64 17, 31
  %v11 = add i64 %v10, %a
  %v12 = mul i64 %v11, 31
  %v13 = add i64 %v12, %b
  %v14 = mul i64 %v13, 31
  %v15 = add i64 %v14, %v5
  %v16 = mul i64 %v15, 31
  %v17 = add i64 %v16, %v7
  %v18 = mul i64 %v17, 31
  %v19 = add i64 %v18, %v9
  %v20 = load volatile i64, ptr %v1
  %v21 = mul i64 %v19, 31
  %v22 = add i64 %v21, %v20
  %v23 = load volatile i64, ptr %v2
  %v24 = mul i64 %v22, 31
  %v25 = add i64 %v24, %v23
  %v26 = load volatile i64, ptr %v3
  %v27 = mul i64 %v25, 31
  %v28 = add i64 %v27, %v26
  ret i64 %v28
}

define i64 @random_3_2(i64 %a, i64 %b) uwtable {
entry:
  %v1 = alloca i64
  store volatile i64 0, ptr %v1
  store volatile i64 %a, ptr %v1
  %v2 = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1007, i32 40, ptr null, i32 4, i64 %a, i64 %a, i64 %b, i64 %b, i64 5, ptr %v1, ptr %v1)
  %v3 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1008, i32 62, ptr null, i32 0, ptr %v1, i64 %a, i64 %b)
  %v4 = icmp ult i64 %v3, %v2
  br i1 %v4, label %then3, label %else3
then3:
  %v5 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1009, i32 32, ptr null, i32 2, i64 %v3, i64 %v2, ptr %v1, i64 %b, i64 %b)
  br label %join3
else3:
  %v6 = sub i64 %v3, %v2
  br label %join3
join3:
  %v7 = phi i64 [ %v5, %then3 ], [ %v6, %else3 ]
  %v8 = sub i64 %a, %a
  %v9 = xor i64 %v8, 2460793933279287751
  %v10 = trunc i64 %a to i16
  %v11 = mul i64 %v3, %v2
  %v12 = xor i64 %v11, -7841379803992718573
  %v13 = insertelement <2 x i64> zeroinitializer, i64 %v3, i32 1
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 1010, i32 17, i64 %a, i64 %v3, i64 %v3, i64 -2147483649)
  %v14 = sub i64 %v7, %v7
  %v15 = xor i64 %v14, -5673223769562727913
  %v16 = trunc i64 %v7 to i16
  %v17 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1011, i32 36, ptr null, i32 1, i64 %v7, i64 5, i64 %v12, i16 %v10, i16 %v10, i64 %a)
  %v18 = mul i64 17, 31
  %v19 = add i64 %v18, %a
  %v20 = mul i64 %v19, 31
  %v21 = add i64 %v20, %b
  %v22 = mul i64 %v21, 31
  %v23 = add i64 %v22, %v2
  %v24 = mul i64 %v23, 31
  %v25 = add i64 %v24, %v3
  %v26 = mul i64 %v25, 31
  %v27 = add i64 %v26, %v7
  %v28 = mul i64 %v27, 31
  %v29 = add i64 %v28, %v9
  %v30 = mul i64 %v29, 31
  %v31 = add i64 %v30, %v12
  %v32 = mul i64 %v31, 31
  %v33 = add i64 %v32, %v15
  %v34 = mul i64 %v33, 31
  %v35 = add i64 %v34, %v17
  %v36 = zext i16 %v10 to i64
  %v37 = mul i64 %v35, 31
  %v38 = add i64 %v37, %v36
  %v39 = extractelement <2 x i64> %v13, i32 1
  %v40 = mul i64 %v38, 31
  %v41 = add i64 %v40, %v39
  %v42 = zext i16 %v16 to i64
  %v43 = mul i64 %v41, 31
  %v44 = add i64 %v43, %v42
  %v45 = load volatile i64, ptr %v1
  %v46 = mul i64 %v44, 31
  %v47 = add i64 %v46, %v45
  ret i64 %v47
}

define i64 @random_3_3(i64 %a, i64 %b) uwtable {
entry:
  %v1 = sub i64 %b, %a
  %v2 = xor i64 %v1, -5053056874712447113
  %v3 = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1012, i32 32, ptr null, i32 3, i64 %b, i64 %v2, i64 %v2, i64 -1, i64 %a, i64 5, i64 1311768467463790320, i64 -1)
  %v4 = add i64 %a, %a
  %v5 = xor i64 %v4, 3227358440368008083
  %v6 = icmp ult i64 %v5, %v3
  br i1 %v6, label %then5, label %else5
then5:
  %v7 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1013, i32 32, ptr null, i32 2, i64 %v5, i64 %v3, i64 %b, i64 %b, i64 0, i64 %b)
  br label %join5
else5:
  %v8 = sub i64 %v5, %v3
  br label %join5
join5:
  %v9 = phi i64 [ %v7, %then5 ], [ %v8, %else5 ]
  %v10 = and i64 %b, %v5
  %v11 = xor i64 %v10, 1440165158174933143
  %v12 = trunc i64 %b to i16
  %v13 = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1014, i32 44, ptr null, i32 8, i64 %v2, i64 %v11, i64 %a, i64 %a, i64 %v2, i64 %v9, i64 %v3, i64 %a)
  %v14 = mul i64 17, 31
  %v15 = add i64 %v14, %a
  %v16 = mul i64 %v15, 31
  %v17 = add i64 %v16, %b
  %v18 = mul i64 %v17, 31
  %v19 = add i64 %v18, %v2
  %v20 = mul i64 %v19, 31
  %v21 = add i64 %v20, %v3
  %v22 = mul i64 %v21, 31
  %v23 = add i64 %v22, %v5
  %v24 = mul i64 %v23, 31
  %v25 = add i64 %v24, %v9
  %v26 = mul i64 %v25, 31
  %v27 = add i64 %v26, %v11
  %v28 = mul i64 %v27, 31
  %v29 = add i64 %v28, %v13
  %v30 = zext i16 %v12 to i64
  %v31 = mul i64 %v29, 31
  %v32 = add i64 %v31, %v30
  ret i64 %v32
}

define i64 @random_3_4(i64 %a, i64 %b) uwtable {
entry:
  %v1 = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1015, i32 35, ptr null, i32 6, i64 %a, i64 %a, i64 %b, i64 %b, i64 %a, i64 %b, i64 %a, i64 5)
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 1016, i32 23)
  %v2 = icmp ult i64 %b, %v1
  br i1 %v2, label %then1, label %else1
then1:
  %v3 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1017, i32 32, ptr null, i32 2, i64 %b, i64 %v1, i64 5, i64 %b, i64 0, i64 4294967295)
  br label %join1
else1:
  %v4 = sub i64 %b, %v1
  br label %join1
join1:
  %v5 = phi i64 [ %v3, %then1 ], [ %v4, %else1 ]
  %v6 = icmp ult i64 %a, %v5
  br i1 %v6, label %then5, label %else5
then5:
  %v7 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1018, i32 32, ptr null, i32 2, i64 %a, i64 %v5, i64 %b, i64 %v5, i64 0)
  br label %join5
else5:
  %v8 = sub i64 %a, %v5
  br label %join5
join5:
  %v9 = phi i64 [ %v7, %then5 ], [ %v8, %else5 ]
  %v10 = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1019, i32 41, ptr null, i32 3, i64 %v9, i64 %a, i64 %a, i64 %v5)
  call void (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.void(i64 1020, i32 31, ptr null, i32 6, i64 %v1, i64 %b, i64 %a, i64 %v10, i64 %v9, i64 %v10)
  %v11 = sub i64 %b, %b
  %v12 = xor i64 %v11, 6141845872481740111
  %v13 = trunc i64 %b to i8
  %v14 = or i64 %v10, %v12
  %v15 = xor i64 %v14, -6552579437498786001
  %v16 = and i64 %v12, 65535
  %v17 = sitofp i64 %v16 to double
  %v18 = fmul double %v17, 1.250000e+00
  %v19 = and i64 %v10, %v1
  %v20 = xor i64 %v19, 4605803708522349661
  %v21 = and i64 %v1, 65535
  %v22 = sitofp i64 %v21 to double
  %v23 = fmul double %v22, 1.250000e+00
  %v24 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1021, i32 54, ptr null, i32 2, i64 %v10, i64 %v9, i64 1311768467463790320, i64 1311768467463790320)
  %v25 = mul i64 17, 31
  %v26 = add i64 %v25, %a
  %v27 = mul i64 %v26, 31
  %v28 = add i64 %v27, %b
  %v29 = mul i64 %v28, 31
  %v30 = add i64 %v29, %v1
  %v31 = mul i64 %v30, 31
  %v32 = add i64 %v31, %v5
  %v33 = mul i64 %v32, 31
  %v34 = add i64 %v33, %v9
  %v35 = mul i64 %v34, 31
  %v36 = add i64 %v35, %v10
  %v37 = mul i64 %v36, 31
  %v38 = add i64 %v37, %v12
  %v39 = mul i64 %v38, 31
  %v40 = add i64 %v39, %v15
  %v41 = mul i64 %v40, 31
  %v42 = add i64 %v41, %v20
  %v43 = mul i64 %v42, 31
  %v44 = add i64 %v43, %v24
  %v45 = zext i8 %v13 to i64
  %v46 = mul i64 %v44, 31
  %v47 = add i64 %v46, %v45
  %v48 = bitcast double %v18 to i64
  %v49 = mul i64 %v47, 31
  %v50 = add i64 %v49, %v48
  %v51 = bitcast double %v23 to i64
  %v52 = mul i64 %v50, 31
  %v53 = add i64 %v52, %v51
  ret i64 %v53
}

define i64 @random_3_5(i64 %a, i64 %b) uwtable {
entry:
  %v1 = alloca i64
  store volatile i64 0, ptr %v1
  %v2 = alloca i64
  store volatile i64 0, ptr %v2
  %v3 = alloca i64
  store volatile i64 0, ptr %v3
  %v4 = icmp ult i64 %a, %b
  br i1 %v4, label %then3, label %else3
then3:
  %v5 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1022, i32 32, ptr null, i32 2, i64 %a, i64 %b, i64 %a, i64 %b)
  br label %join3
else3:
  %v6 = sub i64 %a, %b
  br label %join3
join3:
  %v7 = phi i64 [ %v5, %then3 ], [ %v6, %else3 ]
  store volatile i64 %v7, ptr %v1
  %v8 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1023, i32 46, ptr null, i32 2, i64 %v7, i64 %a, ptr %v3, i64 5, i64 -1, i64 %b, i64 %b)
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 1024, i32 20, i64 %v8, i64 %v7, i64 %v8, ptr %v2, i64 %v8, ptr %v2)
  %v9 = icmp ult i64 %v8, %v7
  br i1 %v9, label %then8, label %else8
then8:
  %v10 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1025, i32 32, ptr null, i32 2, i64 %v8, i64 %v7, i64 5, ptr %v3, ptr %v2, i64 %v8)
  br label %join8
else8:
  %v11 = sub i64 %v8, %v7
  br label %join8
join8:
  %v12 = phi i64 [ %v10, %then8 ], [ %v11, %else8 ]
  %v13 = sub i64 %v12, %b
  %v14 = xor i64 %v13, 5522745710185417781
  %v15 = insertelement <2 x i64> zeroinitializer, i64 %v12, i32 1
  %v16 = mul i64 %v7, %v7
  %v17 = xor i64 %v16, -6963263128963820831
  %v18 = trunc i64 %v7 to i32
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 1026, i32 2, i64 -2147483649, i64 %a, i64 %b, ptr %v3, <2 x i64> %v15, i64 %v7)
  %v19 = mul i64 17, 31
  %v20 = add i64 %v19, %a
  %v21 = mul i64 %v20, 31
  %v22 = add i64 %v21, %b
  %v23 = mul i64 %v22, 31
  %v24 = add i64 %v23, %v7
  %v25 = mul i64 %v24, 31
  %v26 = add i64 %v25, %v8
  %v27 = mul i64 %v26, 31
  %v28 = add i64 %v27, %v12
  %v29 = mul i64 %v28, 31
  %v30 = add i64 %v29, %v14
  %v31 = mul i64 %v30, 31
  %v32 = add i64 %v31, %v17
  %v33 = extractelement <2 x i64> %v15, i32 1
  %v34 = mul i64 %v32, 31
  %v35 = add i64 %v34, %v33
  %v36 = zext i32 %v18 to i64
  %v37 = mul i64 %v35, 31
  %v38 = add i64 %v37, %v36
  %v39 = load volatile i64, ptr %v1
  %v40 = mul i64 %v38, 31
  %v41 = add i64 %v40, %v39
  %v42 = load volatile i64, ptr %v2
  %v43 = mul i64 %v41, 31
  %v44 = add i64 %v43, %v42
  %v45 = load volatile i64, ptr %v3
  %v46 = mul i64 %v44, 31
  %v47 = add i64 %v46, %v45
  ret i64 %v47
}
