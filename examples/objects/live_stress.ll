; The object of examples/live_stress.rs, made by make.sh, which says what is in it.
declare i64 @callee(i64)
declare i64 @llvm.experimental.patchpoint.i64(i64, i32, ptr, i32, ...)
declare void @llvm.experimental.patchpoint.void(i64, i32, ptr, i32, ...)

define i64 @any_0(i64 %x) uwtable {

  %r = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 100, i32 9, ptr null, i32 1, i64 %x)
  ret i64 %r
}

define i64 @call_0(i64 %x) uwtable {

  %r = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 200, i32 13, ptr @callee, i32 1, i64 %x)
  ret i64 %r
}

define i64 @any_1(i64 %x) uwtable {
  call void (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.void(i64 900, i32 1, ptr null, i32 0)
  %r = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 101, i32 13, ptr null, i32 1, i64 %x)
  ret i64 %r
}

define i64 @call_1(i64 %x) uwtable {
  call void (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.void(i64 900, i32 1, ptr null, i32 0)
  %r = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 201, i32 16, ptr @callee, i32 1, i64 %x)
  ret i64 %r
}

define i64 @any_2(i64 %x) uwtable {
  call void (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.void(i64 900, i32 2, ptr null, i32 0)
  %r = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 102, i32 17, ptr null, i32 1, i64 %x)
  ret i64 %r
}

define i64 @call_2(i64 %x) uwtable {
  call void (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.void(i64 900, i32 2, ptr null, i32 0)
  %r = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 202, i32 19, ptr @callee, i32 1, i64 %x)
  ret i64 %r
}

define i64 @any_3(i64 %x) uwtable {
  call void (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.void(i64 900, i32 3, ptr null, i32 0)
  %r = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 103, i32 21, ptr null, i32 1, i64 %x)
  ret i64 %r
}

define i64 @call_3(i64 %x) uwtable {
  call void (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.void(i64 900, i32 3, ptr null, i32 0)
  %r = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 203, i32 22, ptr @callee, i32 1, i64 %x)
  ret i64 %r
}

define i64 @any_4(i64 %x) uwtable {
  call void (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.void(i64 900, i32 4, ptr null, i32 0)
  %r = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 104, i32 25, ptr null, i32 1, i64 %x)
  ret i64 %r
}

define i64 @call_4(i64 %x) uwtable {
  call void (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.void(i64 900, i32 4, ptr null, i32 0)
  %r = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 204, i32 25, ptr @callee, i32 1, i64 %x)
  ret i64 %r
}

define i64 @any_5(i64 %x) uwtable {
  call void (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.void(i64 900, i32 5, ptr null, i32 0)
  %r = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 105, i32 29, ptr null, i32 1, i64 %x)
  ret i64 %r
}

define i64 @call_5(i64 %x) uwtable {
  call void (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.void(i64 900, i32 5, ptr null, i32 0)
  %r = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 205, i32 28, ptr @callee, i32 1, i64 %x)
  ret i64 %r
}

define i64 @any_6(i64 %x) uwtable {
  call void (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.void(i64 900, i32 6, ptr null, i32 0)
  %r = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 106, i32 33, ptr null, i32 1, i64 %x)
  ret i64 %r
}

define i64 @call_6(i64 %x) uwtable {
  call void (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.void(i64 900, i32 6, ptr null, i32 0)
  %r = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 206, i32 31, ptr @callee, i32 1, i64 %x)
  ret i64 %r
}

define i64 @any_7(i64 %x) uwtable {
  call void (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.void(i64 900, i32 7, ptr null, i32 0)
  %r = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 107, i32 37, ptr null, i32 1, i64 %x)
  ret i64 %r
}

define i64 @call_7(i64 %x) uwtable {
  call void (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.void(i64 900, i32 7, ptr null, i32 0)
  %r = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 207, i32 34, ptr @callee, i32 1, i64 %x)
  ret i64 %r
}
