; What the tests of inline caches run: property reads, a method call with the C convention, a property write, and a read
; with more live pointers than there are registers. Made by make.sh.

declare i64 @llvm.experimental.patchpoint.i64(i64, i32, ptr, i32, ...)
declare void @llvm.experimental.patchpoint.void(i64, i32, ptr, i32, ...)

; fn get(obj) -> u64: one property read.
define i64 @get(ptr %obj) uwtable {
  %r = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 78, i32 32, ptr null, i32 1, ptr %obj)
  ret i64 %r
}

; fn get_twice(obj) -> u64: two, the second times 3.
define i64 @get_twice(ptr %obj) uwtable {
  %r = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 78, i32 32, ptr null, i32 1, ptr %obj)
  %s = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 78, i32 32, ptr null, i32 1, ptr %obj)
  %t = mul i64 %s, 3
  %u = add i64 %r, %t
  ret i64 %u
}

; fn method(obj, a, b) -> u64: a call, plus a * b, which is live across it.
define i64 @method(ptr %obj, i64 %a, i64 %b) uwtable {
  %keep = mul i64 %a, %b
  %r = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 80, i32 64, ptr null, i32 3, ptr %obj, i64 %a, i64 %b)
  %s = add i64 %r, %keep
  ret i64 %s
}

; fn set(obj, value) -> u64: a property write; then value.
define i64 @set(ptr %obj, i64 %value) uwtable {
  call anyregcc void (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.void(i64 81, i32 32, ptr null, i32 2, ptr %obj, i64 %value)
  ret i64 %value
}

; fn spilled(obj) -> u64: a read with obj + 8, obj + 16 and so on live up to obj + 320: plus the sum of what they are.
define i64 @spilled(ptr %obj) uwtable {
  %p1 = getelementptr i8, ptr %obj, i64 8
  %v1 = call ptr asm sideeffect "", "=r,0"(ptr %p1)
  %p2 = getelementptr i8, ptr %obj, i64 16
  %v2 = call ptr asm sideeffect "", "=r,0"(ptr %p2)
  %p3 = getelementptr i8, ptr %obj, i64 24
  %v3 = call ptr asm sideeffect "", "=r,0"(ptr %p3)
  %p4 = getelementptr i8, ptr %obj, i64 32
  %v4 = call ptr asm sideeffect "", "=r,0"(ptr %p4)
  %p5 = getelementptr i8, ptr %obj, i64 40
  %v5 = call ptr asm sideeffect "", "=r,0"(ptr %p5)
  %p6 = getelementptr i8, ptr %obj, i64 48
  %v6 = call ptr asm sideeffect "", "=r,0"(ptr %p6)
  %p7 = getelementptr i8, ptr %obj, i64 56
  %v7 = call ptr asm sideeffect "", "=r,0"(ptr %p7)
  %p8 = getelementptr i8, ptr %obj, i64 64
  %v8 = call ptr asm sideeffect "", "=r,0"(ptr %p8)
  %p9 = getelementptr i8, ptr %obj, i64 72
  %v9 = call ptr asm sideeffect "", "=r,0"(ptr %p9)
  %p10 = getelementptr i8, ptr %obj, i64 80
  %v10 = call ptr asm sideeffect "", "=r,0"(ptr %p10)
  %p11 = getelementptr i8, ptr %obj, i64 88
  %v11 = call ptr asm sideeffect "", "=r,0"(ptr %p11)
  %p12 = getelementptr i8, ptr %obj, i64 96
  %v12 = call ptr asm sideeffect "", "=r,0"(ptr %p12)
  %p13 = getelementptr i8, ptr %obj, i64 104
  %v13 = call ptr asm sideeffect "", "=r,0"(ptr %p13)
  %p14 = getelementptr i8, ptr %obj, i64 112
  %v14 = call ptr asm sideeffect "", "=r,0"(ptr %p14)
  %p15 = getelementptr i8, ptr %obj, i64 120
  %v15 = call ptr asm sideeffect "", "=r,0"(ptr %p15)
  %p16 = getelementptr i8, ptr %obj, i64 128
  %v16 = call ptr asm sideeffect "", "=r,0"(ptr %p16)
  %p17 = getelementptr i8, ptr %obj, i64 136
  %v17 = call ptr asm sideeffect "", "=r,0"(ptr %p17)
  %p18 = getelementptr i8, ptr %obj, i64 144
  %v18 = call ptr asm sideeffect "", "=r,0"(ptr %p18)
  %p19 = getelementptr i8, ptr %obj, i64 152
  %v19 = call ptr asm sideeffect "", "=r,0"(ptr %p19)
  %p20 = getelementptr i8, ptr %obj, i64 160
  %v20 = call ptr asm sideeffect "", "=r,0"(ptr %p20)
  %p21 = getelementptr i8, ptr %obj, i64 168
  %v21 = call ptr asm sideeffect "", "=r,0"(ptr %p21)
  %p22 = getelementptr i8, ptr %obj, i64 176
  %v22 = call ptr asm sideeffect "", "=r,0"(ptr %p22)
  %p23 = getelementptr i8, ptr %obj, i64 184
  %v23 = call ptr asm sideeffect "", "=r,0"(ptr %p23)
  %p24 = getelementptr i8, ptr %obj, i64 192
  %v24 = call ptr asm sideeffect "", "=r,0"(ptr %p24)
  %p25 = getelementptr i8, ptr %obj, i64 200
  %v25 = call ptr asm sideeffect "", "=r,0"(ptr %p25)
  %p26 = getelementptr i8, ptr %obj, i64 208
  %v26 = call ptr asm sideeffect "", "=r,0"(ptr %p26)
  %p27 = getelementptr i8, ptr %obj, i64 216
  %v27 = call ptr asm sideeffect "", "=r,0"(ptr %p27)
  %p28 = getelementptr i8, ptr %obj, i64 224
  %v28 = call ptr asm sideeffect "", "=r,0"(ptr %p28)
  %p29 = getelementptr i8, ptr %obj, i64 232
  %v29 = call ptr asm sideeffect "", "=r,0"(ptr %p29)
  %p30 = getelementptr i8, ptr %obj, i64 240
  %v30 = call ptr asm sideeffect "", "=r,0"(ptr %p30)
  %p31 = getelementptr i8, ptr %obj, i64 248
  %v31 = call ptr asm sideeffect "", "=r,0"(ptr %p31)
  %p32 = getelementptr i8, ptr %obj, i64 256
  %v32 = call ptr asm sideeffect "", "=r,0"(ptr %p32)
  %p33 = getelementptr i8, ptr %obj, i64 264
  %v33 = call ptr asm sideeffect "", "=r,0"(ptr %p33)
  %p34 = getelementptr i8, ptr %obj, i64 272
  %v34 = call ptr asm sideeffect "", "=r,0"(ptr %p34)
  %p35 = getelementptr i8, ptr %obj, i64 280
  %v35 = call ptr asm sideeffect "", "=r,0"(ptr %p35)
  %p36 = getelementptr i8, ptr %obj, i64 288
  %v36 = call ptr asm sideeffect "", "=r,0"(ptr %p36)
  %p37 = getelementptr i8, ptr %obj, i64 296
  %v37 = call ptr asm sideeffect "", "=r,0"(ptr %p37)
  %p38 = getelementptr i8, ptr %obj, i64 304
  %v38 = call ptr asm sideeffect "", "=r,0"(ptr %p38)
  %p39 = getelementptr i8, ptr %obj, i64 312
  %v39 = call ptr asm sideeffect "", "=r,0"(ptr %p39)
  %p40 = getelementptr i8, ptr %obj, i64 320
  %v40 = call ptr asm sideeffect "", "=r,0"(ptr %p40)
  %r = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 82, i32 64, ptr null, i32 1, ptr %obj, ptr %v1, ptr %v2, ptr %v3, ptr %v4, ptr %v5, ptr %v6, ptr %v7, ptr %v8, ptr %v9, ptr %v10, ptr %v11, ptr %v12, ptr %v13, ptr %v14, ptr %v15, ptr %v16, ptr %v17, ptr %v18, ptr %v19, ptr %v20, ptr %v21, ptr %v22, ptr %v23, ptr %v24, ptr %v25, ptr %v26, ptr %v27, ptr %v28, ptr %v29, ptr %v30, ptr %v31, ptr %v32, ptr %v33, ptr %v34, ptr %v35, ptr %v36, ptr %v37, ptr %v38, ptr %v39, ptr %v40)
  %i1 = ptrtoint ptr %v1 to i64
  %s1 = add i64 %r, %i1
  %i2 = ptrtoint ptr %v2 to i64
  %s2 = add i64 %s1, %i2
  %i3 = ptrtoint ptr %v3 to i64
  %s3 = add i64 %s2, %i3
  %i4 = ptrtoint ptr %v4 to i64
  %s4 = add i64 %s3, %i4
  %i5 = ptrtoint ptr %v5 to i64
  %s5 = add i64 %s4, %i5
  %i6 = ptrtoint ptr %v6 to i64
  %s6 = add i64 %s5, %i6
  %i7 = ptrtoint ptr %v7 to i64
  %s7 = add i64 %s6, %i7
  %i8 = ptrtoint ptr %v8 to i64
  %s8 = add i64 %s7, %i8
  %i9 = ptrtoint ptr %v9 to i64
  %s9 = add i64 %s8, %i9
  %i10 = ptrtoint ptr %v10 to i64
  %s10 = add i64 %s9, %i10
  %i11 = ptrtoint ptr %v11 to i64
  %s11 = add i64 %s10, %i11
  %i12 = ptrtoint ptr %v12 to i64
  %s12 = add i64 %s11, %i12
  %i13 = ptrtoint ptr %v13 to i64
  %s13 = add i64 %s12, %i13
  %i14 = ptrtoint ptr %v14 to i64
  %s14 = add i64 %s13, %i14
  %i15 = ptrtoint ptr %v15 to i64
  %s15 = add i64 %s14, %i15
  %i16 = ptrtoint ptr %v16 to i64
  %s16 = add i64 %s15, %i16
  %i17 = ptrtoint ptr %v17 to i64
  %s17 = add i64 %s16, %i17
  %i18 = ptrtoint ptr %v18 to i64
  %s18 = add i64 %s17, %i18
  %i19 = ptrtoint ptr %v19 to i64
  %s19 = add i64 %s18, %i19
  %i20 = ptrtoint ptr %v20 to i64
  %s20 = add i64 %s19, %i20
  %i21 = ptrtoint ptr %v21 to i64
  %s21 = add i64 %s20, %i21
  %i22 = ptrtoint ptr %v22 to i64
  %s22 = add i64 %s21, %i22
  %i23 = ptrtoint ptr %v23 to i64
  %s23 = add i64 %s22, %i23
  %i24 = ptrtoint ptr %v24 to i64
  %s24 = add i64 %s23, %i24
  %i25 = ptrtoint ptr %v25 to i64
  %s25 = add i64 %s24, %i25
  %i26 = ptrtoint ptr %v26 to i64
  %s26 = add i64 %s25, %i26
  %i27 = ptrtoint ptr %v27 to i64
  %s27 = add i64 %s26, %i27
  %i28 = ptrtoint ptr %v28 to i64
  %s28 = add i64 %s27, %i28
  %i29 = ptrtoint ptr %v29 to i64
  %s29 = add i64 %s28, %i29
  %i30 = ptrtoint ptr %v30 to i64
  %s30 = add i64 %s29, %i30
  %i31 = ptrtoint ptr %v31 to i64
  %s31 = add i64 %s30, %i31
  %i32 = ptrtoint ptr %v32 to i64
  %s32 = add i64 %s31, %i32
  %i33 = ptrtoint ptr %v33 to i64
  %s33 = add i64 %s32, %i33
  %i34 = ptrtoint ptr %v34 to i64
  %s34 = add i64 %s33, %i34
  %i35 = ptrtoint ptr %v35 to i64
  %s35 = add i64 %s34, %i35
  %i36 = ptrtoint ptr %v36 to i64
  %s36 = add i64 %s35, %i36
  %i37 = ptrtoint ptr %v37 to i64
  %s37 = add i64 %s36, %i37
  %i38 = ptrtoint ptr %v38 to i64
  %s38 = add i64 %s37, %i38
  %i39 = ptrtoint ptr %v39 to i64
  %s39 = add i64 %s38, %i39
  %i40 = ptrtoint ptr %v40 to i64
  %s40 = add i64 %s39, %i40
  ret i64 %s40
}
