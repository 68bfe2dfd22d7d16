; An inline function with a site, its call and its exported caller, of which every object has a copy but of the caller, whose
; name `NAME` stands for.
declare i64 @llvm.experimental.patchpoint.i64(i64, i32, ptr, i32, ...)
declare void @llvm.experimental.stackmap(i64, i32, ...)

$shared = comdat any

define linkonce_odr i64 @shared(i64 %x) uwtable comdat {
  %r = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1, i32 64, ptr null, i32 1, i64 %x)
  %s = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 2, i32 64, ptr null, i32 1, i64 %r)
  ret i64 %s
}

define i64 @NAME(i64 %x) uwtable {
  %r = call i64 @shared(i64 %x)
  %s = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 3, i32 64, ptr null, i32 1, i64 %r)
  ret i64 %s
}
