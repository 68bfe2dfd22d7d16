; sum_fields of examples/objects/inline_cache.ll with the check of the inline cache as inline assembly in place of its
; patchpoint, on the registers that it has there. LLVM allocates the other registers as it likes. Made with:
;
;   llc-19 -O2 -mtriple=x86_64-unknown-linux-gnu -relocation-model=pic -enable-patchpoint-liveness=false \
;       -filetype=obj inline_asm.ll -o inline_asm.o
;
; The shape is 4 bytes at offset 0 of the object and must be 7; the property is 8 bytes at offset 8.

declare void @llvm.experimental.stackmap(i64, i32, ...)
declare void @llvm.trap()

; Where a shape that is not 7 goes: nothing that is measured does.
define void @missed() noinline noreturn {
  call void @llvm.trap()
  unreachable
}

define i64 @sum_fields(ptr %objects, i64 %count) uwtable {
entry:
  %slot = alloca i64
  store volatile i64 0, ptr %slot
  br label %loop

loop:
  %index = phi i64 [ 0, %entry ], [ %index.next, %loop ]
  %sum = phi i64 [ 0, %entry ], [ %sum.next, %loop ]
  %half = phi double [ 0.0, %entry ], [ %half.next, %loop ]
  %at = getelementptr ptr, ptr %objects, i64 %index
  %obj = load ptr, ptr %at
  %value = call i64 asm sideeffect "cmpl $$7, ($1)\0A\09jne missed\0A\09movq 8($1), $0", "={rax},{rax},~{flags},~{dirflag},~{fpsr}"(ptr %obj)
  %sum.next = add i64 %sum, %value
  %half.next = fadd double %half, 5.000000e-01
  %seen = load volatile i64, ptr %slot
  %seen.next = add i64 %seen, 1
  store volatile i64 %seen.next, ptr %slot
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 90, i32 24, ptr %objects, i64 %count, i64 %index, i64 %sum.next, ptr %slot, double %half.next, i64 81985529216486895, i32 -7)
  %index.next = add i64 %index, 1
  %more = icmp ult i64 %index.next, %count
  br i1 %more, label %loop, label %done

done:
  %counted = load volatile i64, ptr %slot
  %halves = fptoui double %half.next to i64
  %a = add i64 %sum.next, %counted
  %b = add i64 %a, %halves
  ret i64 %b
}
