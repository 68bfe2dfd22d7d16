; llc: -enable-patchpoint-liveness=false (floating-point code)
; Generated: cargo run -p asm-tests --bin gen_ir -- 5
declare i64 @llvm.experimental.patchpoint.i64(i64, i32, ptr, i32, ...)
declare void @llvm.experimental.patchpoint.void(i64, i32, ptr, i32, ...)
declare void @llvm.experimental.stackmap(i64, i32, ...)

define i64 @random_5_0(i64 %a, i64 %b) uwtable {
entry:
  %v1 = alloca i64
  store volatile i64 0, ptr %v1
  %v2 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1000, i32 38, ptr null, i32 1, i64 %a, i64 %b, i64 5, i64 %a, i64 %b, i64 %b)
  %v3 = icmp ult i64 %a, %a
  br i1 %v3, label %then2, label %else2
then2:
  %v4 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1001, i32 32, ptr null, i32 2, i64 %a, i64 %a, ptr %v1, i64 %b, ptr %v1, i64 %v2)
  br label %join2
else2:
  %v5 = sub i64 %a, %a
  br label %join2
join2:
  %v6 = phi i64 [ %v4, %then2 ], [ %v5, %else2 ]
  %v7 = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1002, i32 55, ptr null, i32 1, i64 %b, ptr %v1, i64 %v6, ptr %v1, ptr %v1, ptr %v1)
  %v8 = mul i64 %v7, %v7
  %v9 = xor i64 %v8, -7889930069797018913
  %v10 = insertelement <2 x i64> zeroinitializer, i64 %v7, i32 1
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 1003, i32 13, i64 %b, <2 x i64> %v10, i64 %v9, i64 1311768467463790320)
  %v11 = or i64 %b, %b
  %v12 = xor i64 %v11, -6200606806656785811
  %v13 = trunc i64 %b to i16
  %v14 = add i64 %a, %v6
  %v15 = xor i64 %v14, 8851212769962916969
  %v16 = trunc i64 %a to i32
  %v17 = or i64 %v6, %v2
  %v18 = xor i64 %v17, -5454246306826944859
  %v19 = insertelement <2 x i64> zeroinitializer, i64 %v6, i32 1
  call anyregcc void (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.void(i64 1004, i32 27, ptr null, i32 4, i64 %a, i64 %a, i64 %v15, i64 %v2)
  %v20 = mul i64 17, 31
  %v21 = add i64 %v20, %a
  %v22 = mul i64 %v21, 31
  %v23 = add i64 %v22, %b
  %v24 = mul i64 %v23, 31
  %v25 = add i64 %v24, %v2
  %v26 = mul i64 %v25, 31
  %v27 = add i64 %v26, %v6
  %v28 = mul i64 %v27, 31
  %v29 = add i64 %v28, %v7
  %v30 = mul i64 %v29, 31
  %v31 = add i64 %v30, %v9
  %v32 = mul i64 %v31, 31
  %v33 = add i64 %v32, %v12
  %v34 = mul i64 %v33, 31
  %v35 = add i64 %v34, %v15
  %v36 = mul i64 %v35, 31
  %v37 = add i64 %v36, %v18
  %v38 = extractelement <2 x i64> %v10, i32 1
  %v39 = mul i64 %v37, 31
  %v40 = add i64 %v39, %v38
  %v41 = zext i16 %v13 to i64
  %v42 = mul i64 %v40, 31
  %v43 = add i64 %v42, %v41
  %v44 = zext i32 %v16 to i64
  %v45 = mul i64 %v43, 31
  %v46 = add i64 %v45, %v44
  %v47 = extractelement <2 x i64> %v19, i32 1
  %v48 = mul i64 %v46, 31
  %v49 = add i64 %v48, %v47
  %v50 = load volatile i64, ptr %v1
  %v51 = mul i64 %v49, 31
  %v52 = add i64 %v51, %v50
  ret i64 %v52
}

define i64 @random_5_1(i64 %a, i64 %b) uwtable {
entry:
  %v1 = alloca i64
  store volatile i64 0, ptr %v1
  %v2 = icmp ult i64 %b, %b
  br i1 %v2, label %then1, label %else1
then1:
  %v3 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1005, i32 32, ptr null, i32 2, i64 %b, i64 %b, i64 %b, ptr %v1, i64 -2147483649)
  br label %join1
else1:
  %v4 = sub i64 %b, %b
  br label %join1
join1:
  %v5 = phi i64 [ %v3, %then1 ], [ %v4, %else1 ]
  %v6 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1006, i32 60, ptr null, i32 2, i64 %v5, i64 %v5, i64 1311768467463790320, ptr %v1, i64 %v5)
  store volatile i64 %b, ptr %v1
  %v7 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1007, i32 31, ptr null, i32 1, i64 %b, ptr %v1, ptr %v1)
  %v8 = xor i64 %v5, %a
  %v9 = xor i64 %v8, 4560225639469989913
  %v10 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1008, i32 38, ptr null, i32 4, i64 %v5, i64 %b, i64 %v7, i64 %b, i64 %v7, i64 %v5, i64 %v6, i64 -1, i64 1311768467463790320, i64 1311768467463790320)
  %v11 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1009, i32 52, ptr null, i32 0)
  %v12 = add i64 %a, %a
  %v13 = xor i64 %v12, 8901317119430790301
  %v14 = and i64 %v10, %v10
  %v15 = xor i64 %v14, 2693317675854565163
  %v16 = and i64 %v7, %v5
  %v17 = xor i64 %v16, 4048861755649805615
  %v18 = insertelement <2 x i64> zeroinitializer, i64 %v7, i32 1
  %v19 = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1010, i32 30, ptr null, i32 4, i64 %v5, i64 %a, i64 %b, i64 %v9, i64 %a, i64 1311768467463790320, i64 4294967295)
  %v20 = mul i64 17, 31
  %v21 = add i64 %v20, %a
  %v22 = mul i64 %v21, 31
  %v23 = add i64 %v22, %b
  %v24 = mul i64 %v23, 31
  %v25 = add i64 %v24, %v5
  %v26 = mul i64 %v25, 31
  %v27 = add i64 %v26, %v6
  %v28 = mul i64 %v27, 31
  %v29 = add i64 %v28, %v7
  %v30 = mul i64 %v29, 31
  %v31 = add i64 %v30, %v9
  %v32 = mul i64 %v31, 31
  %v33 = add i64 %v32, %v10
  %v34 = mul i64 %v33, 31
  %v35 = add i64 %v34, %v11
  %v36 = mul i64 %v35, 31
  %v37 = add i64 %v36, %v13
  %v38 = mul i64 %v37, 31
  %v39 = add i64 %v38, %v15
  %v40 = mul i64 %v39, 31
  %v41 = add i64 %v40, %v17
  %v42 = mul i64 %v41, 31
  %v43 = add i64 %v42, %v19
  %v44 = extractelement <2 x i64> %v18, i32 1
  %v45 = mul i64 %v43, 31
  %v46 = add i64 %v45, %v44
  %v47 = load volatile i64, ptr %v1
  %v48 = mul i64 %v46, 31
  %v49 = add i64 %v48, %v47
  ret i64 %v49
}

define i64 @random_5_2(i64 %a, i64 %b) uwtable {
entry:
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 1011, i32 12)
  %v1 = icmp ult i64 %a, %a
  br i1 %v1, label %then0, label %else0
then0:
  %v2 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1012, i32 32, ptr null, i32 2, i64 %a, i64 %a, i64 %b, i64 1311768467463790320, i64 4294967295)
  br label %join0
else0:
  %v3 = sub i64 %a, %a
  br label %join0
join0:
  %v4 = phi i64 [ %v2, %then0 ], [ %v3, %else0 ]
  %v5 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1013, i32 27, ptr null, i32 0, i64 %b, i64 %v4, i64 %a, i64 %v4, i64 0)
  %v6 = add i64 %v5, %v5
  %v7 = xor i64 %v6, 7327089651280882123
  %v8 = and i64 %v5, 65535
  %v9 = sitofp i64 %v8 to float
  %v10 = fmul float %v9, 1.250000e+00
  %v11 = sub i64 %v7, %v4
  %v12 = xor i64 %v11, 3272273088449904197
  %v13 = and i64 %v4, 65535
  %v14 = sitofp i64 %v13 to double
  %v15 = fmul double %v14, 1.250000e+00
  %v16 = add i64 %v4, %v4
  %v17 = xor i64 %v16, -5875917258139479517
  call anyregcc void (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.void(i64 1014, i32 35, ptr null, i32 1, i64 %v5, i64 %b, i64 %v17, i64 %v17, i64 %b, i64 %v4, i64 5, i64 %v7)
  %v18 = mul i64 17, 31
  %v19 = add i64 %v18, %a
  %v20 = mul i64 %v19, 31
  %v21 = add i64 %v20, %b
  %v22 = mul i64 %v21, 31
  %v23 = add i64 %v22, %v4
  %v24 = mul i64 %v23, 31
  %v25 = add i64 %v24, %v5
  %v26 = mul i64 %v25, 31
  %v27 = add i64 %v26, %v7
  %v28 = mul i64 %v27, 31
  %v29 = add i64 %v28, %v12
  %v30 = mul i64 %v29, 31
  %v31 = add i64 %v30, %v17
  %v32 = bitcast float %v10 to i32
  %v33 = zext i32 %v32 to i64
  %v34 = mul i64 %v31, 31
  %v35 = add i64 %v34, %v33
  %v36 = bitcast double %v15 to i64
  %v37 = mul i64 %v35, 31
  %v38 = add i64 %v37, %v36
  ret i64 %v38
}

define i64 @random_5_3(i64 %a, i64 %b) uwtable {
entry:
  %v1 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1015, i32 49, ptr null, i32 0, i64 %a, i64 %b, i64 %b)
  %v2 = mul i64 %a, %a
  %v3 = xor i64 %v2, 2852832667538511055
  %v4 = and i64 %a, 65535
  %v5 = sitofp i64 %v4 to float
  %v6 = fmul float %v5, 1.250000e+00
  call anyregcc void (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.void(i64 1016, i32 64, ptr null, i32 2, i64 %v1, i64 %v3, i64 %v3, i64 %b)
  %v7 = icmp ult i64 %v1, %a
  br i1 %v7, label %then6, label %else6
then6:
  %v8 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1017, i32 32, ptr null, i32 2, i64 %v1, i64 %a, float %v6, i64 %v3, float %v6)
  br label %join6
else6:
  %v9 = sub i64 %v1, %a
  br label %join6
join6:
  %v10 = phi i64 [ %v8, %then6 ], [ %v9, %else6 ]
  %v11 = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1018, i32 50, ptr null, i32 6, i64 %v10, i64 %v1, i64 %v3, i64 %v10, i64 %v3, i64 %a, i64 1311768467463790320, float %v6, i64 5, i64 -1, i64 -1)
  %v12 = add i64 %a, %v10
  %v13 = xor i64 %v12, -3200218032614664575
  %v14 = xor i64 %v11, %v11
  %v15 = xor i64 %v14, 6912957272217175563
  %v16 = and i64 %v11, 65535
  %v17 = sitofp i64 %v16 to double
  %v18 = fmul double %v17, 1.250000e+00
  %v19 = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1019, i32 24, ptr null, i32 2, i64 %v15, i64 %v1, double %v18, i64 5, i64 0, i64 4294967295)
  %v20 = mul i64 17, 31
  %v21 = add i64 %v20, %a
  %v22 = mul i64 %v21, 31
  %v23 = add i64 %v22, %b
  %v24 = mul i64 %v23, 31
  %v25 = add i64 %v24, %v1
  %v26 = mul i64 %v25, 31
  %v27 = add i64 %v26, %v3
  %v28 = mul i64 %v27, 31
  %v29 = add i64 %v28, %v10
  %v30 = mul i64 %v29, 31
  %v31 = add i64 %v30, %v11
  %v32 = mul i64 %v31, 31
  %v33 = add i64 %v32, %v13
  %v34 = mul i64 %v33, 31
  %v35 = add i64 %v34, %v15
  %v36 = mul i64 %v35, 31
  %v37 = add i64 %v36, %v19
  %v38 = bitcast float %v6 to i32
  %v39 = zext i32 %v38 to i64
  %v40 = mul i64 %v37, 31
  %v41 = add i64 %v40, %v39
  %v42 = bitcast double %v18 to i64
  %v43 = mul i64 %v41, 31
  %v44 = add i64 %v43, %v42
  ret i64 %v44
}

define i64 @random_5_4(i64 %a, i64 %b) uwtable {
entry:
  %v1 = alloca i64
  store volatile i64 0, ptr %v1
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 1020, i32 6, i64 -1)
  %v2 = and i64 %b, %a
  %v3 = xor i64 %v2, 1063352065738568509
  store volatile i64 %b, ptr %v1
  %v4 = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1021, i32 47, ptr null, i32 6, i64 %b, i64 %v3, i64 %v3, i64 %b, i64 %v3, i64 %a)
  %v5 = add i64 %v3, %a
  %v6 = xor i64 %v5, 7180925299608360383
  %v7 = insertelement <2 x i64> zeroinitializer, i64 %v3, i32 1
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 1022, i32 4, i64 %v3, i64 %v4, ptr %v1, i64 %v6, <2 x i64> %v7, <2 x i64> %v7)
  %v8 = mul i64 17, 31
  %v9 = add i64 %v8, %a
  %v10 = mul i64 %v9, 31
  %v11 = add i64 %v10, %b
  %v12 = mul i64 %v11, 31
  %v13 = add i64 %v12, %v3
  %v14 = mul i64 %v13, 31
  %v15 = add i64 %v14, %v4
  %v16 = mul i64 %v15, 31
  %v17 = add i64 %v16, %v6
  %v18 = extractelement <2 x i64> %v7, i32 1
  %v19 = mul i64 %v17, 31
  %v20 = add i64 %v19, %v18
  %v21 = load volatile i64, ptr %v1
  %v22 = mul i64 %v20, 31
  %v23 = add i64 %v22, %v21
  ret i64 %v23
}

define i64 @random_5_5(i64 %a, i64 %b) uwtable {
entry:
  %v1 = alloca i64
  store volatile i64 0, ptr %v1
  %v2 = alloca i64
  store volatile i64 0, ptr %v2
  %v3 = alloca i64
  store volatile i64 0, ptr %v3
  %v4 = xor i64 %b, %b
  %v5 = xor i64 %v4, -4837126657783471093
  %v6 = sub i64 %b, %a
  %v7 = xor i64 %v6, 2692769301374326501
  %v8 = insertelement <2 x i64> zeroinitializer, i64 %b, i32 1
  %v9 = and i64 %b, %v7
  %v10 = xor i64 %v9, -4279914075020159937
  %v11 = trunc i64 %b to i32
  %v12 = mul i64 %a, %v10
  %v13 = xor i64 %v12, -3719859924074148407
  %v14 = trunc i64 %a to i16
  %v15 = icmp ult i64 %a, %b
  br i1 %v15, label %then14, label %else14
then14:
  %v16 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1023, i32 32, ptr null, i32 2, i64 %a, i64 %b, i64 1311768467463790320, i32 %v11, i32 %v11, i16 %v14)
  br label %join14
else14:
  %v17 = sub i64 %a, %b
  br label %join14
join14:
  %v18 = phi i64 [ %v16, %then14 ], [ %v17, %else14 ]
  %v19 = xor i64 %a, %v10
  %v20 = xor i64 %v19, 2929174687805144093
  %v21 = trunc i64 %a to i16
  %v22 = sub i64 %v13, %v5
  %v23 = xor i64 %v22, 2652759705557907961
  call anyregcc void (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.void(i64 1024, i32 32, ptr null, i32 2, i64 %a, i64 %v10, i64 5, i64 %v13, i64 4294967295)
  %v24 = mul i64 17, 31
  %v25 = add i64 %v24, %a
  %v26 = mul i64 %v25, 31
  %v27 = add i64 %v26, %b
  %v28 = mul i64 %v27, 31
  %v29 = add i64 %v28, %v5
  %v30 = mul i64 %v29, 31
  %v31 = add i64 %v30, %v7
  %v32 = mul i64 %v31, 31
  %v33 = add i64 %v32, %v10
  %v34 = mul i64 %v33, 31
  %v35 = add i64 %v34, %v13
  %v36 = mul i64 %v35, 31
  %v37 = add i64 %v36, %v18
  %v38 = mul i64 %v37, 31
  %v39 = add i64 %v38, %v20
  %v40 = mul i64 %v39, 31
  %v41 = add i64 %v40, %v23
  %v42 = extractelement <2 x i64> %v8, i32 1
  %v43 = mul i64 %v41, 31
  %v44 = add i64 %v43, %v42
  %v45 = zext i32 %v11 to i64
  %v46 = mul i64 %v44, 31
  %v47 = add i64 %v46, %v45
  %v48 = zext i16 %v14 to i64
  %v49 = mul i64 %v47, 31
  %v50 = add i64 %v49, %v48
  %v51 = zext i16 %v21 to i64
  %v52 = mul i64 %v50, 31
  %v53 = add i64 %v52, %v51
  %v54 = load volatile i64, ptr %v1
  %v55 = mul i64 %v53, 31
  %v56 = add i64 %v55, %v54
  %v57 = load volatile i64, ptr %v2
  %v58 = mul i64 %v56, 31
  %v59 = add i64 %v58, %v57
  %v60 = load volatile i64, ptr %v3
  %v61 = mul i64 %v59, 31
  %v62 = add i64 %v61, %v60
  ret i64 %v62
}
