; Statepoints, with and without an ID of their own, and what looks like one.
declare token @llvm.experimental.gc.statepoint.p0(i64, i32, ptr, i32, i32, ...)
declare void @llvm.experimental.stackmap(i64, i32, ...)
declare i64 @llvm.experimental.patchpoint.i64(i64, i32, ptr, i32, ...)
declare void @g()
define i64 @calls(i64 %n, ptr %p) gc "statepoint-example" {
entry:
  %t = call token (i64, i32, ptr, i32, i32, ...) @llvm.experimental.gc.statepoint.p0(i64 2, i32 0, ptr elementtype(void ()) @g, i32 0, i32 0, i32 0, i32 0) [ "deopt"(i64 %n, i32 5) ]
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %j, %head ]
  %j = add i64 %i, 1
  store volatile i64 %j, ptr %p
  %c = icmp eq i64 %j, 1000
  br i1 %c, label %out, label %head
out:
  ret i64 %j
}
; The nop that keeps a call and an epilogue of Windows apart.
define void @ends() gc "statepoint-example" {
  %t = call token (i64, i32, ptr, i32, i32, ...) @llvm.experimental.gc.statepoint.p0(i64 2882400000, i32 0, ptr elementtype(void ()) @g, i32 0, i32 0, i32 0, i32 0)
  ret void
}
; Nops in place of the call.
define i64 @reserves(i64 %a) gc "statepoint-example" {
  %t = call token (i64, i32, ptr, i32, i32, ...) @llvm.experimental.gc.statepoint.p0(i64 3, i32 8, ptr elementtype(void ()) null, i32 0, i32 0, i32 0, i32 0)
  ret i64 %a
}
define i64 @shadow(i64 %a, ptr %p) {
  store volatile i64 %a, ptr %p
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 4, i32 8, i64 0, i64 0, i64 0)
  store volatile i64 %a, ptr %p
  store volatile i64 %a, ptr %p
  ret i64 %a
}
define i64 @any(i64 %a) {
  %r = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 5, i32 20, ptr null, i32 1, i64 %a)
  %s = add i64 %r, %a
  ret i64 %s
}
