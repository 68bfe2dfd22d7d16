; The baseline of examples/osr.rs, compiled without optimization by make.sh.
;
;   ID  function  what                                               reserved
;   10  weigh     the head of the loop, with its four variables      48 bytes
;
; The patchpoint begins its block, so nothing lives across it but the variables, which are all in the frame.

declare void @llvm.experimental.patchpoint.void(i64, i32, ptr, i32, ...)

; Twice what is below 1000, once what is not.
define i64 @weight(i64 %item) uwtable {
  %small = icmp ult i64 %item, 1000
  %twice = mul i64 %item, 2
  %weight = select i1 %small, i64 %twice, i64 %item
  ret i64 %weight
}

; The sum of the weights of `count` items.
define i64 @weigh(ptr %items.arg, i64 %count.arg) uwtable {
entry:
  %items = alloca ptr
  %count = alloca i64
  %index = alloca i64
  %sum = alloca i64
  store ptr %items.arg, ptr %items
  store i64 %count.arg, ptr %count
  store i64 0, ptr %index
  store i64 0, ptr %sum
  br label %loop

loop:
  call void (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.void(i64 10, i32 48, ptr null, i32 0, ptr %items, ptr %count, ptr %index, ptr %sum)
  %at = load i64, ptr %index
  %end = load i64, ptr %count
  %more = icmp ult i64 %at, %end
  br i1 %more, label %body, label %done

body:
  %from = load ptr, ptr %items
  %now = load i64, ptr %index
  %place = getelementptr i64, ptr %from, i64 %now
  %item = load i64, ptr %place
  %weight = call i64 @weight(i64 %item)
  %before = load i64, ptr %sum
  %after = add i64 %before, %weight
  store i64 %after, ptr %sum
  %next = add i64 %now, 1
  store i64 %next, ptr %index
  br label %loop

done:
  %result = load i64, ptr %sum
  ret i64 %result
}
