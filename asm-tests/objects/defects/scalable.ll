; Values in scalable vectors, which no exit saves: across a shadow, of whose live registers nothing tells, and in a
; function with a patchpoint, which spills them, and whose record names the register that says how long they are.
declare void @llvm.experimental.stackmap(i64, i32, ...)
declare i64 @llvm.experimental.patchpoint.i64(i64, i32, ptr, i32, ...)

define <vscale x 2 x i64> @across(<vscale x 2 x i64> %v, <vscale x 2 x i64> %w) {
  %s = add <vscale x 2 x i64> %v, %w
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 1, i32 16)
  %t = mul <vscale x 2 x i64> %s, %w
  ret <vscale x 2 x i64> %t
}

define <vscale x 2 x i64> @spilled(<vscale x 2 x i64> %v, i64 %a) {
  %r = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 2, i32 32, ptr null, i32 1, i64 %a)
  %i = insertelement <vscale x 2 x i64> %v, i64 %r, i32 0
  %s = add <vscale x 2 x i64> %v, %i
  ret <vscale x 2 x i64> %s
}
