; area(self) = self.width * self.height. See README.md for the conventions.
declare i64 @llvm.experimental.patchpoint.i64(i64, i32, ptr, i32, ...)
declare void @llvm.experimental.patchpoint.void(i64, i32, ptr, i32, ...)
declare void @llvm.experimental.stackmap(i64, i32, ...)
declare { i64, i1 } @llvm.smul.with.overflow.i64(i64, i64)

define i64 @area(ptr %isolate, i64 %r0, i64 %r1) uwtable "patchable-function-entry"="ENTRY" {
  %r2 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1000, i32 SITE, ptr null, i32 1, i64 %r0, ptr %isolate, i64 %r0, i64 %r1, i64 2, i64 2)
  %r3 = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1010, i32 SITE, ptr null, i32 1, i64 %r0, ptr %isolate, i64 %r0, i64 %r1, i64 %r2, i64 2)
  %both = and i64 %r2, %r3
  %integers = trunc i64 %both to i1
  br i1 %integers, label %multiply, label %rare

multiply:
  %left = ashr i64 %r2, 1
  %right = sub i64 %r3, 1
  %checked = call { i64, i1 } @llvm.smul.with.overflow.i64(i64 %left, i64 %right)
  %product = extractvalue { i64, i1 } %checked, 0
  %overflow = extractvalue { i64, i1 } %checked, 1
  br i1 %overflow, label %rare, label %done

done:
  %word = or i64 %product, 1
  ret i64 %word

rare:
  call void (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.void(i64 1022, i32 SITE, ptr null, i32 0, ptr %isolate, i64 %r0, i64 %r1, i64 %r2, i64 %r3)
  ret i64 2
}
