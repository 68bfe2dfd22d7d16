; Generated: cargo run -p asm-tests --bin gen_ir -- 8
declare i64 @llvm.experimental.patchpoint.i64(i64, i32, ptr, i32, ...)
declare void @llvm.experimental.patchpoint.void(i64, i32, ptr, i32, ...)
declare void @llvm.experimental.stackmap(i64, i32, ...)

define i64 @random_8_0(i64 %a, i64 %b) uwtable {
entry:
  %v1 = alloca i64
  store volatile i64 0, ptr %v1
  %v2 = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1000, i32 40, ptr null, i32 0, i64 %b, i64 4294967295, i64 %b, i64 %b, i64 0, i64 %a)
  %v3 = xor i64 %v2, %b
  %v4 = xor i64 %v3, 9037439404215629175
  %v5 = trunc i64 %v2 to i32
  %v6 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1001, i32 30, ptr null, i32 1, i64 %v2, i64 %v2, i64 -1, i64 %b, i64 %b, i64 %a, i32 %v5, ptr %v1)
  %v7 = sub i64 %v4, %v4
  %v8 = xor i64 %v7, 8966969780597138987
  %v9 = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1002, i32 58, ptr null, i32 5, i64 %v6, i64 %v2, i64 %v2, i64 %v8, i64 %v8, i64 %v6, i64 %a, i64 -2147483649, i64 -2147483649, i64 5, i64 -1, i64 4294967295, i64 -1)
  store volatile i64 %v6, ptr %v1
  %v10 = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1003, i32 30, ptr null, i32 6, i64 %v8, i64 %v9, i64 %a, i64 %v2, i64 %v6, i64 %v4, i64 -1, i64 %v4)
  %v11 = icmp ult i64 %v2, %v6
  br i1 %v11, label %then10, label %else10
then10:
  %v12 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1004, i32 32, ptr null, i32 2, i64 %v2, i64 %v6, i64 -1, i32 %v5, i64 %v2, i64 %v2)
  br label %join10
else10:
  %v13 = sub i64 %v2, %v6
  br label %join10
join10:
  %v14 = phi i64 [ %v12, %then10 ], [ %v13, %else10 ]
  %v15 = xor i64 %v14, %v4
  %v16 = xor i64 %v15, 7334866711056440505
  %v17 = trunc i64 %v14 to i8
  %v18 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1005, i32 35, ptr null, i32 4, i64 %v16, i64 %v10, i64 %v10, i64 %v8, i32 %v5)
  %v19 = mul i64 17, 31
  %v20 = add i64 %v19, %a
  %v21 = mul i64 %v20, 31
  %v22 = add i64 %v21, %b
  %v23 = mul i64 %v22, 31
  %v24 = add i64 %v23, %v2
  %v25 = mul i64 %v24, 31
  %v26 = add i64 %v25, %v4
  %v27 = mul i64 %v26, 31
  %v28 = add i64 %v27, %v6
  %v29 = mul i64 %v28, 31
  %v30 = add i64 %v29, %v8
  %v31 = mul i64 %v30, 31
  %v32 = add i64 %v31, %v9
  %v33 = mul i64 %v32, 31
  %v34 = add i64 %v33, %v10
  %v35 = mul i64 %v34, 31
  %v36 = add i64 %v35, %v14
  %v37 = mul i64 %v36, 31
  %v38 = add i64 %v37, %v16
  %v39 = mul i64 %v38, 31
  %v40 = add i64 %v39, %v18
  %v41 = zext i32 %v5 to i64
  %v42 = mul i64 %v40, 31
  %v43 = add i64 %v42, %v41
  %v44 = zext i8 %v17 to i64
  %v45 = mul i64 %v43, 31
  %v46 = add i64 %v45, %v44
  %v47 = load volatile i64, ptr %v1
  %v48 = mul i64 %v46, 31
  %v49 = add i64 %v48, %v47
  ret i64 %v49
}

define i64 @random_8_1(i64 %a, i64 %b) uwtable {
entry:
  %v1 = alloca i64
  store volatile i64 0, ptr %v1
  %v2 = and i64 %a, %a
  %v3 = xor i64 %v2, -5687849807078257085
  %v4 = icmp ult i64 %b, %b
  br i1 %v4, label %then3, label %else3
then3:
  %v5 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1006, i32 32, ptr null, i32 2, i64 %b, i64 %b, i64 %a, i64 %b, ptr %v1, ptr %v1)
  br label %join3
else3:
  %v6 = sub i64 %b, %b
  br label %join3
join3:
  %v7 = phi i64 [ %v5, %then3 ], [ %v6, %else3 ]
  %v8 = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1007, i32 55, ptr null, i32 6, i64 %v7, i64 %v3, i64 %v7, i64 %b, i64 %b, i64 %v7, ptr %v1, i64 5, i64 %v3, i64 0, i64 1311768467463790320)
  store volatile i64 %v7, ptr %v1
  %v9 = xor i64 %v3, %b
  %v10 = xor i64 %v9, -1609174807199452135
  %v11 = xor i64 %v10, %v10
  %v12 = xor i64 %v11, -957130159980353977
  %v13 = trunc i64 %v10 to i8
  %v14 = add i64 %a, %v3
  %v15 = xor i64 %v14, 4618276286353234871
  store volatile i64 %v3, ptr %v1
  store volatile i64 %b, ptr %v1
  %v16 = add i64 %v3, %v3
  %v17 = xor i64 %v16, -4640311129576018067
  %v18 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1008, i32 61, ptr null, i32 0)
  %v19 = mul i64 17, 31
  %v20 = add i64 %v19, %a
  %v21 = mul i64 %v20, 31
  %v22 = add i64 %v21, %b
  %v23 = mul i64 %v22, 31
  %v24 = add i64 %v23, %v3
  %v25 = mul i64 %v24, 31
  %v26 = add i64 %v25, %v7
  %v27 = mul i64 %v26, 31
  %v28 = add i64 %v27, %v8
  %v29 = mul i64 %v28, 31
  %v30 = add i64 %v29, %v10
  %v31 = mul i64 %v30, 31
  %v32 = add i64 %v31, %v12
  %v33 = mul i64 %v32, 31
  %v34 = add i64 %v33, %v15
  %v35 = mul i64 %v34, 31
  %v36 = add i64 %v35, %v17
  %v37 = mul i64 %v36, 31
  %v38 = add i64 %v37, %v18
  %v39 = zext i8 %v13 to i64
  %v40 = mul i64 %v38, 31
  %v41 = add i64 %v40, %v39
  %v42 = load volatile i64, ptr %v1
  %v43 = mul i64 %v41, 31
  %v44 = add i64 %v43, %v42
  ret i64 %v44
}

define i64 @random_8_2(i64 %a, i64 %b) uwtable {
entry:
  %v1 = alloca i64
  store volatile i64 0, ptr %v1
  %v2 = alloca i64
  store volatile i64 0, ptr %v2
  %v3 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1009, i32 31, ptr null, i32 3, i64 %a, i64 %b, i64 %b)
  %v4 = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1010, i32 24, ptr null, i32 7, i64 %v3, i64 %b, i64 %a, i64 %v3, i64 %a, i64 %a, i64 %v3, i64 5, i64 -2147483649)
  %v5 = icmp ult i64 %v4, %v4
  br i1 %v5, label %then4, label %else4
then4:
  %v6 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1011, i32 32, ptr null, i32 2, i64 %v4, i64 %v4, i64 %b, ptr %v2, ptr %v1)
  br label %join4
else4:
  %v7 = sub i64 %v4, %v4
  br label %join4
join4:
  %v8 = phi i64 [ %v6, %then4 ], [ %v7, %else4 ]
  %v9 = and i64 %b, %b
  %v10 = xor i64 %v9, -9036665811152044487
  store volatile i64 %v10, ptr %v2
  %v11 = and i64 %a, %v8
  %v12 = xor i64 %v11, -4260683341278276105
  store volatile i64 %v8, ptr %v1
  %v13 = and i64 %b, %v4
  %v14 = xor i64 %v13, 7857945807171998465
  %v15 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1012, i32 26, ptr null, i32 4, i64 %v4, i64 %b, i64 %v12, i64 %v8, i64 %a, i64 4294967295)
  %v16 = xor i64 %a, %a
  %v17 = xor i64 %v16, 5238468215312785331
  %v18 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1013, i32 58, ptr null, i32 0, i64 %v10, i64 %b)
  %v19 = mul i64 17, 31
  %v20 = add i64 %v19, %a
  %v21 = mul i64 %v20, 31
  %v22 = add i64 %v21, %b
  %v23 = mul i64 %v22, 31
  %v24 = add i64 %v23, %v3
  %v25 = mul i64 %v24, 31
  %v26 = add i64 %v25, %v4
  %v27 = mul i64 %v26, 31
  %v28 = add i64 %v27, %v8
  %v29 = mul i64 %v28, 31
  %v30 = add i64 %v29, %v10
  %v31 = mul i64 %v30, 31
  %v32 = add i64 %v31, %v12
  %v33 = mul i64 %v32, 31
  %v34 = add i64 %v33, %v14
  %v35 = mul i64 %v34, 31
  %v36 = add i64 %v35, %v15
  %v37 = mul i64 %v36, 31
  %v38 = add i64 %v37, %v17
  %v39 = mul i64 %v38, 31
  %v40 = add i64 %v39, %v18
  %v41 = load volatile i64, ptr %v1
  %v42 = mul i64 %v40, 31
  %v43 = add i64 %v42, %v41
  %v44 = load volatile i64, ptr %v2
  %v45 = mul i64 %v43, 31
  %v46 = add i64 %v45, %v44
  ret i64 %v46
}

define i64 @random_8_3(i64 %a, i64 %b) uwtable {
entry:
  %v1 = alloca i64
  store volatile i64 0, ptr %v1
  %v2 = alloca i64
  store volatile i64 0, ptr %v2
  %v3 = alloca i64
  store volatile i64 0, ptr %v3
  store volatile i64 %b, ptr %v1
  store volatile i64 %a, ptr %v1
  %v4 = or i64 %b, %a
  %v5 = xor i64 %v4, -4488191205490308039
  %v6 = trunc i64 %b to i16
  %v7 = mul i64 %b, %b
  %v8 = xor i64 %v7, 4987880179115465297
  %v9 = sub i64 %b, %v8
  %v10 = xor i64 %v9, 7090888612378051881
  %v11 = icmp ult i64 %b, %b
  br i1 %v11, label %then10, label %else10
then10:
  %v12 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1014, i32 32, ptr null, i32 2, i64 %b, i64 %b, i64 %v10, ptr %v3, i64 %v5, i16 %v6)
  br label %join10
else10:
  %v13 = sub i64 %b, %b
  br label %join10
join10:
  %v14 = phi i64 [ %v12, %then10 ], [ %v13, %else10 ]
  %v15 = mul i64 %a, %v14
  %v16 = xor i64 %v15, 2461720529581955877
  %v17 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1015, i32 56, ptr null, i32 2, i64 %v10, i64 %v16, i16 %v6, i64 0, i64 %v10, i16 %v6, i64 %v16, i16 %v6, i64 -2147483649, ptr %v3)
  %v18 = mul i64 17, 31
  %v19 = add i64 %v18, %a
  %v20 = mul i64 %v19, 31
  %v21 = add i64 %v20, %b
  %v22 = mul i64 %v21, 31
  %v23 = add i64 %v22, %v5
  %v24 = mul i64 %v23, 31
  %v25 = add i64 %v24, %v8
  %v26 = mul i64 %v25, 31
  %v27 = add i64 %v26, %v10
  %v28 = mul i64 %v27, 31
  %v29 = add i64 %v28, %v14
  %v30 = mul i64 %v29, 31
  %v31 = add i64 %v30, %v16
  %v32 = mul i64 %v31, 31
  %v33 = add i64 %v32, %v17
  %v34 = zext i16 %v6 to i64
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

define i64 @random_8_4(i64 %a, i64 %b) uwtable {
entry:
  %v1 = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1016, i32 51, ptr null, i32 4, i64 %b, i64 %b, i64 %b, i64 %a)
  %v2 = and i64 %v1, %b
  %v3 = xor i64 %v2, 3627725532262750889
  %v4 = sub i64 %v1, %b
  %v5 = xor i64 %v4, 3814281360820790227
  %v6 = sub i64 %v5, %v1
  %v7 = xor i64 %v6, -8468340886165708329
  %v8 = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1017, i32 59, ptr null, i32 4, i64 %v1, i64 %v1, i64 %v1, i64 %v1, i64 %v5, i64 %a, i64 %v5, i64 0)
  %v9 = and i64 %v5, %b
  %v10 = xor i64 %v9, -8214650962294471265
  %v11 = add i64 %v5, %v5
  %v12 = xor i64 %v11, -1367176186728433119
  %v13 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1018, i32 59, ptr null, i32 3, i64 %v7, i64 %v1, i64 %v8, i64 %a, i64 %v7)
  %v14 = xor i64 %v8, %v1
  %v15 = xor i64 %v14, -7527729472141965359
  %v16 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1019, i32 39, ptr null, i32 0, i64 %v7, i64 %v1, i64 5, i64 %v7, i64 %v1)
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
  %v28 = add i64 %v27, %v7
  %v29 = mul i64 %v28, 31
  %v30 = add i64 %v29, %v8
  %v31 = mul i64 %v30, 31
  %v32 = add i64 %v31, %v10
  %v33 = mul i64 %v32, 31
  %v34 = add i64 %v33, %v12
  %v35 = mul i64 %v34, 31
  %v36 = add i64 %v35, %v13
  %v37 = mul i64 %v36, 31
  %v38 = add i64 %v37, %v15
  %v39 = mul i64 %v38, 31
  %v40 = add i64 %v39, %v16
  ret i64 %v40
}

define i64 @random_8_5(i64 %a, i64 %b) uwtable {
entry:
  %v1 = alloca i64
  store volatile i64 0, ptr %v1
  %v2 = alloca i64
  store volatile i64 0, ptr %v2
  %v3 = alloca i64
  store volatile i64 0, ptr %v3
  %v4 = mul i64 %a, %a
  %v5 = xor i64 %v4, 8004864693950629135
  %v6 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1020, i32 47, ptr null, i32 0, i64 %v5, i64 %a)
  %v7 = icmp ult i64 %v5, %a
  br i1 %v7, label %then6, label %else6
then6:
  %v8 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1021, i32 32, ptr null, i32 2, i64 %v5, i64 %a, i64 %v5, i64 %a, i64 %v6)
  br label %join6
else6:
  %v9 = sub i64 %v5, %a
  br label %join6
join6:
  %v10 = phi i64 [ %v8, %then6 ], [ %v9, %else6 ]
  %v11 = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1022, i32 46, ptr null, i32 6, i64 %b, i64 %a, i64 %v10, i64 %v10, i64 %a, i64 %v10, ptr %v2, i64 %b, i64 -1)
  %v12 = add i64 %b, %v10
  %v13 = xor i64 %v12, -8989506114383979073
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 1023, i32 6, i64 %v5)
  %v14 = mul i64 17, 31
  %v15 = add i64 %v14, %a
  %v16 = mul i64 %v15, 31
  %v17 = add i64 %v16, %b
  %v18 = mul i64 %v17, 31
  %v19 = add i64 %v18, %v5
  %v20 = mul i64 %v19, 31
  %v21 = add i64 %v20, %v6
  %v22 = mul i64 %v21, 31
  %v23 = add i64 %v22, %v10
  %v24 = mul i64 %v23, 31
  %v25 = add i64 %v24, %v11
  %v26 = mul i64 %v25, 31
  %v27 = add i64 %v26, %v13
  %v28 = load volatile i64, ptr %v1
  %v29 = mul i64 %v27, 31
  %v30 = add i64 %v29, %v28
  %v31 = load volatile i64, ptr %v2
  %v32 = mul i64 %v30, 31
  %v33 = add i64 %v32, %v31
  %v34 = load volatile i64, ptr %v3
  %v35 = mul i64 %v33, 31
  %v36 = add i64 %v35, %v34
  ret i64 %v36
}
