; Functions that are left at a patchpoint, with every callee-saved register overwritten, from a frame of fixed
; size, of dynamic size, and of dynamic size and alignment (whose unwind information is DWARF expressions).
; llc-19 -O2 -filetype=obj -relocation-model=pic leave.ll -o leave.o
target triple = "x86_64-unknown-linux-gnu"

declare i64 @llvm.experimental.patchpoint.i64(i64, i32, ptr, i32, ...)

define i64 @fixed(i64 %a) uwtable {
  %slot = alloca [600 x i8], align 16
  store volatile i64 %a, ptr %slot
  call void asm sideeffect "xor %ebx, %ebx\0Axor %r12d, %r12d\0Axor %r13d, %r13d\0Axor %r14d, %r14d\0Axor %r15d, %r15d", "~{rbx},~{r12},~{r13},~{r14},~{r15},~{dirflag},~{fpsr},~{flags}"()
  %r = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1, i32 16, ptr null, i32 0, ptr %slot, i64 %a)
  ret i64 %r
}

define i64 @dynamic(i64 %size) uwtable {
  %slot = alloca i8, i64 %size, align 16
  store volatile i8 1, ptr %slot
  call void asm sideeffect "xor %ebx, %ebx\0Axor %r12d, %r12d\0Axor %r13d, %r13d\0Axor %r14d, %r14d\0Axor %r15d, %r15d", "~{rbx},~{r12},~{r13},~{r14},~{r15},~{dirflag},~{fpsr},~{flags}"()
  %r = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 2, i32 16, ptr null, i32 0, ptr %slot)
  ret i64 %r
}

define i64 @aligned(i64 %size) uwtable {
  %slot = alloca i8, i64 %size, align 64
  store volatile i8 1, ptr %slot
  call void asm sideeffect "xor %ebx, %ebx\0Axor %r12d, %r12d\0Axor %r13d, %r13d\0Axor %r14d, %r14d\0Axor %r15d, %r15d", "~{rbx},~{r12},~{r13},~{r14},~{r15},~{dirflag},~{fpsr},~{flags}"()
  %r = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 3, i32 16, ptr null, i32 0, ptr %slot)
  ret i64 %r
}
