; The better code of examples/osr.rs, optimized by make.sh. It takes for granted that all items are below 1000.
;
;   ID  function   what                                                                    reserved
;   20  weigh_osr  an item that is not: the four variables of the loop, in registers       48 bytes

declare void @llvm.experimental.patchpoint.void(i64, i32, ptr, i32, ...)

; The loop of `weigh` from the middle.
define i64 @weigh_osr(ptr %items, i64 %count, i64 %index, i64 %sum) uwtable {
entry:
  br label %loop

loop:
  %at = phi i64 [ %index, %entry ], [ %next, %small ]
  %before = phi i64 [ %sum, %entry ], [ %after, %small ]
  %more = icmp ult i64 %at, %count
  br i1 %more, label %body, label %done

body:
  %place = getelementptr i64, ptr %items, i64 %at
  %item = load i64, ptr %place
  %is.small = icmp ult i64 %item, 1000
  br i1 %is.small, label %small, label %rare, !prof !0

small:
  %twice = mul i64 %item, 2
  %after = add i64 %before, %twice
  %next = add i64 %at, 1
  br label %loop

rare:
  call void (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.void(i64 20, i32 48, ptr null, i32 0, ptr %items, i64 %count, i64 %at, i64 %before)
  ret i64 -1

done:
  ret i64 %before
}

!0 = !{!"branch_weights", i32 1000, i32 1}
