; What an object-oriented language runtime asks for: a property read, a property write, a binary operator and a
; method call, all with nops in their sites. Contract of every source here: see README.md in this folder.
declare i64 @llvm.experimental.patchpoint.i64(i64, i32, ptr, i32, ...)
declare void @llvm.experimental.patchpoint.void(i64, i32, ptr, i32, ...)
declare void @llvm.experimental.stackmap(i64, i32, ...)

; One property read: object in, value out.
define i64 @get(ptr %obj) uwtable {
  %r = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 78, i32 32, ptr null, i32 1, ptr %obj)
  ret i64 %r
}

; a + b of the language.
define i64 @add(i64 %a, i64 %b) uwtable {
  %r = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 79, i32 24, ptr null, i32 2, i64 %a, i64 %b)
  ret i64 %r
}

; obj.method(a, b), with another value live across it.
define i64 @method(ptr %obj, i64 %a, i64 %b) uwtable {
  %keep = mul i64 %a, %b
  %r = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 80, i32 48, ptr null, i32 3, ptr %obj, i64 %a, i64 %b, i64 %keep)
  %s = add i64 %r, %keep
  ret i64 %s
}

; obj.field = value: no result.
define i64 @set(ptr %obj, i64 %value) uwtable {
  call anyregcc void (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.void(i64 81, i32 24, ptr null, i32 2, ptr %obj, i64 %value)
  %v = load i64, ptr %obj
  %s = add i64 %v, %value
  ret i64 %s
}

; Two reads of the same object: the value of the first is live across the second.
define i64 @get_twice(ptr %obj) uwtable {
  %r = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 78, i32 32, ptr null, i32 1, ptr %obj)
  %s = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 78, i32 32, ptr null, i32 1, ptr %obj)
  %t = mul i64 %s, 3
  %u = add i64 %r, %t
  ret i64 %u
}
