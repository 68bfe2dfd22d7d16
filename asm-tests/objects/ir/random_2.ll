; Generated: cargo run -p asm-tests --bin gen_ir -- 2
declare i64 @llvm.experimental.patchpoint.i64(i64, i32, ptr, i32, ...)
declare void @llvm.experimental.patchpoint.void(i64, i32, ptr, i32, ...)
declare void @llvm.experimental.stackmap(i64, i32, ...)

define i64 @random_2_0(i64 %a, i64 %b) uwtable {
entry:
  %v1 = alloca i64
  store volatile i64 0, ptr %v1
  %v2 = alloca i64
  store volatile i64 0, ptr %v2
  %v3 = alloca i64
  store volatile i64 0, ptr %v3
  %v4 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1000, i32 28, ptr null, i32 1, i64 %a)
  store volatile i64 %v4, ptr %v3
  %v5 = mul i64 %a, %b
  %v6 = xor i64 %v5, 5933406785180873155
  %v7 = icmp ult i64 %v6, %b
  br i1 %v7, label %then6, label %else6
then6:
  %v8 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1001, i32 32, ptr null, i32 2, i64 %v6, i64 %b, i64 %v6, i64 %b, i64 %a, i64 5)
  br label %join6
else6:
  %v9 = sub i64 %v6, %b
  br label %join6
join6:
  %v10 = phi i64 [ %v8, %then6 ], [ %v9, %else6 ]
  %v11 = icmp ult i64 %v6, %v10
  br i1 %v11, label %then10, label %else10
then10:
  %v12 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1002, i32 32, ptr null, i32 2, i64 %v6, i64 %v10, i64 4294967295, i64 %v10, ptr %v3, i64 %a)
  br label %join10
else10:
  %v13 = sub i64 %v6, %v10
  br label %join10
join10:
  %v14 = phi i64 [ %v12, %then10 ], [ %v13, %else10 ]
  %v15 = icmp ult i64 %b, %v10
  br i1 %v15, label %then14, label %else14
then14:
  %v16 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1003, i32 32, ptr null, i32 2, i64 %b, i64 %v10, i64 %v10, ptr %v3)
  br label %join14
else14:
  %v17 = sub i64 %b, %v10
  br label %join14
join14:
  %v18 = phi i64 [ %v16, %then14 ], [ %v17, %else14 ]
  %v19 = icmp ult i64 %a, %b
  br i1 %v19, label %then18, label %else18
then18:
  %v20 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1004, i32 32, ptr null, i32 2, i64 %a, i64 %b, i64 %v10, ptr %v3, ptr %v2)
  br label %join18
else18:
  %v21 = sub i64 %a, %b
  br label %join18
join18:
  %v22 = phi i64 [ %v20, %then18 ], [ %v21, %else18 ]
  %v23 = or i64 %v22, %b
  %v24 = xor i64 %v23, 7623086600808522471
  %v25 = sub i64 %v14, %v14
  %v26 = xor i64 %v25, -8048987207321994539
  %v27 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1005, i32 34, ptr null, i32 1, i64 %v10)
  %v28 = mul i64 17, 31
  %v29 = add i64 %v28, %a
  %v30 = mul i64 %v29, 31
  %v31 = add i64 %v30, %b
  %v32 = mul i64 %v31, 31
  %v33 = add i64 %v32, %v4
  %v34 = mul i64 %v33, 31
  %v35 = add i64 %v34, %v6
  %v36 = mul i64 %v35, 31
  %v37 = add i64 %v36, %v10
  %v38 = mul i64 %v37, 31
  %v39 = add i64 %v38, %v14
  %v40 = mul i64 %v39, 31
  %v41 = add i64 %v40, %v18
  %v42 = mul i64 %v41, 31
  %v43 = add i64 %v42, %v22
  %v44 = mul i64 %v43, 31
  %v45 = add i64 %v44, %v24
  %v46 = mul i64 %v45, 31
  %v47 = add i64 %v46, %v26
  %v48 = mul i64 %v47, 31
  %v49 = add i64 %v48, %v27
  %v50 = load volatile i64, ptr %v1
  %v51 = mul i64 %v49, 31
  %v52 = add i64 %v51, %v50
  %v53 = load volatile i64, ptr %v2
  %v54 = mul i64 %v52, 31
  %v55 = add i64 %v54, %v53
  %v56 = load volatile i64, ptr %v3
  %v57 = mul i64 %v55, 31
  %v58 = add i64 %v57, %v56
  ret i64 %v58
}

define i64 @random_2_1(i64 %a, i64 %b) uwtable {
entry:
  %v1 = or i64 %b, %b
  %v2 = xor i64 %v1, -2619411714186975589
  %v3 = and i64 %v2, %a
  %v4 = xor i64 %v3, 288280250278896551
  %v5 = icmp ult i64 %b, %v2
  br i1 %v5, label %then4, label %else4
then4:
  %v6 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1006, i32 32, ptr null, i32 2, i64 %b, i64 %v2, i64 %v2, i64 1311768467463790320, i64 %v4, i64 -1)
  br label %join4
else4:
  %v7 = sub i64 %b, %v2
  br label %join4
join4:
  %v8 = phi i64 [ %v6, %then4 ], [ %v7, %else4 ]
  call anyregcc void (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.void(i64 1007, i32 43, ptr null, i32 3, i64 %a, i64 %v2, i64 %v4, i64 0)
  %v9 = and i64 %v4, %v4
  %v10 = xor i64 %v9, 5909151253322772675
  %v11 = trunc i64 %v4 to i32
  call anyregcc void (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.void(i64 1008, i32 25, ptr null, i32 1, i64 %v8, i32 %v11, i64 %a, i64 %v2, i32 %v11, i64 %v4)
  %v12 = mul i64 17, 31
  %v13 = add i64 %v12, %a
  %v14 = mul i64 %v13, 31
  %v15 = add i64 %v14, %b
  %v16 = mul i64 %v15, 31
  %v17 = add i64 %v16, %v2
  %v18 = mul i64 %v17, 31
  %v19 = add i64 %v18, %v4
  %v20 = mul i64 %v19, 31
  %v21 = add i64 %v20, %v8
  %v22 = mul i64 %v21, 31
  %v23 = add i64 %v22, %v10
  %v24 = zext i32 %v11 to i64
  %v25 = mul i64 %v23, 31
  %v26 = add i64 %v25, %v24
  ret i64 %v26
}

define i64 @random_2_2(i64 %a, i64 %b) uwtable {
entry:
  %v1 = alloca i64
  store volatile i64 0, ptr %v1
  %v2 = alloca i64
  store volatile i64 0, ptr %v2
  %v3 = alloca i64
  store volatile i64 0, ptr %v3
  store volatile i64 %a, ptr %v2
  %v4 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1009, i32 49, ptr null, i32 3, i64 %b, i64 %b, i64 %b, i64 %a, i64 %b, i64 %b)
  %v5 = icmp ult i64 %v4, %a
  br i1 %v5, label %then4, label %else4
then4:
  %v6 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1010, i32 32, ptr null, i32 2, i64 %v4, i64 %a, i64 %v4, i64 %v4)
  br label %join4
else4:
  %v7 = sub i64 %v4, %a
  br label %join4
join4:
  %v8 = phi i64 [ %v6, %then4 ], [ %v7, %else4 ]
  %v9 = xor i64 %v8, %v8
  %v10 = xor i64 %v9, 6405380890541776267
  %v11 = and i64 %a, %a
  %v12 = xor i64 %v11, -1851062275733712995
  %v13 = and i64 %a, %v4
  %v14 = xor i64 %v13, 486001210397307063
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 1011, i32 14, i64 %b, i64 %v4, i64 %v14, i64 -1, ptr %v2, ptr %v1)
  %v15 = mul i64 17, 31
  %v16 = add i64 %v15, %a
  %v17 = mul i64 %v16, 31
  %v18 = add i64 %v17, %b
  %v19 = mul i64 %v18, 31
  %v20 = add i64 %v19, %v4
  %v21 = mul i64 %v20, 31
  %v22 = add i64 %v21, %v8
  %v23 = mul i64 %v22, 31
  %v24 = add i64 %v23, %v10
  %v25 = mul i64 %v24, 31
  %v26 = add i64 %v25, %v12
  %v27 = mul i64 %v26, 31
  %v28 = add i64 %v27, %v14
  %v29 = load volatile i64, ptr %v1
  %v30 = mul i64 %v28, 31
  %v31 = add i64 %v30, %v29
  %v32 = load volatile i64, ptr %v2
  %v33 = mul i64 %v31, 31
  %v34 = add i64 %v33, %v32
  %v35 = load volatile i64, ptr %v3
  %v36 = mul i64 %v34, 31
  %v37 = add i64 %v36, %v35
  ret i64 %v37
}

define i64 @random_2_3(i64 %a, i64 %b) uwtable {
entry:
  %v1 = alloca i64
  store volatile i64 0, ptr %v1
  %v2 = alloca i64
  store volatile i64 0, ptr %v2
  %v3 = alloca i64
  store volatile i64 0, ptr %v3
  %v4 = or i64 %b, %b
  %v5 = xor i64 %v4, 5194535739918482601
  %v6 = icmp ult i64 %b, %a
  br i1 %v6, label %then5, label %else5
then5:
  %v7 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1012, i32 32, ptr null, i32 2, i64 %b, i64 %a, ptr %v1, i64 %b, i64 %a, i64 %b)
  br label %join5
else5:
  %v8 = sub i64 %b, %a
  br label %join5
join5:
  %v9 = phi i64 [ %v7, %then5 ], [ %v8, %else5 ]
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 1013, i32 23, i64 1311768467463790320, i64 %b, i64 %v5)
  %v10 = icmp ult i64 %a, %b
  br i1 %v10, label %then9, label %else9
then9:
  %v11 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1014, i32 32, ptr null, i32 2, i64 %a, i64 %b, ptr %v1, i64 5, i64 %a, i64 %v5)
  br label %join9
else9:
  %v12 = sub i64 %a, %b
  br label %join9
join9:
  %v13 = phi i64 [ %v11, %then9 ], [ %v12, %else9 ]
  store volatile i64 %v9, ptr %v2
  %v14 = sub i64 %v9, %v9
  %v15 = xor i64 %v14, -5919300789032587839
  %v16 = xor i64 %v5, %v9
  %v17 = xor i64 %v16, 6337890066134191273
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 1015, i32 19)
  %v18 = mul i64 17, 31
  %v19 = add i64 %v18, %a
  %v20 = mul i64 %v19, 31
  %v21 = add i64 %v20, %b
  %v22 = mul i64 %v21, 31
  %v23 = add i64 %v22, %v5
  %v24 = mul i64 %v23, 31
  %v25 = add i64 %v24, %v9
  %v26 = mul i64 %v25, 31
  %v27 = add i64 %v26, %v13
  %v28 = mul i64 %v27, 31
  %v29 = add i64 %v28, %v15
  %v30 = mul i64 %v29, 31
  %v31 = add i64 %v30, %v17
  %v32 = load volatile i64, ptr %v1
  %v33 = mul i64 %v31, 31
  %v34 = add i64 %v33, %v32
  %v35 = load volatile i64, ptr %v2
  %v36 = mul i64 %v34, 31
  %v37 = add i64 %v36, %v35
  %v38 = load volatile i64, ptr %v3
  %v39 = mul i64 %v37, 31
  %v40 = add i64 %v39, %v38
  ret i64 %v40
}

define i64 @random_2_4(i64 %a, i64 %b) uwtable {
entry:
  %v1 = alloca i64
  store volatile i64 0, ptr %v1
  %v2 = add i64 %b, %b
  %v3 = xor i64 %v2, 2157670478942367603
  %v4 = mul i64 %v3, %b
  %v5 = xor i64 %v4, -2773015198965993885
  store volatile i64 %v5, ptr %v1
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 1016, i32 8, i64 %v5)
  store volatile i64 %b, ptr %v1
  %v6 = and i64 %a, %v5
  %v7 = xor i64 %v6, -1810642754814270355
  %v8 = and i64 %v5, %v3
  %v9 = xor i64 %v8, -2328669332415599159
  %v10 = and i64 %a, %v5
  %v11 = xor i64 %v10, -2910097410574924447
  %v12 = add i64 %a, %a
  %v13 = xor i64 %v12, -8866100495335092951
  %v14 = sub i64 %v13, %a
  %v15 = xor i64 %v14, -7191824009388426681
  %v16 = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1017, i32 32, ptr null, i32 5, i64 %v15, i64 %b, i64 %v11, i64 %b, i64 %v5, i64 -1, i64 %v11, i64 %a, i64 5, i64 4294967295)
  %v17 = mul i64 17, 31
  %v18 = add i64 %v17, %a
  %v19 = mul i64 %v18, 31
  %v20 = add i64 %v19, %b
  %v21 = mul i64 %v20, 31
  %v22 = add i64 %v21, %v3
  %v23 = mul i64 %v22, 31
  %v24 = add i64 %v23, %v5
  %v25 = mul i64 %v24, 31
  %v26 = add i64 %v25, %v7
  %v27 = mul i64 %v26, 31
  %v28 = add i64 %v27, %v9
  %v29 = mul i64 %v28, 31
  %v30 = add i64 %v29, %v11
  %v31 = mul i64 %v30, 31
  %v32 = add i64 %v31, %v13
  %v33 = mul i64 %v32, 31
  %v34 = add i64 %v33, %v15
  %v35 = mul i64 %v34, 31
  %v36 = add i64 %v35, %v16
  %v37 = load volatile i64, ptr %v1
  %v38 = mul i64 %v36, 31
  %v39 = add i64 %v38, %v37
  ret i64 %v39
}

define i64 @random_2_5(i64 %a, i64 %b) uwtable {
entry:
  %v1 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1018, i32 26, ptr null, i32 4, i64 %a, i64 %a, i64 %b, i64 %b, i64 -2147483649)
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 1019, i32 18, i64 -1, i64 %b)
  %v2 = mul i64 %b, %v1
  %v3 = xor i64 %v2, 4209355420322765557
  call anyregcc void (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.void(i64 1020, i32 43, ptr null, i32 1, i64 %a, i64 %v3, i64 %v3, i64 %v3)
  %v4 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1021, i32 48, ptr null, i32 1, i64 %v3, i64 %b, i64 %v3, i64 -2147483649)
  call anyregcc void (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.void(i64 1022, i32 42, ptr null, i32 2, i64 %v1, i64 %v1, i64 %a, i64 -2147483649)
  %v5 = or i64 %a, %v3
  %v6 = xor i64 %v5, 291924859376328645
  %v7 = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1023, i32 41, ptr null, i32 1, i64 %v4, i64 5, i64 1311768467463790320)
  %v8 = mul i64 17, 31
  %v9 = add i64 %v8, %a
  %v10 = mul i64 %v9, 31
  %v11 = add i64 %v10, %b
  %v12 = mul i64 %v11, 31
  %v13 = add i64 %v12, %v1
  %v14 = mul i64 %v13, 31
  %v15 = add i64 %v14, %v3
  %v16 = mul i64 %v15, 31
  %v17 = add i64 %v16, %v4
  %v18 = mul i64 %v17, 31
  %v19 = add i64 %v18, %v6
  %v20 = mul i64 %v19, 31
  %v21 = add i64 %v20, %v7
  ret i64 %v21
}
