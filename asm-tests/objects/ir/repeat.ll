; One ID at many sites, as inlining and loop transformations leave it, and sites in loops.
declare i64 @llvm.experimental.patchpoint.i64(i64, i32, ptr, i32, ...)
declare void @llvm.experimental.patchpoint.void(i64, i32, ptr, i32, ...)
declare void @llvm.experimental.stackmap(i64, i32, ...)

; What an inliner makes of three calls to one function that holds ID 700.
define i64 @repeat_inlined(i64 %a, i64 %b, i64 %c) uwtable {
  %x = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 700, i32 32, ptr null, i32 1, i64 %a, i64 %b)
  %y = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 700, i32 32, ptr null, i32 1, i64 %b, i64 %c)
  %z = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 700, i32 32, ptr null, i32 1, i64 %c, i64 %a)
  %p = mul i64 %x, %y
  %q = sub i64 %p, %z
  ret i64 %q
}

; The same ID in another function.
define i64 @repeat_other(i64 %a) uwtable {
  %x = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 700, i32 32, ptr null, i32 1, i64 %a)
  %y = mul i64 %x, 7
  ret i64 %y
}

; A loop over the site.
define i64 @repeat_loop(i64 %n, i64 %b) uwtable {
entry:
  %count = and i64 %n, 1023
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i1, %loop ]
  %acc = phi i64 [ %b, %entry ], [ %acc1, %loop ]
  %r = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 701, i32 32, ptr null, i32 1, i64 %acc, i64 %i)
  %acc1 = xor i64 %r, %i
  %i1 = add i64 %i, 1
  %more = icmp ule i64 %i1, %count
  br i1 %more, label %loop, label %done
done:
  ret i64 %acc1
}

; Two sites that follow each other without an instruction between them, in two conventions.
define i64 @repeat_adjacent(i64 %a, i64 %b) uwtable {
  call anyregcc void (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.void(i64 702, i32 16, ptr null, i32 0)
  call anyregcc void (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.void(i64 703, i32 16, ptr null, i32 0)
  call anyregcc void (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.void(i64 706, i32 16, ptr null, i32 1, i64 %a)
  %s = sub i64 %a, %b
  ret i64 %s
}

; Branches: a site on each side.
define i64 @repeat_branch(i64 %a, i64 %b) uwtable {
entry:
  %less = icmp slt i64 %a, %b
  br i1 %less, label %left, label %right
left:
  %x = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 704, i32 24, ptr null, i32 1, i64 %a)
  br label %done
right:
  %y = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 705, i32 40, ptr null, i32 1, i64 %b)
  br label %done
done:
  %z = phi i64 [ %x, %left ], [ %y, %right ]
  %s = mul i64 %z, %a
  ret i64 %s
}

; An ID with every bit set, and a large one.
define i64 @repeat_odd_ids(i64 %a) uwtable {
  %x = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 -1, i32 32, ptr null, i32 1, i64 %a)
  %y = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 9223372036854775806, i32 32, ptr null, i32 1, i64 %x)
  ret i64 %y
}
