; plus(self, by) = self.base + by. See README.md for the conventions.
declare i64 @llvm.experimental.patchpoint.i64(i64, i32, ptr, i32, ...)
declare void @llvm.experimental.patchpoint.void(i64, i32, ptr, i32, ...)
declare void @llvm.experimental.stackmap(i64, i32, ...)
declare { i64, i1 } @llvm.sadd.with.overflow.i64(i64, i64)

define i64 @plus(ptr %isolate, i64 %r0, i64 %r1) uwtable "patchable-function-entry"="ENTRY" {
  %r2 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 5000, i32 SITE, ptr null, i32 1, i64 %r0, ptr %isolate, i64 %r0, i64 %r1, i64 2)
  %both = and i64 %r2, %r1
  %integers = trunc i64 %both to i1
  br i1 %integers, label %add, label %rare

add:
  %right = sub i64 %r1, 1
  %checked = call { i64, i1 } @llvm.sadd.with.overflow.i64(i64 %r2, i64 %right)
  %sum = extractvalue { i64, i1 } %checked, 0
  %overflow = extractvalue { i64, i1 } %checked, 1
  br i1 %overflow, label %rare, label %done

done:
  ret i64 %sum

rare:
  call void (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.void(i64 5012, i32 SITE, ptr null, i32 0, ptr %isolate, i64 %r0, i64 %r1, i64 %r2)
  ret i64 2
}
