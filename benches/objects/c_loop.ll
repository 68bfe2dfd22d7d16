; The loop of examples/objects/inline_cache.ll with a read that follows the C convention, so that LLVM keeps nothing in
; registers that a call may change, and the runtime can be called. Made with:
;
;   llc-19 -O2 -mtriple=x86_64-unknown-linux-gnu -relocation-model=pic -filetype=obj c_loop.ll -o c_loop.o

declare i64 @llvm.experimental.patchpoint.i64(i64, i32, ptr, i32, ...)

; fn sum_fields(objects: *const *const Object, count: u64) -> u64: the sum of a property over `count` objects (at least 1).
define i64 @sum_fields(ptr %objects, i64 %count) uwtable {
entry:
  br label %loop

loop:
  %index = phi i64 [ 0, %entry ], [ %index.next, %loop ]
  %sum = phi i64 [ 0, %entry ], [ %sum.next, %loop ]
  %at = getelementptr ptr, ptr %objects, i64 %index
  %obj = load ptr, ptr %at
  %value = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 78, i32 32, ptr null, i32 1, ptr %obj)
  %sum.next = add i64 %sum, %value
  %index.next = add i64 %index, 1
  %more = icmp ult i64 %index.next, %count
  br i1 %more, label %loop, label %done

done:
  ret i64 %sum.next
}
