; fold(closure, count): closure(closure(...closure(0))), count times. See README.md for the conventions.
declare i64 @llvm.experimental.patchpoint.i64(i64, i32, ptr, i32, ...)
declare void @llvm.experimental.patchpoint.void(i64, i32, ptr, i32, ...)
declare void @llvm.experimental.stackmap(i64, i32, ...)

define i64 @fold(ptr %isolate, i64 %r0, i64 %r1) uwtable "patchable-function-entry"="ENTRY" {
entry:
  %counted = trunc i64 %r1 to i1
  br i1 %counted, label %loop, label %rare

loop:
  %value = phi i64 [ 1, %entry ], [ %result, %body ]
  %index = phi i64 [ 1, %entry ], [ %index.next, %body ]
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 4021, i32 SHADOW, ptr %isolate, i64 %r0, i64 %r1, i64 %value, i64 %index, i64 2, i64 2)
  %more = icmp slt i64 %index, %r1
  br i1 %more, label %body, label %done

body:
  %result = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 4040, i32 SITE, ptr null, i32 3, ptr %isolate, i64 %r0, i64 %value, ptr %isolate, i64 %r0, i64 %r1, i64 %value, i64 %index, i64 2, i64 2)
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 4051, i32 SHADOW, ptr %isolate, i64 %r0, i64 %r1, i64 %result, i64 %index, i64 2, i64 %value)
  %index.next = add i64 %index, 2
  br label %loop

done:
  ret i64 %value

rare:
  call void (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.void(i64 4002, i32 SITE, ptr null, i32 0, ptr %isolate, i64 %r0, i64 %r1, i64 2, i64 2, i64 2, i64 2)
  ret i64 2
}
