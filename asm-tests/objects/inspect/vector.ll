; Live values of 16 bytes, and a shadow with a call in it.

declare void @llvm.experimental.stackmap(i64, i32, ...)
declare <4 x i32> @make()

define <4 x i32> @vector(<4 x i32> %a) {
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 13, i32 8, <4 x i32> %a)
  %b = call <4 x i32> @make()
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 12, i32 4, <4 x i32> %a, <4 x i32> %b)
  %sum = add <4 x i32> %a, %b
  ret <4 x i32> %sum
}
