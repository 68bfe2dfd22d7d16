; Marked instructions that become sites: the constants are an ID and a reserved length in bytes. What is stored is in a
; register already: llc 19 also marks the instructions that it makes to have a constant, and they share the entry.

; One instruction. Longer than a jump on x86-64, as the displacement takes 4 bytes.
define void @store(ptr %p, i64 %v) {
  %far = getelementptr i8, ptr %p, i64 1024
  store volatile i64 %v, ptr %far, align 8, !pcsections !10
  ret void
}

; The site is longer than the marked instruction.
define i64 @load(ptr %p, i64 %v) {
  %value = load volatile i64, ptr %p, align 8, !pcsections !20
  %sum = add i64 %value, %v
  %more = shl i64 %sum, 4
  ret i64 %more
}

; An atomic instruction: as many machine instructions share the entry as it takes.
define i32 @exchange(ptr %p, i32 %v) {
  %old = atomicrmw xchg ptr %p, i32 %v seq_cst, align 4, !pcsections !30
  ret i32 %old
}

; A site of so many bytes that the instruction to which the loop comes back is in it.
define void @into(ptr %p, i64 %n) {
entry:
  store volatile i64 %n, ptr %p, align 8, !pcsections !40
  br label %loop
loop:
  %i = phi i64 [ %n, %entry ], [ %next, %loop ]
  store volatile i64 %i, ptr %p, align 8
  %next = add i64 %i, -1
  %more = icmp ne i64 %next, 0
  br i1 %more, label %loop, label %done
done:
  ret void
}

; More bytes than there are.
define void @long(ptr %p, i64 %v) {
  store volatile i64 %v, ptr %p, align 8, !pcsections !50
  ret void
}

; Calls lose the mark: llc 19 says so. It is not in the section.
declare void @other()
define void @call() nounwind {
  call void @other(), !pcsections !60
  ret void
}

!10 = distinct !{!"pp_sites", !11}
!11 = !{i64 10, i16 5}
!20 = distinct !{!"pp_sites", !21}
!21 = !{i64 20, i16 5}
!30 = distinct !{!"pp_exchange", !31}
!31 = !{i64 30, i16 1}
!40 = distinct !{!"pp_into", !41}
!41 = !{i64 40, i16 18}
!50 = distinct !{!"pp_long", !51}
!51 = !{i64 50, i16 4096}
!60 = distinct !{!"pp_sites", !61}
!61 = !{i64 60, i16 5}
