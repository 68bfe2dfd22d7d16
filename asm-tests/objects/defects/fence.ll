; Where LLVM's count of a shadow is too large (defect 7), what is behind the shadow counts as its bytes: here the head of a
; loop, to which the function branches. Fences within one thread emit nothing and count as 4 bytes each on AArch64 and
; RISC-V; empty inline assembly does so on PowerPC, too. Before the branch there are instructions that no sequence
; uses.
declare void @llvm.experimental.stackmap(i64, i32, ...)

define i64 @countdown(ptr %p, ptr %q, i64 %n) {
entry:
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 1, i32 16)
  call void asm sideeffect "", ""()
  fence syncscope("singlethread") acq_rel
  call void asm sideeffect "", ""()
  br label %again
again:
  %left = phi i64 [ %n, %entry ], [ %less, %again ]
  %less = add i64 %left, -1
  store volatile i64 %less, ptr %q
  store volatile i64 %less, ptr %q
  %old = load volatile double, ptr %p
  %sum = fadd double %old, %old
  store volatile double %sum, ptr %p
  %more = icmp ne i64 %less, 0
  br i1 %more, label %again, label %done
done:
  ret i64 %less
}
