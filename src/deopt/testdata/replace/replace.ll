; The objects of tests/replacing.rs, one for each architecture, made by make.sh.
;
;   ID  function  what                                                                  reserved
;    1  fast      `outer` with `inner` inlined, and the point where it is left           48 bytes
;   11  outer     where it calls `inner`                                                48 bytes
;   12  inner     where it calls something else, in a frame of more than 5 pages        48 bytes
;
; On SystemZ, `outer` loads more registers at its end than its unwind information says. `caller` has a value in every register that functions preserve while it calls `fast`.

declare i64 @llvm.experimental.patchpoint.i64(i64, i32, ptr, i32, ...)

define i64 @id(i64 %x) noinline uwtable {
  ret i64 %x
}

define i64 @fast(i64 %x, i64 %y) noinline uwtable {
  %a = mul i64 %x, 3
  %p = add i64 %x, %y
  %q = xor i64 %y, 85
  %r = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1, i32 48, ptr null, i32 0, i64 %x, i64 %y, i64 %a, i64 %p, i64 %q)
  %pq = mul i64 %p, %q
  %v = add i64 %r, %pq
  %s = add i64 %v, %x
  %t = mul i64 %s, %y
  %u = xor i64 %t, %a
  ret i64 %u
}

define i64 @outer(i64 %x0, i64 %y) noinline uwtable {
  %x = call i64 @id(i64 %x0)
  %a = mul i64 %x, 3
  ; s390x: call void asm sideeffect "lghi %r7, 5", "~{r7}"()
  %v = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 11, i32 48, ptr null, i32 0, i64 %x, i64 %y, i64 %a)
  %s = add i64 %v, %x
  %t = mul i64 %s, %y
  %u = xor i64 %t, %a
  ret i64 %u
}

define i64 @inner(i64 %p0, i64 %q) noinline uwtable {
  %slots = alloca [3000 x i64]
  %slot = getelementptr i64, ptr %slots, i64 7
  %p = call i64 @id(i64 %p0)
  store volatile i64 %q, ptr %slot
  %r = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 12, i32 48, ptr null, i32 0, i64 %p, ptr %slots)
  %again = load volatile i64, ptr %slot
  %pq = mul i64 %p, %again
  %v = add i64 %r, %pq
  ret i64 %v
}

; From v = fast(x, y): s = v, then s = 3 s + w for each word but the first, to which v is added; and to this the sum of
; the low byte of v and of the numbers.
define i64 @caller(ptr %words, ptr %numbers, i64 %x, i64 %y) uwtable {
  %wa0 = getelementptr i64, ptr %words, i64 0
  %w0 = load volatile i64, ptr %wa0
  %wa1 = getelementptr i64, ptr %words, i64 1
  %w1 = load volatile i64, ptr %wa1
  %wa2 = getelementptr i64, ptr %words, i64 2
  %w2 = load volatile i64, ptr %wa2
  %wa3 = getelementptr i64, ptr %words, i64 3
  %w3 = load volatile i64, ptr %wa3
  %wa4 = getelementptr i64, ptr %words, i64 4
  %w4 = load volatile i64, ptr %wa4
  %wa5 = getelementptr i64, ptr %words, i64 5
  %w5 = load volatile i64, ptr %wa5
  %wa6 = getelementptr i64, ptr %words, i64 6
  %w6 = load volatile i64, ptr %wa6
  %wa7 = getelementptr i64, ptr %words, i64 7
  %w7 = load volatile i64, ptr %wa7
  %wa8 = getelementptr i64, ptr %words, i64 8
  %w8 = load volatile i64, ptr %wa8
  %wa9 = getelementptr i64, ptr %words, i64 9
  %w9 = load volatile i64, ptr %wa9
  %wa10 = getelementptr i64, ptr %words, i64 10
  %w10 = load volatile i64, ptr %wa10
  %wa11 = getelementptr i64, ptr %words, i64 11
  %w11 = load volatile i64, ptr %wa11
  %wa12 = getelementptr i64, ptr %words, i64 12
  %w12 = load volatile i64, ptr %wa12
  %wa13 = getelementptr i64, ptr %words, i64 13
  %w13 = load volatile i64, ptr %wa13
  %wa14 = getelementptr i64, ptr %words, i64 14
  %w14 = load volatile i64, ptr %wa14
  %wa15 = getelementptr i64, ptr %words, i64 15
  %w15 = load volatile i64, ptr %wa15
  %wa16 = getelementptr i64, ptr %words, i64 16
  %w16 = load volatile i64, ptr %wa16
  %wa17 = getelementptr i64, ptr %words, i64 17
  %w17 = load volatile i64, ptr %wa17
  %wa18 = getelementptr i64, ptr %words, i64 18
  %w18 = load volatile i64, ptr %wa18
  %wa19 = getelementptr i64, ptr %words, i64 19
  %w19 = load volatile i64, ptr %wa19
  %na0 = getelementptr double, ptr %numbers, i64 0
  %n0 = load volatile double, ptr %na0
  %na1 = getelementptr double, ptr %numbers, i64 1
  %n1 = load volatile double, ptr %na1
  %na2 = getelementptr double, ptr %numbers, i64 2
  %n2 = load volatile double, ptr %na2
  %na3 = getelementptr double, ptr %numbers, i64 3
  %n3 = load volatile double, ptr %na3
  %na4 = getelementptr double, ptr %numbers, i64 4
  %n4 = load volatile double, ptr %na4
  %na5 = getelementptr double, ptr %numbers, i64 5
  %n5 = load volatile double, ptr %na5
  %na6 = getelementptr double, ptr %numbers, i64 6
  %n6 = load volatile double, ptr %na6
  %na7 = getelementptr double, ptr %numbers, i64 7
  %n7 = load volatile double, ptr %na7
  %na8 = getelementptr double, ptr %numbers, i64 8
  %n8 = load volatile double, ptr %na8
  %na9 = getelementptr double, ptr %numbers, i64 9
  %n9 = load volatile double, ptr %na9
  %na10 = getelementptr double, ptr %numbers, i64 10
  %n10 = load volatile double, ptr %na10
  %na11 = getelementptr double, ptr %numbers, i64 11
  %n11 = load volatile double, ptr %na11
  %na12 = getelementptr double, ptr %numbers, i64 12
  %n12 = load volatile double, ptr %na12
  %na13 = getelementptr double, ptr %numbers, i64 13
  %n13 = load volatile double, ptr %na13
  %na14 = getelementptr double, ptr %numbers, i64 14
  %n14 = load volatile double, ptr %na14
  %na15 = getelementptr double, ptr %numbers, i64 15
  %n15 = load volatile double, ptr %na15
  %na16 = getelementptr double, ptr %numbers, i64 16
  %n16 = load volatile double, ptr %na16
  %na17 = getelementptr double, ptr %numbers, i64 17
  %n17 = load volatile double, ptr %na17
  %na18 = getelementptr double, ptr %numbers, i64 18
  %n18 = load volatile double, ptr %na18
  %na19 = getelementptr double, ptr %numbers, i64 19
  %n19 = load volatile double, ptr %na19
  %value = call i64 @fast(i64 %x, i64 %y)
  %s0 = add i64 %value, %w0
  %m1 = mul i64 %s0, 3
  %s1 = add i64 %m1, %w1
  %m2 = mul i64 %s1, 3
  %s2 = add i64 %m2, %w2
  %m3 = mul i64 %s2, 3
  %s3 = add i64 %m3, %w3
  %m4 = mul i64 %s3, 3
  %s4 = add i64 %m4, %w4
  %m5 = mul i64 %s4, 3
  %s5 = add i64 %m5, %w5
  %m6 = mul i64 %s5, 3
  %s6 = add i64 %m6, %w6
  %m7 = mul i64 %s6, 3
  %s7 = add i64 %m7, %w7
  %m8 = mul i64 %s7, 3
  %s8 = add i64 %m8, %w8
  %m9 = mul i64 %s8, 3
  %s9 = add i64 %m9, %w9
  %m10 = mul i64 %s9, 3
  %s10 = add i64 %m10, %w10
  %m11 = mul i64 %s10, 3
  %s11 = add i64 %m11, %w11
  %m12 = mul i64 %s11, 3
  %s12 = add i64 %m12, %w12
  %m13 = mul i64 %s12, 3
  %s13 = add i64 %m13, %w13
  %m14 = mul i64 %s13, 3
  %s14 = add i64 %m14, %w14
  %m15 = mul i64 %s14, 3
  %s15 = add i64 %m15, %w15
  %m16 = mul i64 %s15, 3
  %s16 = add i64 %m16, %w16
  %m17 = mul i64 %s16, 3
  %s17 = add i64 %m17, %w17
  %m18 = mul i64 %s17, 3
  %s18 = add i64 %m18, %w18
  %m19 = mul i64 %s18, 3
  %s19 = add i64 %m19, %w19
  %low = and i64 %value, 255
  %f = uitofp i64 %low to double
  %f0 = fadd double %f, %n0
  %f1 = fadd double %f0, %n1
  %f2 = fadd double %f1, %n2
  %f3 = fadd double %f2, %n3
  %f4 = fadd double %f3, %n4
  %f5 = fadd double %f4, %n5
  %f6 = fadd double %f5, %n6
  %f7 = fadd double %f6, %n7
  %f8 = fadd double %f7, %n8
  %f9 = fadd double %f8, %n9
  %f10 = fadd double %f9, %n10
  %f11 = fadd double %f10, %n11
  %f12 = fadd double %f11, %n12
  %f13 = fadd double %f12, %n13
  %f14 = fadd double %f13, %n14
  %f15 = fadd double %f14, %n15
  %f16 = fadd double %f15, %n16
  %f17 = fadd double %f16, %n17
  %f18 = fadd double %f17, %n18
  %f19 = fadd double %f18, %n19
  %float = fptoui double %f19 to i64
  %result = add i64 %s19, %float
  ret i64 %result
}
