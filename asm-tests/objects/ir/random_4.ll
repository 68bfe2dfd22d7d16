; Generated: cargo run -p asm-tests --bin gen_ir -- 4
declare i64 @llvm.experimental.patchpoint.i64(i64, i32, ptr, i32, ...)
declare void @llvm.experimental.patchpoint.void(i64, i32, ptr, i32, ...)
declare void @llvm.experimental.stackmap(i64, i32, ...)

define i64 @random_4_0(i64 %a, i64 %b) uwtable {
entry:
  %v1 = alloca i64
  store volatile i64 0, ptr %v1
  %v2 = alloca i64
  store volatile i64 0, ptr %v2
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 1000, i32 9, i64 %b, i64 %a)
  call void (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.void(i64 1001, i32 53, ptr null, i32 0, i64 -2147483649, i64 -2147483649)
  call anyregcc void (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.void(i64 1002, i32 42, ptr null, i32 3, i64 %b, i64 %a, i64 %b, ptr %v2)
  %v3 = add i64 %b, %b
  %v4 = xor i64 %v3, -4811210716713563645
  %v5 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1003, i32 48, ptr null, i32 1, i64 %b, i64 %b)
  store volatile i64 %v4, ptr %v2
  %v6 = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1004, i32 61, ptr null, i32 1, i64 %v5, i64 %v5, i64 4294967295, i64 0, i64 0, i64 %b, i64 %v5)
  %v7 = icmp ult i64 %v6, %v6
  br i1 %v7, label %then6, label %else6
then6:
  %v8 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1005, i32 32, ptr null, i32 2, i64 %v6, i64 %v6, i64 0, ptr %v2, i64 %a, i64 5)
  br label %join6
else6:
  %v9 = sub i64 %v6, %v6
  br label %join6
join6:
  %v10 = phi i64 [ %v8, %then6 ], [ %v9, %else6 ]
  %v11 = or i64 %a, %v6
  %v12 = xor i64 %v11, 2964392265782048523
  %v13 = sub i64 %v10, %v12
  %v14 = xor i64 %v13, 4680194248218449759
  %v15 = trunc i64 %v10 to i16
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 1006, i32 5, ptr %v2, i16 %v15)
  %v16 = mul i64 17, 31
  %v17 = add i64 %v16, %a
  %v18 = mul i64 %v17, 31
  %v19 = add i64 %v18, %b
  %v20 = mul i64 %v19, 31
  %v21 = add i64 %v20, %v4
  %v22 = mul i64 %v21, 31
  %v23 = add i64 %v22, %v5
  %v24 = mul i64 %v23, 31
  %v25 = add i64 %v24, %v6
  %v26 = mul i64 %v25, 31
  %v27 = add i64 %v26, %v10
  %v28 = mul i64 %v27, 31
  %v29 = add i64 %v28, %v12
  %v30 = mul i64 %v29, 31
  %v31 = add i64 %v30, %v14
  %v32 = zext i16 %v15 to i64
  %v33 = mul i64 %v31, 31
  %v34 = add i64 %v33, %v32
  %v35 = load volatile i64, ptr %v1
  %v36 = mul i64 %v34, 31
  %v37 = add i64 %v36, %v35
  %v38 = load volatile i64, ptr %v2
  %v39 = mul i64 %v37, 31
  %v40 = add i64 %v39, %v38
  ret i64 %v40
}

define i64 @random_4_1(i64 %a, i64 %b) uwtable {
entry:
  %v1 = alloca i64
  store volatile i64 0, ptr %v1
  %v2 = alloca i64
  store volatile i64 0, ptr %v2
  %v3 = alloca i64
  store volatile i64 0, ptr %v3
  store volatile i64 %a, ptr %v2
  %v4 = or i64 %b, %b
  %v5 = xor i64 %v4, -3402971781678464017
  %v6 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1007, i32 32, ptr null, i32 0, ptr %v3, i64 %v5, i64 -1)
  %v7 = icmp ult i64 %a, %a
  br i1 %v7, label %then6, label %else6
then6:
  %v8 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1008, i32 32, ptr null, i32 2, i64 %a, i64 %a, i64 1311768467463790320, i64 %v6)
  br label %join6
else6:
  %v9 = sub i64 %a, %a
  br label %join6
join6:
  %v10 = phi i64 [ %v8, %then6 ], [ %v9, %else6 ]
  %v11 = or i64 %v6, %v5
  %v12 = xor i64 %v11, -2693233763853393845
  %v13 = trunc i64 %v6 to i32
  call void (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.void(i64 1009, i32 40, ptr null, i32 4, i64 %v12, i64 %v6, i64 %v10, i64 %a, i64 5, i64 %v6, i32 %v13)
  %v14 = sub i64 %v10, %v10
  %v15 = xor i64 %v14, -6972774254589672489
  %v16 = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1010, i32 48, ptr null, i32 3, i64 %v5, i64 %v5, i64 %v5, i64 %v6, i64 5, i64 0, i32 %v13, i32 %v13, ptr %v2)
  %v17 = mul i64 17, 31
  %v18 = add i64 %v17, %a
  %v19 = mul i64 %v18, 31
  %v20 = add i64 %v19, %b
  %v21 = mul i64 %v20, 31
  %v22 = add i64 %v21, %v5
  %v23 = mul i64 %v22, 31
  %v24 = add i64 %v23, %v6
  %v25 = mul i64 %v24, 31
  %v26 = add i64 %v25, %v10
  %v27 = mul i64 %v26, 31
  %v28 = add i64 %v27, %v12
  %v29 = mul i64 %v28, 31
  %v30 = add i64 %v29, %v15
  %v31 = mul i64 %v30, 31
  %v32 = add i64 %v31, %v16
  %v33 = zext i32 %v13 to i64
  %v34 = mul i64 %v32, 31
  %v35 = add i64 %v34, %v33
  %v36 = load volatile i64, ptr %v1
  %v37 = mul i64 %v35, 31
  %v38 = add i64 %v37, %v36
  %v39 = load volatile i64, ptr %v2
  %v40 = mul i64 %v38, 31
  %v41 = add i64 %v40, %v39
  %v42 = load volatile i64, ptr %v3
  %v43 = mul i64 %v41, 31
  %v44 = add i64 %v43, %v42
  ret i64 %v44
}

define i64 @random_4_2(i64 %a, i64 %b) uwtable {
entry:
  %v1 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1011, i32 24, ptr null, i32 2, i64 %a, i64 %b, i64 1311768467463790320, i64 %a, i64 -2147483649)
  %v2 = and i64 %a, %b
  %v3 = xor i64 %v2, 1934877864474915361
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 1012, i32 28, i64 %b)
  %v4 = xor i64 %a, %v3
  %v5 = xor i64 %v4, -2854838293436486819
  %v6 = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1013, i32 47, ptr null, i32 2, i64 %a, i64 %v3, i64 -1, i64 0)
  %v7 = sub i64 %a, %v3
  %v8 = xor i64 %v7, 69100860763505811
  %v9 = icmp ult i64 %v3, %a
  br i1 %v9, label %then8, label %else8
then8:
  %v10 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1014, i32 32, ptr null, i32 2, i64 %v3, i64 %a, i64 %v6, i64 4294967295, i64 %b, i64 4294967295)
  br label %join8
else8:
  %v11 = sub i64 %v3, %a
  br label %join8
join8:
  %v12 = phi i64 [ %v10, %then8 ], [ %v11, %else8 ]
  %v13 = or i64 %v1, %v6
  %v14 = xor i64 %v13, 8715860138224887281
  %v15 = add i64 %a, %v5
  %v16 = xor i64 %v15, -2401552855590248079
  call anyregcc void (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.void(i64 1015, i32 53, ptr null, i32 3, i64 %a, i64 %v8, i64 %v12, i64 0, i64 %v14)
  %v17 = mul i64 17, 31
  %v18 = add i64 %v17, %a
  %v19 = mul i64 %v18, 31
  %v20 = add i64 %v19, %b
  %v21 = mul i64 %v20, 31
  %v22 = add i64 %v21, %v1
  %v23 = mul i64 %v22, 31
  %v24 = add i64 %v23, %v3
  %v25 = mul i64 %v24, 31
  %v26 = add i64 %v25, %v5
  %v27 = mul i64 %v26, 31
  %v28 = add i64 %v27, %v6
  %v29 = mul i64 %v28, 31
  %v30 = add i64 %v29, %v8
  %v31 = mul i64 %v30, 31
  %v32 = add i64 %v31, %v12
  %v33 = mul i64 %v32, 31
  %v34 = add i64 %v33, %v14
  %v35 = mul i64 %v34, 31
  %v36 = add i64 %v35, %v16
  ret i64 %v36
}

define i64 @random_4_3(i64 %a, i64 %b) uwtable {
entry:
  %v1 = alloca i64
  store volatile i64 0, ptr %v1
  %v2 = alloca i64
  store volatile i64 0, ptr %v2
  %v3 = alloca i64
  store volatile i64 0, ptr %v3
  store volatile i64 %a, ptr %v2
  %v4 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1016, i32 54, ptr null, i32 0, i64 %b, i64 %a, i64 %b, i64 %a, i64 %b, i64 %b, i64 %a, i64 -2147483649)
  %v5 = and i64 %a, %b
  %v6 = xor i64 %v5, -8648582715984221279
  %v7 = and i64 %b, %v4
  %v8 = xor i64 %v7, -2755130956511877597
  %v9 = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1017, i32 27, ptr null, i32 1, i64 %v4, i64 %b, i64 %a, ptr %v1)
  %v10 = sub i64 %v4, %v9
  %v11 = xor i64 %v10, -5228215900473701921
  %v12 = trunc i64 %v4 to i8
  %v13 = add i64 %v8, %v4
  %v14 = xor i64 %v13, 8186218714506075581
  %v15 = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1018, i32 54, ptr null, i32 6, i64 %v4, i64 %v6, i64 %v9, i64 %v8, i64 %a, i64 %v9, i64 %v11)
  %v16 = mul i64 17, 31
  %v17 = add i64 %v16, %a
  %v18 = mul i64 %v17, 31
  %v19 = add i64 %v18, %b
  %v20 = mul i64 %v19, 31
  %v21 = add i64 %v20, %v4
  %v22 = mul i64 %v21, 31
  %v23 = add i64 %v22, %v6
  %v24 = mul i64 %v23, 31
  %v25 = add i64 %v24, %v8
  %v26 = mul i64 %v25, 31
  %v27 = add i64 %v26, %v9
  %v28 = mul i64 %v27, 31
  %v29 = add i64 %v28, %v11
  %v30 = mul i64 %v29, 31
  %v31 = add i64 %v30, %v14
  %v32 = mul i64 %v31, 31
  %v33 = add i64 %v32, %v15
  %v34 = zext i8 %v12 to i64
  %v35 = mul i64 %v33, 31
  %v36 = add i64 %v35, %v34
  %v37 = load volatile i64, ptr %v1
  %v38 = mul i64 %v36, 31
  %v39 = add i64 %v38, %v37
  %v40 = load volatile i64, ptr %v2
  %v41 = mul i64 %v39, 31
  %v42 = add i64 %v41, %v40
  %v43 = load volatile i64, ptr %v3
  %v44 = mul i64 %v42, 31
  %v45 = add i64 %v44, %v43
  ret i64 %v45
}

define i64 @random_4_4(i64 %a, i64 %b) uwtable {
entry:
  %v1 = alloca i64
  store volatile i64 0, ptr %v1
  %v2 = alloca i64
  store volatile i64 0, ptr %v2
  %v3 = icmp ult i64 %b, %a
  br i1 %v3, label %then2, label %else2
then2:
  %v4 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1019, i32 32, ptr null, i32 2, i64 %b, i64 %a, i64 %b, i64 -1, i64 %b, i64 0)
  br label %join2
else2:
  %v5 = sub i64 %b, %a
  br label %join2
join2:
  %v6 = phi i64 [ %v4, %then2 ], [ %v5, %else2 ]
  %v7 = or i64 %a, %v6
  %v8 = xor i64 %v7, -5702566867076415521
  %v9 = trunc i64 %a to i32
  %v10 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1020, i32 42, ptr null, i32 0, i64 %a, ptr %v2)
  %v11 = or i64 %v6, %v8
  %v12 = xor i64 %v11, -3207140849580648215
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 1021, i32 18, i64 1311768467463790320, ptr %v1)
  %v13 = sub i64 %v10, %v6
  %v14 = xor i64 %v13, 3522218737901069401
  store volatile i64 %v14, ptr %v2
  store volatile i64 %v10, ptr %v2
  %v15 = icmp ult i64 %v14, %a
  br i1 %v15, label %then14, label %else14
then14:
  %v16 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1022, i32 32, ptr null, i32 2, i64 %v14, i64 %a, i64 %a, i64 %v10, i32 %v9, i64 %a)
  br label %join14
else14:
  %v17 = sub i64 %v14, %a
  br label %join14
join14:
  %v18 = phi i64 [ %v16, %then14 ], [ %v17, %else14 ]
  %v19 = sub i64 %b, %v18
  %v20 = xor i64 %v19, -6345943956217378161
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 1023, i32 20, i64 %v8, i64 %v10, i64 %a, ptr %v1, i64 %b, i64 %v20)
  %v21 = mul i64 17, 31
  %v22 = add i64 %v21, %a
  %v23 = mul i64 %v22, 31
  %v24 = add i64 %v23, %b
  %v25 = mul i64 %v24, 31
  %v26 = add i64 %v25, %v6
  %v27 = mul i64 %v26, 31
  %v28 = add i64 %v27, %v8
  %v29 = mul i64 %v28, 31
  %v30 = add i64 %v29, %v10
  %v31 = mul i64 %v30, 31
  %v32 = add i64 %v31, %v12
  %v33 = mul i64 %v32, 31
  %v34 = add i64 %v33, %v14
  %v35 = mul i64 %v34, 31
  %v36 = add i64 %v35, %v18
  %v37 = mul i64 %v36, 31
  %v38 = add i64 %v37, %v20
  %v39 = zext i32 %v9 to i64
  %v40 = mul i64 %v38, 31
  %v41 = add i64 %v40, %v39
  %v42 = load volatile i64, ptr %v1
  %v43 = mul i64 %v41, 31
  %v44 = add i64 %v43, %v42
  %v45 = load volatile i64, ptr %v2
  %v46 = mul i64 %v44, 31
  %v47 = add i64 %v46, %v45
  ret i64 %v47
}

define i64 @random_4_5(i64 %a, i64 %b) uwtable {
entry:
  %v1 = alloca i64
  store volatile i64 0, ptr %v1
  %v2 = alloca i64
  store volatile i64 0, ptr %v2
  %v3 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1024, i32 60, ptr null, i32 2, i64 %b, i64 %a)
  %v4 = icmp ult i64 %a, %v3
  br i1 %v4, label %then3, label %else3
then3:
  %v5 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1025, i32 32, ptr null, i32 2, i64 %a, i64 %v3, i64 -1, i64 %b, i64 -1)
  br label %join3
else3:
  %v6 = sub i64 %a, %v3
  br label %join3
join3:
  %v7 = phi i64 [ %v5, %then3 ], [ %v6, %else3 ]
  %v8 = icmp ult i64 %v7, %b
  br i1 %v8, label %then7, label %else7
then7:
  %v9 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1026, i32 32, ptr null, i32 2, i64 %v7, i64 %b, ptr %v2, i64 %a, i64 %v7, i64 -2147483649)
  br label %join7
else7:
  %v10 = sub i64 %v7, %b
  br label %join7
join7:
  %v11 = phi i64 [ %v9, %then7 ], [ %v10, %else7 ]
  %v12 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1027, i32 31, ptr null, i32 0, i64 %v11, i64 %b, i64 %v11, ptr %v2)
  %v13 = or i64 %a, %v3
  %v14 = xor i64 %v13, 7919323757072734789
  %v15 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1028, i32 40, ptr null, i32 2, i64 %v7, i64 %v3, ptr %v2, i64 %v11, ptr %v1, i64 %v14, i64 %v7, i64 %v3)
  %v16 = icmp ult i64 %v15, %a
  br i1 %v16, label %then15, label %else15
then15:
  %v17 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1029, i32 32, ptr null, i32 2, i64 %v15, i64 %a, ptr %v1, i64 %v11, i64 %a)
  br label %join15
else15:
  %v18 = sub i64 %v15, %a
  br label %join15
join15:
  %v19 = phi i64 [ %v17, %then15 ], [ %v18, %else15 ]
  %v20 = icmp ult i64 %v12, %v3
  br i1 %v20, label %then19, label %else19
then19:
  %v21 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1030, i32 32, ptr null, i32 2, i64 %v12, i64 %v3, i64 1311768467463790320, i64 %a, ptr %v1, i64 %v3)
  br label %join19
else19:
  %v22 = sub i64 %v12, %v3
  br label %join19
join19:
  %v23 = phi i64 [ %v21, %then19 ], [ %v22, %else19 ]
  %v24 = sub i64 %b, %b
  %v25 = xor i64 %v24, 4228921413997902213
  %v26 = xor i64 %v12, %v25
  %v27 = xor i64 %v26, -6537218066562255955
  %v28 = trunc i64 %v12 to i16
  %v29 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1031, i32 30, ptr null, i32 3, i64 %v25, i64 %v19, i64 %b, i16 %v28, i64 %v14, i16 %v28, i64 %v27, i64 5, i64 5, i64 5)
  %v30 = mul i64 17, 31
  %v31 = add i64 %v30, %a
  %v32 = mul i64 %v31, 31
  %v33 = add i64 %v32, %b
  %v34 = mul i64 %v33, 31
  %v35 = add i64 %v34, %v3
  %v36 = mul i64 %v35, 31
  %v37 = add i64 %v36, %v7
  %v38 = mul i64 %v37, 31
  %v39 = add i64 %v38, %v11
  %v40 = mul i64 %v39, 31
  %v41 = add i64 %v40, %v12
  %v42 = mul i64 %v41, 31
  %v43 = add i64 %v42, %v14
  %v44 = mul i64 %v43, 31
  %v45 = add i64 %v44, %v15
  %v46 = mul i64 %v45, 31
  %v47 = add i64 %v46, %v19
  %v48 = mul i64 %v47, 31
  %v49 = add i64 %v48, %v23
  %v50 = mul i64 %v49, 31
  %v51 = add i64 %v50, %v25
  %v52 = mul i64 %v51, 31
  %v53 = add i64 %v52, %v27
  %v54 = mul i64 %v53, 31
  %v55 = add i64 %v54, %v29
  %v56 = zext i16 %v28 to i64
  %v57 = mul i64 %v55, 31
  %v58 = add i64 %v57, %v56
  %v59 = load volatile i64, ptr %v1
  %v60 = mul i64 %v58, 31
  %v61 = add i64 %v60, %v59
  %v62 = load volatile i64, ptr %v2
  %v63 = mul i64 %v61, 31
  %v64 = add i64 %v63, %v62
  ret i64 %v64
}
