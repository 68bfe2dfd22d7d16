; Every marked instruction stores to mark_N and has N as its first constant: the store's relocation says where it is.
; (llc 19 loses the metadata of calls, and says so.)
@mark_1 = external dso_local global i64, align 8
@mark_2 = external dso_local global i64, align 8
@mark_3 = external dso_local global i64, align 8
@mark_4 = external dso_local global i64, align 8
@mark_5 = external dso_local global i64, align 8

define void @plain(i64 %v) !pcsections !0 {
  store volatile i64 %v, ptr @mark_1, align 8, !pcsections !10
  store volatile i64 %v, ptr @mark_2, align 8, !pcsections !20
  ret void
}

define void @compressed(i64 %v) !pcsections !1 {
  store volatile i64 %v, ptr @mark_3, align 8, !pcsections !30
  ret void
}

; Two instructions that share a node: one entry.
define void @shared(i64 %v) {
  store volatile i64 %v, ptr @mark_4, align 8, !pcsections !40
  store volatile i64 %v, ptr @mark_5, align 8, !pcsections !40
  ret void
}

; Not marked.
define void @quiet(i64 %v) {
  store volatile i64 %v, ptr @mark_1, align 8
  ret void
}

!0 = !{!"pp_functions", !100}
!1 = !{!"pp_functions_c!C", !101}
!10 = distinct !{!"pp_calls", !110, !"pp_pcs"}
!20 = distinct !{!"pp_calls", !120, !"pp_calls_c!C", !120}
!30 = distinct !{!"pp_calls_c!C", !130}
!40 = distinct !{!"pp_shared", !140}

!100 = !{i32 7, i8 9}
!101 = !{i64 70000, i8 200, i32 128}
!110 = !{i64 1, i32 300, i8 5, i16 258}
!120 = !{i64 2, i32 -1, i8 255, i16 127}
!130 = !{i64 3, i32 128, i8 128, i16 -1}
!140 = !{i64 4}
