; put(self, value): self.mark = value; the value. See README.md for the conventions.
declare i64 @llvm.experimental.patchpoint.i64(i64, i32, ptr, i32, ...)
declare void @llvm.experimental.patchpoint.void(i64, i32, ptr, i32, ...)
declare void @llvm.experimental.stackmap(i64, i32, ...)

define i64 @put(ptr %isolate, i64 %r0, i64 %r1) uwtable "patchable-function-entry"="ENTRY" {
  call anyregcc void (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.void(i64 6000, i32 SITE, ptr null, i32 2, i64 %r0, i64 %r1, ptr %isolate, i64 %r0, i64 %r1)
  ret i64 %r1
}
