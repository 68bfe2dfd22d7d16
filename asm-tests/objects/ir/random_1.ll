; llc: -enable-patchpoint-liveness=false (floating-point code)
; Generated: cargo run -p asm-tests --bin gen_ir -- 1
declare i64 @llvm.experimental.patchpoint.i64(i64, i32, ptr, i32, ...)
declare void @llvm.experimental.patchpoint.void(i64, i32, ptr, i32, ...)
declare void @llvm.experimental.stackmap(i64, i32, ...)

define i64 @random_1_0(i64 %a, i64 %b) uwtable {
entry:
  %v1 = alloca i64
  store volatile i64 0, ptr %v1
  %v2 = sub i64 %b, %a
  %v3 = xor i64 %v2, -3069695416940188771
  %v4 = and i64 %a, 65535
  %v5 = sitofp i64 %v4 to double
  %v6 = fmul double %v5, 1.250000e+00
  %v7 = and i64 %b, %b
  %v8 = xor i64 %v7, -1440586579316148995
  store volatile i64 %b, ptr %v1
  store volatile i64 %a, ptr %v1
  %v9 = sub i64 %v8, %b
  %v10 = xor i64 %v9, 7459881946311213221
  %v11 = insertelement <2 x i64> zeroinitializer, i64 %v8, i32 1
  %v12 = mul i64 %v10, %a
  %v13 = xor i64 %v12, -8600388093546010795
  %v14 = xor i64 %v8, %v3
  %v15 = xor i64 %v14, 2481904434929285723
  %v16 = trunc i64 %v8 to i32
  %v17 = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1000, i32 43, ptr null, i32 0, i32 %v16, i64 %v10)
  %v18 = xor i64 %v13, %v17
  %v19 = xor i64 %v18, -6172007110146174973
  %v20 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1001, i32 58, ptr null, i32 3, i64 %v19, i64 %v13, i64 %b, i32 %v16, <2 x i64> %v11, <2 x i64> %v11, i32 %v16, i64 0, i64 5, ptr %v1, i64 -1)
  %v21 = mul i64 17, 31
  %v22 = add i64 %v21, %a
  %v23 = mul i64 %v22, 31
  %v24 = add i64 %v23, %b
  %v25 = mul i64 %v24, 31
  %v26 = add i64 %v25, %v3
  %v27 = mul i64 %v26, 31
  %v28 = add i64 %v27, %v8
  %v29 = mul i64 %v28, 31
  %v30 = add i64 %v29, %v10
  %v31 = mul i64 %v30, 31
  %v32 = add i64 %v31, %v13
  %v33 = mul i64 %v32, 31
  %v34 = add i64 %v33, %v15
  %v35 = mul i64 %v34, 31
  %v36 = add i64 %v35, %v17
  %v37 = mul i64 %v36, 31
  %v38 = add i64 %v37, %v19
  %v39 = mul i64 %v38, 31
  %v40 = add i64 %v39, %v20
  %v41 = bitcast double %v6 to i64
  %v42 = mul i64 %v40, 31
  %v43 = add i64 %v42, %v41
  %v44 = extractelement <2 x i64> %v11, i32 1
  %v45 = mul i64 %v43, 31
  %v46 = add i64 %v45, %v44
  %v47 = zext i32 %v16 to i64
  %v48 = mul i64 %v46, 31
  %v49 = add i64 %v48, %v47
  %v50 = load volatile i64, ptr %v1
  %v51 = mul i64 %v49, 31
  %v52 = add i64 %v51, %v50
  ret i64 %v52
}

define i64 @random_1_1(i64 %a, i64 %b) uwtable {
entry:
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 1002, i32 8, i64 %a, i64 %a)
  %v1 = add i64 %b, %b
  %v2 = xor i64 %v1, 8686220425699357053
  %v3 = trunc i64 %b to i16
  %v4 = sub i64 %v2, %b
  %v5 = xor i64 %v4, 651903110799653647
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 1003, i32 28, i64 0)
  %v6 = sub i64 %a, %b
  %v7 = xor i64 %v6, 8521689653139720027
  %v8 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1004, i32 27, ptr null, i32 4, i64 %v5, i64 %v7, i64 %v2, i64 %v5, i64 %b, i64 %b, i64 %v2)
  %v9 = mul i64 17, 31
  %v10 = add i64 %v9, %a
  %v11 = mul i64 %v10, 31
  %v12 = add i64 %v11, %b
  %v13 = mul i64 %v12, 31
  %v14 = add i64 %v13, %v2
  %v15 = mul i64 %v14, 31
  %v16 = add i64 %v15, %v5
  %v17 = mul i64 %v16, 31
  %v18 = add i64 %v17, %v7
  %v19 = mul i64 %v18, 31
  %v20 = add i64 %v19, %v8
  %v21 = zext i16 %v3 to i64
  %v22 = mul i64 %v20, 31
  %v23 = add i64 %v22, %v21
  ret i64 %v23
}

define i64 @random_1_2(i64 %a, i64 %b) uwtable {
entry:
  %v1 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1005, i32 25, ptr null, i32 3, i64 %a, i64 %b, i64 %a, i64 %b, i64 5, i64 %b)
  %v2 = add i64 %v1, %a
  %v3 = xor i64 %v2, -8067267098455922453
  %v4 = and i64 %a, 65535
  %v5 = sitofp i64 %v4 to float
  %v6 = fmul float %v5, 1.250000e+00
  %v7 = and i64 %v1, %v3
  %v8 = xor i64 %v7, 3964695571546015877
  %v9 = insertelement <2 x i64> zeroinitializer, i64 %v1, i32 1
  %v10 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1006, i32 56, ptr null, i32 3, i64 %v3, i64 %b, i64 %b)
  %v11 = mul i64 17, 31
  %v12 = add i64 %v11, %a
  %v13 = mul i64 %v12, 31
  %v14 = add i64 %v13, %b
  %v15 = mul i64 %v14, 31
  %v16 = add i64 %v15, %v1
  %v17 = mul i64 %v16, 31
  %v18 = add i64 %v17, %v3
  %v19 = mul i64 %v18, 31
  %v20 = add i64 %v19, %v8
  %v21 = mul i64 %v20, 31
  %v22 = add i64 %v21, %v10
  %v23 = bitcast float %v6 to i32
  %v24 = zext i32 %v23 to i64
  %v25 = mul i64 %v22, 31
  %v26 = add i64 %v25, %v24
  %v27 = extractelement <2 x i64> %v9, i32 1
  %v28 = mul i64 %v26, 31
  %v29 = add i64 %v28, %v27
  ret i64 %v29
}

define i64 @random_1_3(i64 %a, i64 %b) uwtable {
entry:
  %v1 = alloca i64
  store volatile i64 0, ptr %v1
  %v2 = alloca i64
  store volatile i64 0, ptr %v2
  %v3 = alloca i64
  store volatile i64 0, ptr %v3
  store volatile i64 %b, ptr %v1
  %v4 = and i64 %b, %b
  %v5 = xor i64 %v4, -4869487992499584643
  %v6 = icmp ult i64 %v5, %a
  br i1 %v6, label %then5, label %else5
then5:
  %v7 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1007, i32 32, ptr null, i32 2, i64 %v5, i64 %a, ptr %v3, ptr %v3, i64 %v5, i64 0)
  br label %join5
else5:
  %v8 = sub i64 %v5, %a
  br label %join5
join5:
  %v9 = phi i64 [ %v7, %then5 ], [ %v8, %else5 ]
  %v10 = icmp ult i64 %v9, %b
  br i1 %v10, label %then9, label %else9
then9:
  %v11 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1008, i32 32, ptr null, i32 2, i64 %v9, i64 %b, i64 %v9, i64 -2147483649, ptr %v3, i64 %a)
  br label %join9
else9:
  %v12 = sub i64 %v9, %b
  br label %join9
join9:
  %v13 = phi i64 [ %v11, %then9 ], [ %v12, %else9 ]
  %v14 = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1009, i32 42, ptr null, i32 4, i64 %a, i64 %v5, i64 %a, i64 %v9, ptr %v2, i64 5, i64 %v13, i64 %v13, i64 %v13, i64 1311768467463790320)
  %v15 = xor i64 %v13, %a
  %v16 = xor i64 %v15, -2785303283544542293
  %v17 = sub i64 %a, %a
  %v18 = xor i64 %v17, 1969151255967484279
  %v19 = trunc i64 %a to i32
  %v20 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1010, i32 31, ptr null, i32 4, i64 %v5, i64 %v5, i64 %v16, i64 %v16, i64 %v9, i32 %v19, i64 4294967295)
  %v21 = mul i64 17, 31
  %v22 = add i64 %v21, %a
  %v23 = mul i64 %v22, 31
  %v24 = add i64 %v23, %b
  %v25 = mul i64 %v24, 31
  %v26 = add i64 %v25, %v5
  %v27 = mul i64 %v26, 31
  %v28 = add i64 %v27, %v9
  %v29 = mul i64 %v28, 31
  %v30 = add i64 %v29, %v13
  %v31 = mul i64 %v30, 31
  %v32 = add i64 %v31, %v14
  %v33 = mul i64 %v32, 31
  %v34 = add i64 %v33, %v16
  %v35 = mul i64 %v34, 31
  %v36 = add i64 %v35, %v18
  %v37 = mul i64 %v36, 31
  %v38 = add i64 %v37, %v20
  %v39 = zext i32 %v19 to i64
  %v40 = mul i64 %v38, 31
  %v41 = add i64 %v40, %v39
  %v42 = load volatile i64, ptr %v1
  %v43 = mul i64 %v41, 31
  %v44 = add i64 %v43, %v42
  %v45 = load volatile i64, ptr %v2
  %v46 = mul i64 %v44, 31
  %v47 = add i64 %v46, %v45
  %v48 = load volatile i64, ptr %v3
  %v49 = mul i64 %v47, 31
  %v50 = add i64 %v49, %v48
  ret i64 %v50
}

define i64 @random_1_4(i64 %a, i64 %b) uwtable {
entry:
  %v1 = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1011, i32 37, ptr null, i32 7, i64 %b, i64 %b, i64 %a, i64 %a, i64 %a, i64 %b, i64 %b, i64 0, i64 -1, i64 4294967295, i64 -2147483649, i64 -1, i64 1311768467463790320, i64 1311768467463790320)
  %v2 = icmp ult i64 %v1, %a
  br i1 %v2, label %then1, label %else1
then1:
  %v3 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1012, i32 32, ptr null, i32 2, i64 %v1, i64 %a, i64 %a)
  br label %join1
else1:
  %v4 = sub i64 %v1, %a
  br label %join1
join1:
  %v5 = phi i64 [ %v3, %then1 ], [ %v4, %else1 ]
  %v6 = and i64 %a, %v5
  %v7 = xor i64 %v6, 3157116933525460679
  %v8 = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1013, i32 61, ptr null, i32 8, i64 %v5, i64 %a, i64 %a, i64 %b, i64 %b, i64 %v7, i64 %v5, i64 %b, i64 -1, i64 -2147483649, i64 -2147483649, i64 1311768467463790320, i64 -2147483649, i64 1311768467463790320)
  call void (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.void(i64 1014, i32 41, ptr null, i32 4, i64 %v1, i64 %v1, i64 %v8, i64 %a, i64 %a, i64 1311768467463790320, i64 4294967295)
  %v9 = or i64 %v7, %b
  %v10 = xor i64 %v9, -7391442706005413913
  %v11 = insertelement <2 x i64> zeroinitializer, i64 %v7, i32 1
  %v12 = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1015, i32 54, ptr null, i32 4, i64 %v5, i64 %a, i64 %v8, i64 %v7, <2 x i64> %v11)
  %v13 = mul i64 %v7, %a
  %v14 = xor i64 %v13, -1959969889477502569
  %v15 = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1016, i32 61, ptr null, i32 7, i64 %v10, i64 %v5, i64 %v12, i64 %v14, i64 %v8, i64 %v8, i64 %v7, i64 -1, i64 4294967295)
  %v16 = mul i64 17, 31
  %v17 = add i64 %v16, %a
  %v18 = mul i64 %v17, 31
  %v19 = add i64 %v18, %b
  %v20 = mul i64 %v19, 31
  %v21 = add i64 %v20, %v1
  %v22 = mul i64 %v21, 31
  %v23 = add i64 %v22, %v5
  %v24 = mul i64 %v23, 31
  %v25 = add i64 %v24, %v7
  %v26 = mul i64 %v25, 31
  %v27 = add i64 %v26, %v8
  %v28 = mul i64 %v27, 31
  %v29 = add i64 %v28, %v10
  %v30 = mul i64 %v29, 31
  %v31 = add i64 %v30, %v12
  %v32 = mul i64 %v31, 31
  %v33 = add i64 %v32, %v14
  %v34 = mul i64 %v33, 31
  %v35 = add i64 %v34, %v15
  %v36 = extractelement <2 x i64> %v11, i32 1
  %v37 = mul i64 %v35, 31
  %v38 = add i64 %v37, %v36
  ret i64 %v38
}

define i64 @random_1_5(i64 %a, i64 %b) uwtable {
entry:
  %v1 = alloca i64
  store volatile i64 0, ptr %v1
  %v2 = alloca i64
  store volatile i64 0, ptr %v2
  %v3 = xor i64 %a, %a
  %v4 = xor i64 %v3, 1870895668082327853
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 1017, i32 0)
  %v5 = xor i64 %v4, %a
  %v6 = xor i64 %v5, -4499721172910264273
  %v7 = and i64 %a, 65535
  %v8 = sitofp i64 %v7 to double
  %v9 = fmul double %v8, 1.250000e+00
  call void (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.void(i64 1018, i32 37, ptr null, i32 1, i64 %v6, ptr %v2, i64 %b, double %v9, i64 -1, i64 %a, i64 %v6, i64 5)
  %v10 = xor i64 %v6, %b
  %v11 = xor i64 %v10, -3757662295650482877
  %v12 = xor i64 %b, %v11
  %v13 = xor i64 %v12, -7851387139810794855
  %v14 = trunc i64 %b to i8
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 1019, i32 20, i64 5, i64 %v13, i64 %v11, i8 %v14)
  %v15 = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1020, i32 62, ptr null, i32 8, i64 %a, i64 %v11, i64 %v13, i64 %v13, i64 %v11, i64 %b, i64 %v6, i64 %v6)
  %v16 = mul i64 %v6, %v4
  %v17 = xor i64 %v16, -3282395789058450117
  %v18 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1021, i32 53, ptr null, i32 1, i64 %v6, i64 %a)
  %v19 = mul i64 17, 31
  %v20 = add i64 %v19, %a
  %v21 = mul i64 %v20, 31
  %v22 = add i64 %v21, %b
  %v23 = mul i64 %v22, 31
  %v24 = add i64 %v23, %v4
  %v25 = mul i64 %v24, 31
  %v26 = add i64 %v25, %v6
  %v27 = mul i64 %v26, 31
  %v28 = add i64 %v27, %v11
  %v29 = mul i64 %v28, 31
  %v30 = add i64 %v29, %v13
  %v31 = mul i64 %v30, 31
  %v32 = add i64 %v31, %v15
  %v33 = mul i64 %v32, 31
  %v34 = add i64 %v33, %v17
  %v35 = mul i64 %v34, 31
  %v36 = add i64 %v35, %v18
  %v37 = bitcast double %v9 to i64
  %v38 = mul i64 %v36, 31
  %v39 = add i64 %v38, %v37
  %v40 = zext i8 %v14 to i64
  %v41 = mul i64 %v39, 31
  %v42 = add i64 %v41, %v40
  %v43 = load volatile i64, ptr %v1
  %v44 = mul i64 %v42, 31
  %v45 = add i64 %v44, %v43
  %v46 = load volatile i64, ptr %v2
  %v47 = mul i64 %v45, 31
  %v48 = add i64 %v47, %v46
  ret i64 %v48
}
