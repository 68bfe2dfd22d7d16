; IDs that stand for several calls.
target triple = "x86_64-unknown-linux-gnu"
declare void @llvm.experimental.stackmap(i64, i32, ...)
declare i64 @llvm.experimental.patchpoint.i64(i64, i32, ptr, i32, ...)

; One block: LLVM keeps the order.
define i64 @order(i64 %a, i64 %b, ptr %p) {
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 7, i32 0)
  store volatile i64 %a, ptr %p
  store volatile i64 %b, ptr %p
  store volatile i64 %a, ptr %p
  store volatile i64 %b, ptr %p
  store volatile i64 %a, ptr %p
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 7, i32 16)
  ret i64 %a
}

; The same ID elsewhere.
define void @elsewhere() {
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 7, i32 24)
  ret void
}

; Two kinds, in blocks of their own.
define i64 @kinds(i64 %a, i64 %b, ptr %p) {
  %c = icmp eq i64 %a, 0
  br i1 %c, label %left, label %right
left:
  %r = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 8, i32 16, ptr null, i32 2, i64 %a, i64 %b)
  ret i64 %r
right:
  %s = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 8, i32 8, ptr null, i32 1, i64 %b)
  ret i64 %s
}

; Constants tell these apart.
define i64 @constants(i64 %a, ptr %p) {
  %c = icmp eq i64 %a, 0
  br i1 %c, label %left, label %right
left:
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 9, i32 8, i64 1, i64 81985529216486895)
  ret i64 1
right:
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 9, i32 16, i64 2, i64 %a)
  ret i64 2
}

; Nothing tells these apart.
define i64 @nothing(i64 %a, ptr %p) {
  %c = icmp eq i64 %a, 0
  br i1 %c, label %left, label %right
left:
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 10, i32 8, i64 %a)
  ret i64 1
right:
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 10, i32 16, i64 %a)
  ret i64 2
}

; What is called may have been inlined ...
define void @inlined() {
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 11, i32 8)
  ret void
}
define void @caller() {
  call void @inlined()
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 11, i32 16)
  ret void
}
; ... or not.
define void @kept() #0 {
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 12, i32 8)
  ret void
}
define void @keeper() {
  call void @kept()
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 12, i32 16)
  ret void
}

; A stackmap of no bytes beside a patchpoint.
define i64 @beside(i64 %a) {
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 13, i32 0)
  %r = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 14, i32 18, ptr null, i32 1, i64 %a)
  ret i64 %r
}
attributes #0 = { noinline nounwind }
