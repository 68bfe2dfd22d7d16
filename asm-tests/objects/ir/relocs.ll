; llc: -enable-patchpoint-liveness=false (ordinary calls)
; What a loader meets: data of every kind, calls in and out, jump tables, constant pools, common and weak symbols.
; variants: pic-small pic-large static-large static-medium pic-medium
declare i64 @llvm.experimental.patchpoint.i64(i64, i32, ptr, i32, ...)
declare void @llvm.experimental.stackmap(i64, i32, ...)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare i64 @ext_add(i64, i64)
declare extern_weak i64 @ext_missing(i64)
@ext_data = external global i64
@counter = global i64 5
@zeroed = global [32 x i64] zeroinitializer
@common = common global i64 0, align 8
@hidden = hidden global i64 11
@local = internal global i64 13
@aligned = global i64 17, align 64
@greeting = private unnamed_addr constant [6 x i8] c"hello\00"
@table = constant [3 x ptr] [ptr @reloc_leaf, ptr @reloc_local, ptr @ext_add]
@relative = constant i32 trunc (i64 sub (i64 ptrtoint (ptr @reloc_leaf to i64), i64 ptrtoint (ptr @relative to i64)) to i32)
@data_in_named = global i64 19, section "my_data"
@pointer = global ptr getelementptr ([32 x i64], ptr @zeroed, i64 0, i64 3)

define i64 @reloc_leaf(i64 %a) uwtable {
  %r = add i64 %a, 1
  ret i64 %r
}
define internal i64 @reloc_local(i64 %a) noinline uwtable {
  %r = mul i64 %a, 3
  ret i64 %r
}
define i64 @reloc_named(i64 %a) noinline uwtable section ".text.named" {
  %r = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 900, i32 32, ptr null, i32 1, i64 %a)
  ret i64 %r
}

; External data through the GOT or directly, a common symbol, hidden and local data.
define i64 @reloc_data(i64 %a) uwtable {
  %e = load volatile i64, ptr @ext_data
  store volatile i64 %a, ptr @common
  %c = load volatile i64, ptr @common
  %h = load volatile i64, ptr @hidden
  %l = load volatile i64, ptr @local
  %n = load volatile i64, ptr @data_in_named
  %al = load volatile i64, ptr @aligned
  %z = load volatile i64, ptr getelementptr ([32 x i64], ptr @zeroed, i64 0, i64 31)
  %p = load volatile ptr, ptr @pointer
  %pv = load volatile i64, ptr %p
  %s1 = add i64 %e, %c
  %s2 = mul i64 %s1, %h
  %s3 = add i64 %s2, %l
  %s4 = mul i64 %s3, %n
  %s5 = add i64 %s4, %al
  %s6 = add i64 %s5, %z
  %s7 = add i64 %s6, %pv
  %r = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 901, i32 32, ptr null, i32 1, i64 %s7, ptr @hidden, i64 %a)
  ret i64 %r
}

; Calls: external, local, in another section, through a table of pointers, to a weak symbol that is missing.
define i64 @reloc_calls(i64 %a, i64 %b) uwtable {
entry:
  %x = call i64 @ext_add(i64 %a, i64 %b)
  %y = call i64 @reloc_local(i64 %x)
  %z = call i64 @reloc_named(i64 %y)
  %i = and i64 %b, 1
  %slot = getelementptr [3 x ptr], ptr @table, i64 0, i64 %i
  %f = load volatile ptr, ptr %slot
  %w = call i64 %f(i64 %z)
  %missing = icmp eq ptr @ext_missing, null
  br i1 %missing, label %none, label %some
some:
  %v = call i64 @ext_missing(i64 %w)
  ret i64 %v
none:
  %r = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 902, i32 32, ptr null, i32 2, i64 %w, i64 %a)
  ret i64 %r
}

; A jump table and a constant pool.
define i64 @reloc_switch(i64 %a, i64 %b) uwtable {
entry:
  %k = and i64 %a, 7
  switch i64 %k, label %other [ i64 0, label %c0
                                i64 1, label %c1
                                i64 2, label %c2
                                i64 3, label %c3
                                i64 4, label %c4
                                i64 5, label %c5 ]
c0:
  %r0 = mul i64 %b, %b
  br label %other
c1:
  %r1 = add i64 %b, 1000
  br label %other
c2:
  %r2 = sub i64 %a, %b
  br label %other
c3:
  %r3 = shl i64 %b, 3
  br label %other
c4:
  %r4 = xor i64 %b, %a
  br label %other
c5:
  %r5 = lshr i64 %b, 5
  br label %other
other:
  %v = phi i64 [ 77, %entry ], [ %r0, %c0 ], [ %r1, %c1 ], [ %r2, %c2 ], [ %r3, %c3 ], [ %r4, %c4 ], [ %r5, %c5 ]
  %m = and i64 %b, 1023
  %f = sitofp i64 %m to double
  %g = fmul double %f, 3.25
  %h = fptosi double %g to i64
  %s = add i64 %v, %h
  %r = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 903, i32 32, ptr null, i32 1, i64 %s, double %g)
  ret i64 %r
}

; memcpy from a string constant; a position-relative word.
define i64 @reloc_bytes(i64 %a) uwtable {
  %p = alloca [8 x i8]
  store volatile i64 0, ptr %p
  call void @llvm.memcpy.p0.p0.i64(ptr %p, ptr @greeting, i64 6, i1 true)
  %v = load volatile i64, ptr %p
  %rel = load volatile i32, ptr @relative
  %wide = sext i32 %rel to i64
  %base = ptrtoint ptr @relative to i64
  %to = add i64 %base, %wide
  %f = inttoptr i64 %to to ptr
  %w = call i64 %f(i64 %v)
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 904, i32 16, i64 %v, ptr @counter)
  %s = add i64 %w, %a
  ret i64 %s
}
