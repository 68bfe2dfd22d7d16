; Two functions for each of the kinds of sites that LLVM leaves. CALLEE is the address of `callee`.
declare i64 @llvm.experimental.patchpoint.i64(i64, i32, i8*, i32, ...)

define i64 @any_0(i64 %x) {
  %r = call anyregcc i64 (i64, i32, i8*, i32, ...) @llvm.experimental.patchpoint.i64(i64 100, i32 32, i8* null, i32 1, i64 %x)
  ret i64 %r
}

define i64 @any_1(i64 %x) {
  %r = call anyregcc i64 (i64, i32, i8*, i32, ...) @llvm.experimental.patchpoint.i64(i64 101, i32 17, i8* null, i32 1, i64 %x)
  ret i64 %r
}

define i64 @call_0(i64 %x) {
  %r = call i64 (i64, i32, i8*, i32, ...) @llvm.experimental.patchpoint.i64(i64 200, i32 40, i8* inttoptr (i64 CALLEE to i8*), i32 1, i64 %x)
  ret i64 %r
}

define i64 @call_1(i64 %x) {
  %r = call i64 (i64, i32, i8*, i32, ...) @llvm.experimental.patchpoint.i64(i64 201, i32 16, i8* inttoptr (i64 CALLEE to i8*), i32 1, i64 %x)
  ret i64 %r
}

define i64 @entry_0(i64 %x) #0 {
  %r = add i64 %x, 77
  ret i64 %r
}

define i64 @entry_1(i64 %x) #1 {
  %r = add i64 %x, 77
  ret i64 %r
}

attributes #0 = { "patchable-function-entry"="24" }
attributes #1 = { "patchable-function-entry"="5" }
