; llc: -enable-patchpoint-liveness=false -relocation-model=pic (an ordinary call)
; Exception handling: unwind information with a personality and a table of landing pads.
; variants: pic-large
declare i64 @llvm.experimental.patchpoint.i64(i64, i32, ptr, i32, ...)
declare i64 @ext_add(i64, i64)
declare i32 @__gxx_personality_v0(...)

define i64 @unwind_call(i64 %a, i64 %b) uwtable personality ptr @__gxx_personality_v0 {
entry:
  %r = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 950, i32 32, ptr null, i32 1, i64 %a, i64 %b)
  %x = invoke i64 @ext_add(i64 %r, i64 %b) to label %fine unwind label %thrown
fine:
  ret i64 %x
thrown:
  %pad = landingpad { ptr, i32 } catch ptr null
  ret i64 %b
}
define i64 @unwind_site(i64 %a, i64 %b) uwtable personality ptr @__gxx_personality_v0 {
entry:
  %r = invoke i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 951, i32 32, ptr null, i32 1, i64 %a, i64 %b) to label %fine unwind label %thrown
fine:
  %s = add i64 %r, %b
  ret i64 %s
thrown:
  %pad = landingpad { ptr, i32 } cleanup

  resume { ptr, i32 } %pad
}
