; Functions for the tests of traps: what must be refused, or survived, when sites like these are changed.
; Without lists of live-outs, as LLVM writes them by default where its liveness pass cannot run.
declare i64 @llvm.experimental.patchpoint.i64(i64, i32, ptr, i32, ...)
declare void @llvm.experimental.stackmap(i64, i32, ...)
declare i64 @callee(i64)
declare i64 @step(i64)

; The callee may patch the site that it will return into.
define i64 @calls(i64 %a) uwtable {
  %r = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1, i32 40, ptr @callee, i32 1, i64 %a)
  %s = mul i64 %r, 3
  ret i64 %s
}

; The callee calls this again: several frames return into the one site. %a lives in a callee-saved register.
define i64 @recurses(i64 %a) uwtable {
  %r = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 2, i32 40, ptr @step, i32 1, i64 %a)
  %s = add i64 %r, %a
  ret i64 %s
}

; A leaf whose slots lie in the red zone while the shadow executes.
define i64 @leaf(i64 %a, i64 %b) uwtable {
  %p = alloca [12 x i64]
  %q = getelementptr i64, ptr %p, i64 1
  %z = getelementptr i64, ptr %p, i64 11
  store volatile i64 %a, ptr %p
  store volatile i64 %b, ptr %q
  store volatile i64 77, ptr %z
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 3, i32 16, i64 %a, i64 %b)
  %v = load volatile i64, ptr %p
  %w = load volatile i64, ptr %q
  %x = load volatile i64, ptr %z
  %m = mul i64 %v, %w
  %n = add i64 %m, %x
  ret i64 %n
}

; 16 bytes of nops before anything else.
define i64 @entered(i64 %a) uwtable "patchable-function-entry"="16" {
  %r = add i64 %a, 5
  ret i64 %r
}

; Another one with the same signature, to which an entry can be redirected.
define i64 @redirected(i64 %a) uwtable "patchable-function-entry"="16" {
  %r = mul i64 %a, 11
  ret i64 %r
}

; An entry whose reserved bytes are followed at once by a patchpoint.
define i64 @entry_then_site(i64 %a) uwtable "patchable-function-entry"="16" {
  %r = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 4, i32 24, ptr null, i32 1, i64 %a)
  ret i64 %r
}

; One ID three times, with different reserved lengths in the last.
define i64 @same_ids(i64 %a, i64 %b) uwtable {
  %x = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 5, i32 32, ptr null, i32 1, i64 %a)
  %y = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 5, i32 32, ptr null, i32 1, i64 %b)
  %p = mul i64 %x, %y
  ret i64 %p
}
define i64 @same_id_elsewhere(i64 %a) uwtable {
  %x = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 5, i32 32, ptr null, i32 1, i64 %a)
  ret i64 %x
}

; Two patchpoints without an instruction between them, and a stackmap right behind.
define i64 @adjacent(i64 %a) uwtable {
  %x = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 6, i32 20, ptr null, i32 1, i64 %a)
  %y = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 7, i32 20, ptr null, i32 1, i64 %x)
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 8, i32 12, i64 %y)
  ret i64 %y
}

; The nops of the patchpoint end at a multiple of 16, as those of an alignment would.
define i64 @aligned_end(i64 %a) uwtable {
  %x = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 9, i32 28, ptr null, i32 1, i64 %a)
  ret i64 %x
}
