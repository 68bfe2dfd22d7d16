; What --lines and --demangle are tested with: places in a source, one of them inlined, and names of C++ and Rust. Each function
; has a section of its own.

source_filename = "lines.cc"
target triple = "x86_64-unknown-linux-gnu"

; int shape::area(int *) has a patchpoint on line 12, and what was inlined from lines 3 to 5 on line 4.
define i64 @_ZN5shape4areaEPi(ptr %p) section ".text.area" !dbg !10 {
  %a = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1, i32 32, ptr null, i32 1, ptr %p), !dbg !20
  %b = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 2, i32 32, ptr null, i32 1, i64 %a), !dbg !21
  %c = icmp slt i64 %b, 100, !dbg !23
  br i1 %c, label %small, label %big, !dbg !23
small:
  %d = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 1, i32 32, ptr null, i32 1, i64 %b), !dbg !24
  br label %big, !dbg !24
big:
  %r = phi i64 [ %b, %0 ], [ %d, %small ]
  ret i64 %r, !dbg !25
}

; The Rust function lines::get has a patchpoint on line 30.
define i64 @_RNvCskwGfYPst2Cb_5lines3get(ptr %p) section ".text.get" !dbg !11 {
  %a = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 3, i32 32, ptr null, i32 1, ptr %p), !dbg !22
  ret i64 %a, !dbg !22
}

declare i64 @llvm.experimental.patchpoint.i64(i64, i32, ptr, i32, ...)

!llvm.dbg.cu = !{!0}
!llvm.module.flags = !{!2, !3}
!0 = distinct !DICompileUnit(language: DW_LANG_C_plus_plus_14, file: !1, emissionKind: FullDebug, isOptimized: true)
!1 = !DIFile(filename: "lines.cc", directory: "/src")
!2 = !{i32 7, !"Dwarf Version", i32 5}
!3 = !{i32 2, !"Debug Info Version", i32 3}
!4 = !DISubroutineType(types: !5)
!5 = !{}
!10 = distinct !DISubprogram(name: "area", linkageName: "_ZN5shape4areaEPi", scope: !1, file: !1, line: 10, type: !4, scopeLine: 10, unit: !0, spFlags: DISPFlagDefinition | DISPFlagOptimized)
!11 = distinct !DISubprogram(name: "get", linkageName: "_RNvCskwGfYPst2Cb_5lines3get", scope: !1, file: !1, line: 29, type: !4, scopeLine: 29, unit: !0, spFlags: DISPFlagDefinition | DISPFlagOptimized)
!12 = distinct !DISubprogram(name: "side", linkageName: "_ZN5shape4sideEPi", scope: !1, file: !1, line: 3, type: !4, scopeLine: 3, unit: !0, spFlags: DISPFlagDefinition | DISPFlagOptimized)
!20 = !DILocation(line: 12, column: 7, scope: !10)
!21 = !DILocation(line: 4, column: 3, scope: !12, inlinedAt: !26)
!22 = !DILocation(line: 30, column: 5, scope: !11)
!23 = !DILocation(line: 14, column: 7, scope: !10)
!24 = !DILocation(line: 15, column: 9, scope: !10)
!25 = !DILocation(line: 16, column: 3, scope: !10)
!26 = distinct !DILocation(line: 13, column: 9, scope: !10)
