; The objects of compiled_tests/walking.rs, one for each architecture, made by make.sh. With frame pointers they have no
; unwind information.
;
;   ID  function  what                                                          reserved
;    1  inner     where the walk begins                                         48 bytes
;    2  outer     where `middle` returns to: a value in a register that functions preserve, a slot, a constant
;    3  middle    where `inner` returns to
;
; `middle` needs every such register for its 20 words, so it saves those of `outer`.

declare void @llvm.experimental.patchpoint.void(i64, i32, ptr, i32, ...)
declare void @llvm.experimental.stackmap(i64, i32, ...)

define internal void @id() noinline uwtable {
  call void asm sideeffect "", "~{memory}"()
  ret void
}

define dso_local void @inner() noinline uwtable {
  call void @id()
  call void (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.void(i64 1, i32 48, ptr null, i32 0)
  ret void
}

define dso_local void @middle(ptr %words) noinline uwtable {
  %a0 = getelementptr i64, ptr %words, i64 0
  %w0 = load volatile i64, ptr %a0
  %a1 = getelementptr i64, ptr %words, i64 1
  %w1 = load volatile i64, ptr %a1
  %a2 = getelementptr i64, ptr %words, i64 2
  %w2 = load volatile i64, ptr %a2
  %a3 = getelementptr i64, ptr %words, i64 3
  %w3 = load volatile i64, ptr %a3
  %a4 = getelementptr i64, ptr %words, i64 4
  %w4 = load volatile i64, ptr %a4
  %a5 = getelementptr i64, ptr %words, i64 5
  %w5 = load volatile i64, ptr %a5
  %a6 = getelementptr i64, ptr %words, i64 6
  %w6 = load volatile i64, ptr %a6
  %a7 = getelementptr i64, ptr %words, i64 7
  %w7 = load volatile i64, ptr %a7
  %a8 = getelementptr i64, ptr %words, i64 8
  %w8 = load volatile i64, ptr %a8
  %a9 = getelementptr i64, ptr %words, i64 9
  %w9 = load volatile i64, ptr %a9
  %a10 = getelementptr i64, ptr %words, i64 10
  %w10 = load volatile i64, ptr %a10
  %a11 = getelementptr i64, ptr %words, i64 11
  %w11 = load volatile i64, ptr %a11
  %a12 = getelementptr i64, ptr %words, i64 12
  %w12 = load volatile i64, ptr %a12
  %a13 = getelementptr i64, ptr %words, i64 13
  %w13 = load volatile i64, ptr %a13
  %a14 = getelementptr i64, ptr %words, i64 14
  %w14 = load volatile i64, ptr %a14
  %a15 = getelementptr i64, ptr %words, i64 15
  %w15 = load volatile i64, ptr %a15
  %a16 = getelementptr i64, ptr %words, i64 16
  %w16 = load volatile i64, ptr %a16
  %a17 = getelementptr i64, ptr %words, i64 17
  %w17 = load volatile i64, ptr %a17
  %a18 = getelementptr i64, ptr %words, i64 18
  %w18 = load volatile i64, ptr %a18
  %a19 = getelementptr i64, ptr %words, i64 19
  %w19 = load volatile i64, ptr %a19
  call void @inner()
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 3, i32 8)
  store volatile i64 %w0, ptr %a0
  store volatile i64 %w1, ptr %a1
  store volatile i64 %w2, ptr %a2
  store volatile i64 %w3, ptr %a3
  store volatile i64 %w4, ptr %a4
  store volatile i64 %w5, ptr %a5
  store volatile i64 %w6, ptr %a6
  store volatile i64 %w7, ptr %a7
  store volatile i64 %w8, ptr %a8
  store volatile i64 %w9, ptr %a9
  store volatile i64 %w10, ptr %a10
  store volatile i64 %w11, ptr %a11
  store volatile i64 %w12, ptr %a12
  store volatile i64 %w13, ptr %a13
  store volatile i64 %w14, ptr %a14
  store volatile i64 %w15, ptr %a15
  store volatile i64 %w16, ptr %a16
  store volatile i64 %w17, ptr %a17
  store volatile i64 %w18, ptr %a18
  store volatile i64 %w19, ptr %a19
  ret void
}

; 3 x, as it is when `middle` returns, + 7 times what is then in the slot, where 3 x was.
define dso_local i64 @outer(i64 %x, ptr %words) noinline uwtable {
  %triple = mul i64 %x, 3
  %slot = alloca i64
  store volatile i64 %triple, ptr %slot
  call void @middle(ptr %words)
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 2, i32 8, i64 %triple, ptr %slot, i64 -5)
  %again = load volatile i64, ptr %slot
  %seven = mul i64 %again, 7
  %result = add i64 %seven, %triple
  ret i64 %result
}
