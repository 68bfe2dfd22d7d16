; The object of examples/inline_cache.rs, made by make.sh.
;
;   ID  function     what                                            reserved
;   78  get          property read, anyregcc, result, 1 argument     32 bytes
;   78  sum_fields   the same read in a loop                         32 bytes
;   90  sum_fields   stackmap: the state to deoptimize to            24 bytes (shadow)

declare i64 @llvm.experimental.patchpoint.i64(i64, i32, ptr, i32, ...)
declare void @llvm.experimental.stackmap(i64, i32, ...)

; fn get(obj: *const Object) -> u64: one property read.
define i64 @get(ptr %obj) uwtable {
  %value = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 78, i32 32, ptr null, i32 1, ptr %obj)
  ret i64 %value
}

; fn sum_fields(objects: *const *const Object, count: u64) -> u64: the sum of a property over `count` objects
; (count of at least 1), plus what a slot on the stack and a double counted on the way: count, and count / 2
; rounded down; the result is sum + count + count / 2.
;
; Live at 90, in this order: objects, count, index, sum (the value just read included), the slot's address,
; the double, a large constant, a small one.
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
  %value = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 78, i32 32, ptr null, i32 1, ptr %obj, i64 %index, i64 %sum, ptr %slot, double %half, i64 81985529216486895)
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
