; total(self, count): the sum of self.step(i) * scale for i below count, where scale is taken to be 1.
; See README.md for the conventions.
declare i64 @llvm.experimental.patchpoint.i64(i64, i32, ptr, i32, ...)
declare void @llvm.experimental.patchpoint.void(i64, i32, ptr, i32, ...)
declare void @llvm.experimental.stackmap(i64, i32, ...)
declare { i64, i1 } @llvm.sadd.with.overflow.i64(i64, i64)

define i64 @total(ptr %isolate, i64 %r0, i64 %r1) uwtable "patchable-function-entry"="ENTRY" {
entry:
  %counted = trunc i64 %r1 to i1
  br i1 %counted, label %loop, label %rare.entry

loop:
  %sum = phi i64 [ 1, %entry ], [ %sum.next, %next ]
  %index = phi i64 [ 1, %entry ], [ %index.next, %next ]
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 3021, i32 SHADOW, ptr %isolate, i64 %r0, i64 %r1, i64 %sum, i64 %index, i64 2, i64 2, i64 2)
  %more = icmp slt i64 %index, %r1
  br i1 %more, label %body, label %done

body:
  %part = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 3040, i32 SITE, ptr null, i32 3, ptr %isolate, i64 %r0, i64 %index, ptr %isolate, i64 %r0, i64 %r1, i64 %sum, i64 %index, i64 2, i64 2, i64 2)
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 3051, i32 SHADOW, ptr %isolate, i64 %r0, i64 %r1, i64 %sum, i64 %index, i64 %part, i64 2, i64 2)
  %integer = trunc i64 %part to i1
  %scaled = sub i64 %part, 1
  br i1 %integer, label %add, label %rare

add:
  %checked = call { i64, i1 } @llvm.sadd.with.overflow.i64(i64 %sum, i64 %scaled)
  %sum.next = extractvalue { i64, i1 } %checked, 0
  %overflow = extractvalue { i64, i1 } %checked, 1
  br i1 %overflow, label %rare, label %next

next:
  %index.next = add i64 %index, 2
  br label %loop

done:
  ret i64 %sum

rare:
  call void (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.void(i64 3052, i32 SITE, ptr null, i32 0, ptr %isolate, i64 %r0, i64 %r1, i64 %sum, i64 %index, i64 %part, i64 2, i64 2)
  ret i64 2

rare.entry:
  call void (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.void(i64 3002, i32 SITE, ptr null, i32 0, ptr %isolate, i64 %r0, i64 %r1, i64 2, i64 2, i64 2, i64 2, i64 2)
  ret i64 2
}
