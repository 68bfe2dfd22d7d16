; Generated: cargo run -p asm-tests --bin gen_ir -- 6
declare i64 @llvm.experimental.patchpoint.i64(i64, i32, ptr, i32, ...)
declare void @llvm.experimental.patchpoint.void(i64, i32, ptr, i32, ...)
declare void @llvm.experimental.stackmap(i64, i32, ...)

define i64 @random_6_0(i64 %a, i64 %b) uwtable {
entry:
  %v1 = alloca i64
  store volatile i64 0, ptr %v1
  %v2 = alloca i64
  store volatile i64 0, ptr %v2
  store volatile i64 %a, ptr %v1
  %v3 = add i64 %a, %a
  %v4 = xor i64 %v3, -1473494671185733097
  store volatile i64 %b, ptr %v1
  %v5 = icmp ult i64 %v4, %b
  br i1 %v5, label %then4, label %else4
then4:
  %v6 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1000, i32 32, ptr null, i32 2, i64 %v4, i64 %b, i64 -1, i64 %b, i64 %v4, i64 %v4)
  br label %join4
else4:
  %v7 = sub i64 %v4, %b
  br label %join4
join4:
  %v8 = phi i64 [ %v6, %then4 ], [ %v7, %else4 ]
  %v9 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1001, i32 38, ptr null, i32 2, i64 %v8, i64 %a, i64 %v8, i64 0)
  store volatile i64 %v8, ptr %v2
  %v10 = xor i64 %a, %v9
  %v11 = xor i64 %v10, 4276192003954217871
  %v12 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1002, i32 54, ptr null, i32 0, i64 %v9, i64 %v4)
  %v13 = mul i64 17, 31
  %v14 = add i64 %v13, %a
  %v15 = mul i64 %v14, 31
  %v16 = add i64 %v15, %b
  %v17 = mul i64 %v16, 31
  %v18 = add i64 %v17, %v4
  %v19 = mul i64 %v18, 31
  %v20 = add i64 %v19, %v8
  %v21 = mul i64 %v20, 31
  %v22 = add i64 %v21, %v9
  %v23 = mul i64 %v22, 31
  %v24 = add i64 %v23, %v11
  %v25 = mul i64 %v24, 31
  %v26 = add i64 %v25, %v12
  %v27 = load volatile i64, ptr %v1
  %v28 = mul i64 %v26, 31
  %v29 = add i64 %v28, %v27
  %v30 = load volatile i64, ptr %v2
  %v31 = mul i64 %v29, 31
  %v32 = add i64 %v31, %v30
  ret i64 %v32
}

define i64 @random_6_1(i64 %a, i64 %b) uwtable {
entry:
  %v1 = alloca i64
  store volatile i64 0, ptr %v1
  %v2 = xor i64 %b, %b
  %v3 = xor i64 %v2, 3633563427760808565
  %v4 = mul i64 %a, %v3
  %v5 = xor i64 %v4, 5380587332986315297
  %v6 = trunc i64 %a to i32
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 1003, i32 9)
  %v7 = mul i64 %a, %a
  %v8 = xor i64 %v7, 366957095230744979
  %v9 = trunc i64 %a to i32
  %v10 = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1004, i32 57, ptr null, i32 4, i64 %v8, i64 %a, i64 %b, i64 %v5)
  %v11 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1005, i32 26, ptr null, i32 1, i64 %b, i32 %v6, ptr %v1)
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 1006, i32 28)
  %v12 = icmp ult i64 %a, %b
  br i1 %v12, label %then11, label %else11
then11:
  %v13 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1007, i32 32, ptr null, i32 2, i64 %a, i64 %b, i64 %v3, i64 4294967295, i64 %v3, i64 %v3)
  br label %join11
else11:
  %v14 = sub i64 %a, %b
  br label %join11
join11:
  %v15 = phi i64 [ %v13, %then11 ], [ %v14, %else11 ]
  %v16 = or i64 %v3, %b
  %v17 = xor i64 %v16, -5784204329861995689
  call anyregcc void (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.void(i64 1008, i32 47, ptr null, i32 3, i64 %v3, i64 %v8, i64 %b, i64 %v5)
  %v18 = mul i64 17, 31
  %v19 = add i64 %v18, %a
  %v20 = mul i64 %v19, 31
  %v21 = add i64 %v20, %b
  %v22 = mul i64 %v21, 31
  %v23 = add i64 %v22, %v3
  %v24 = mul i64 %v23, 31
  %v25 = add i64 %v24, %v5
  %v26 = mul i64 %v25, 31
  %v27 = add i64 %v26, %v8
  %v28 = mul i64 %v27, 31
  %v29 = add i64 %v28, %v10
  %v30 = mul i64 %v29, 31
  %v31 = add i64 %v30, %v11
  %v32 = mul i64 %v31, 31
  %v33 = add i64 %v32, %v15
  %v34 = mul i64 %v33, 31
  %v35 = add i64 %v34, %v17
  %v36 = zext i32 %v6 to i64
  %v37 = mul i64 %v35, 31
  %v38 = add i64 %v37, %v36
  %v39 = zext i32 %v9 to i64
  %v40 = mul i64 %v38, 31
  %v41 = add i64 %v40, %v39
  %v42 = load volatile i64, ptr %v1
  %v43 = mul i64 %v41, 31
  %v44 = add i64 %v43, %v42
  ret i64 %v44
}

define i64 @random_6_2(i64 %a, i64 %b) uwtable {
entry:
  %v1 = alloca i64
  store volatile i64 0, ptr %v1
  %v2 = alloca i64
  store volatile i64 0, ptr %v2
  %v3 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1009, i32 53, ptr null, i32 3, i64 %b, i64 %a, i64 %a, ptr %v2, i64 5, i64 %b)
  call anyregcc void (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.void(i64 1010, i32 48, ptr null, i32 2, i64 %a, i64 %a, i64 %a, i64 %v3)
  store volatile i64 %a, ptr %v2
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 1011, i32 26, i64 %a, i64 5, i64 0)
  call anyregcc void (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.void(i64 1012, i32 49, ptr null, i32 1, i64 %a)
  %v4 = icmp ult i64 %v3, %a
  br i1 %v4, label %then3, label %else3
then3:
  %v5 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1013, i32 32, ptr null, i32 2, i64 %v3, i64 %a, i64 -1, i64 -2147483649, i64 %b)
  br label %join3
else3:
  %v6 = sub i64 %v3, %a
  br label %join3
join3:
  %v7 = phi i64 [ %v5, %then3 ], [ %v6, %else3 ]
  %v8 = sub i64 %b, %a
  %v9 = xor i64 %v8, 2213040482276536845
  call anyregcc void (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.void(i64 1014, i32 32, ptr null, i32 3, i64 %v3, i64 %v7, i64 %v7, ptr %v2, ptr %v1, i64 %v9, ptr %v2, i64 1311768467463790320)
  %v10 = xor i64 %v7, %v9
  %v11 = xor i64 %v10, 1787868961274544585
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 1015, i32 19)
  %v12 = mul i64 17, 31
  %v13 = add i64 %v12, %a
  %v14 = mul i64 %v13, 31
  %v15 = add i64 %v14, %b
  %v16 = mul i64 %v15, 31
  %v17 = add i64 %v16, %v3
  %v18 = mul i64 %v17, 31
  %v19 = add i64 %v18, %v7
  %v20 = mul i64 %v19, 31
  %v21 = add i64 %v20, %v9
  %v22 = mul i64 %v21, 31
  %v23 = add i64 %v22, %v11
  %v24 = load volatile i64, ptr %v1
  %v25 = mul i64 %v23, 31
  %v26 = add i64 %v25, %v24
  %v27 = load volatile i64, ptr %v2
  %v28 = mul i64 %v26, 31
  %v29 = add i64 %v28, %v27
  ret i64 %v29
}

define i64 @random_6_3(i64 %a, i64 %b) uwtable {
entry:
  %v1 = alloca i64
  store volatile i64 0, ptr %v1
  %v2 = xor i64 %a, %b
  %v3 = xor i64 %v2, 7778079048535779407
  %v4 = xor i64 %v3, %a
  %v5 = xor i64 %v4, -3678916100741287267
  %v6 = trunc i64 %v3 to i16
  call anyregcc void (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.void(i64 1016, i32 53, ptr null, i32 2, i64 %v3, i64 %a, i64 5, i64 %b, i16 %v6, i64 -1, i64 4294967295, i64 %v5, i64 -1)
  %v7 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1017, i32 49, ptr null, i32 0, i16 %v6, i64 -2147483649, i64 %v5, i16 %v6)
  %v8 = and i64 %v5, %b
  %v9 = xor i64 %v8, 7695166323626430259
  %v10 = add i64 %v9, %v5
  %v11 = xor i64 %v10, -3902604929302648833
  call void (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.void(i64 1018, i32 58, ptr null, i32 4, i64 %v7, i64 %v7, i64 %v5, i64 %v11, i64 %v11, ptr %v1, ptr %v1)
  %v12 = mul i64 17, 31
  %v13 = add i64 %v12, %a
  %v14 = mul i64 %v13, 31
  %v15 = add i64 %v14, %b
  %v16 = mul i64 %v15, 31
  %v17 = add i64 %v16, %v3
  %v18 = mul i64 %v17, 31
  %v19 = add i64 %v18, %v5
  %v20 = mul i64 %v19, 31
  %v21 = add i64 %v20, %v7
  %v22 = mul i64 %v21, 31
  %v23 = add i64 %v22, %v9
  %v24 = mul i64 %v23, 31
  %v25 = add i64 %v24, %v11
  %v26 = zext i16 %v6 to i64
  %v27 = mul i64 %v25, 31
  %v28 = add i64 %v27, %v26
  %v29 = load volatile i64, ptr %v1
  %v30 = mul i64 %v28, 31
  %v31 = add i64 %v30, %v29
  ret i64 %v31
}

define i64 @random_6_4(i64 %a, i64 %b) uwtable {
entry:
  %v1 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1019, i32 63, ptr null, i32 1, i64 %b, i64 %b, i64 %b, i64 %b)
  %v2 = sub i64 %v1, %b
  %v3 = xor i64 %v2, -1556356386014848053
  %v4 = icmp ult i64 %v3, %b
  br i1 %v4, label %then3, label %else3
then3:
  %v5 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1020, i32 32, ptr null, i32 2, i64 %v3, i64 %b, i64 0, i64 %a, i64 %v3)
  br label %join3
else3:
  %v6 = sub i64 %v3, %b
  br label %join3
join3:
  %v7 = phi i64 [ %v5, %then3 ], [ %v6, %else3 ]
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 1021, i32 24, i64 5, i64 %a, i64 %v3, i64 0)
  %v8 = xor i64 %a, %a
  %v9 = xor i64 %v8, -8231755006809987269
  %v10 = mul i64 %v3, %b
  %v11 = xor i64 %v10, -298503558580423799
  %v12 = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1022, i32 49, ptr null, i32 7, i64 %v3, i64 %v7, i64 %v11, i64 %v9, i64 %v3, i64 %v11, i64 %v3)
  %v13 = xor i64 %v3, %v12
  %v14 = xor i64 %v13, -7884361650984314609
  %v15 = add i64 %a, %v9
  %v16 = xor i64 %v15, -1362187478813952417
  call anyregcc void (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.void(i64 1023, i32 54, ptr null, i32 4, i64 %v12, i64 %v3, i64 %v7, i64 %v7, i64 %a, i64 %b, i64 -1)
  %v17 = mul i64 17, 31
  %v18 = add i64 %v17, %a
  %v19 = mul i64 %v18, 31
  %v20 = add i64 %v19, %b
  %v21 = mul i64 %v20, 31
  %v22 = add i64 %v21, %v1
  %v23 = mul i64 %v22, 31
  %v24 = add i64 %v23, %v3
  %v25 = mul i64 %v24, 31
  %v26 = add i64 %v25, %v7
  %v27 = mul i64 %v26, 31
  %v28 = add i64 %v27, %v9
  %v29 = mul i64 %v28, 31
  %v30 = add i64 %v29, %v11
  %v31 = mul i64 %v30, 31
  %v32 = add i64 %v31, %v12
  %v33 = mul i64 %v32, 31
  %v34 = add i64 %v33, %v14
  %v35 = mul i64 %v34, 31
  %v36 = add i64 %v35, %v16
  ret i64 %v36
}

define i64 @random_6_5(i64 %a, i64 %b) uwtable {
entry:
  %v1 = icmp ult i64 %a, %b
  br i1 %v1, label %then0, label %else0
then0:
  %v2 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1024, i32 32, ptr null, i32 2, i64 %a, i64 %b, i64 %a, i64 %a, i64 0)
  br label %join0
else0:
  %v3 = sub i64 %a, %b
  br label %join0
join0:
  %v4 = phi i64 [ %v2, %then0 ], [ %v3, %else0 ]
  %v5 = sub i64 %v4, %b
  %v6 = xor i64 %v5, -457232627170892411
  %v7 = trunc i64 %v4 to i16
  %v8 = mul i64 %b, %v6
  %v9 = xor i64 %v8, 1660408331776090031
  %v10 = xor i64 %v9, %a
  %v11 = xor i64 %v10, 5188568652898125097
  %v12 = icmp ult i64 %a, %a
  br i1 %v12, label %then11, label %else11
then11:
  %v13 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1025, i32 32, ptr null, i32 2, i64 %a, i64 %a, i64 %v9, i64 5, i64 4294967295, i64 4294967295)
  br label %join11
else11:
  %v14 = sub i64 %a, %a
  br label %join11
join11:
  %v15 = phi i64 [ %v13, %then11 ], [ %v14, %else11 ]
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 1026, i32 1, i64 %a, i64 5)
  %v16 = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1027, i32 57, ptr null, i32 5, i64 %v9, i64 %b, i64 %b, i64 %v9, i64 %v4, i16 %v7, i64 %a, i64 4294967295, i64 0, i64 5, i64 -2147483649)
  %v17 = mul i64 %v4, %v4
  %v18 = xor i64 %v17, 69524135216923047
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 1028, i32 11, i64 %v6, i64 %v9, i64 4294967295, i64 5, i64 0, i64 %v18, i64 -2147483649)
  %v19 = mul i64 17, 31
  %v20 = add i64 %v19, %a
  %v21 = mul i64 %v20, 31
  %v22 = add i64 %v21, %b
  %v23 = mul i64 %v22, 31
  %v24 = add i64 %v23, %v4
  %v25 = mul i64 %v24, 31
  %v26 = add i64 %v25, %v6
  %v27 = mul i64 %v26, 31
  %v28 = add i64 %v27, %v9
  %v29 = mul i64 %v28, 31
  %v30 = add i64 %v29, %v11
  %v31 = mul i64 %v30, 31
  %v32 = add i64 %v31, %v15
  %v33 = mul i64 %v32, 31
  %v34 = add i64 %v33, %v16
  %v35 = mul i64 %v34, 31
  %v36 = add i64 %v35, %v18
  %v37 = zext i16 %v7 to i64
  %v38 = mul i64 %v36, 31
  %v39 = add i64 %v38, %v37
  ret i64 %v39
}
