; What hundred.ll is once its sites are patched, with the check written by hand as inline assembly: the same instructions
; without nops. And once more with a check that is slower on purpose, by one more load. Made with:
;
;   llc-19 -O2 -mtriple=x86_64-unknown-linux-gnu -relocation-model=pic -filetype=obj checks.ll -o checks.o

; What a failed check branches to.
define void @missed() {
  call void @llvm.trap()
  unreachable
}

declare void @llvm.trap()

; fn hundred(obj: *const Object) -> u64: 100 times the property.
define i64 @hundred(ptr %obj) uwtable {
  %v0 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s0 = add i64 %v0, 0
  %v1 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s1 = add i64 %v1, %s0
  %v2 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s2 = add i64 %v2, %s1
  %v3 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s3 = add i64 %v3, %s2
  %v4 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s4 = add i64 %v4, %s3
  %v5 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s5 = add i64 %v5, %s4
  %v6 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s6 = add i64 %v6, %s5
  %v7 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s7 = add i64 %v7, %s6
  %v8 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s8 = add i64 %v8, %s7
  %v9 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s9 = add i64 %v9, %s8
  %v10 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s10 = add i64 %v10, %s9
  %v11 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s11 = add i64 %v11, %s10
  %v12 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s12 = add i64 %v12, %s11
  %v13 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s13 = add i64 %v13, %s12
  %v14 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s14 = add i64 %v14, %s13
  %v15 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s15 = add i64 %v15, %s14
  %v16 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s16 = add i64 %v16, %s15
  %v17 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s17 = add i64 %v17, %s16
  %v18 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s18 = add i64 %v18, %s17
  %v19 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s19 = add i64 %v19, %s18
  %v20 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s20 = add i64 %v20, %s19
  %v21 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s21 = add i64 %v21, %s20
  %v22 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s22 = add i64 %v22, %s21
  %v23 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s23 = add i64 %v23, %s22
  %v24 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s24 = add i64 %v24, %s23
  %v25 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s25 = add i64 %v25, %s24
  %v26 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s26 = add i64 %v26, %s25
  %v27 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s27 = add i64 %v27, %s26
  %v28 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s28 = add i64 %v28, %s27
  %v29 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s29 = add i64 %v29, %s28
  %v30 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s30 = add i64 %v30, %s29
  %v31 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s31 = add i64 %v31, %s30
  %v32 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s32 = add i64 %v32, %s31
  %v33 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s33 = add i64 %v33, %s32
  %v34 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s34 = add i64 %v34, %s33
  %v35 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s35 = add i64 %v35, %s34
  %v36 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s36 = add i64 %v36, %s35
  %v37 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s37 = add i64 %v37, %s36
  %v38 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s38 = add i64 %v38, %s37
  %v39 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s39 = add i64 %v39, %s38
  %v40 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s40 = add i64 %v40, %s39
  %v41 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s41 = add i64 %v41, %s40
  %v42 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s42 = add i64 %v42, %s41
  %v43 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s43 = add i64 %v43, %s42
  %v44 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s44 = add i64 %v44, %s43
  %v45 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s45 = add i64 %v45, %s44
  %v46 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s46 = add i64 %v46, %s45
  %v47 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s47 = add i64 %v47, %s46
  %v48 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s48 = add i64 %v48, %s47
  %v49 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s49 = add i64 %v49, %s48
  %v50 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s50 = add i64 %v50, %s49
  %v51 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s51 = add i64 %v51, %s50
  %v52 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s52 = add i64 %v52, %s51
  %v53 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s53 = add i64 %v53, %s52
  %v54 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s54 = add i64 %v54, %s53
  %v55 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s55 = add i64 %v55, %s54
  %v56 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s56 = add i64 %v56, %s55
  %v57 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s57 = add i64 %v57, %s56
  %v58 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s58 = add i64 %v58, %s57
  %v59 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s59 = add i64 %v59, %s58
  %v60 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s60 = add i64 %v60, %s59
  %v61 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s61 = add i64 %v61, %s60
  %v62 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s62 = add i64 %v62, %s61
  %v63 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s63 = add i64 %v63, %s62
  %v64 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s64 = add i64 %v64, %s63
  %v65 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s65 = add i64 %v65, %s64
  %v66 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s66 = add i64 %v66, %s65
  %v67 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s67 = add i64 %v67, %s66
  %v68 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s68 = add i64 %v68, %s67
  %v69 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s69 = add i64 %v69, %s68
  %v70 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s70 = add i64 %v70, %s69
  %v71 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s71 = add i64 %v71, %s70
  %v72 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s72 = add i64 %v72, %s71
  %v73 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s73 = add i64 %v73, %s72
  %v74 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s74 = add i64 %v74, %s73
  %v75 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s75 = add i64 %v75, %s74
  %v76 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s76 = add i64 %v76, %s75
  %v77 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s77 = add i64 %v77, %s76
  %v78 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s78 = add i64 %v78, %s77
  %v79 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s79 = add i64 %v79, %s78
  %v80 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s80 = add i64 %v80, %s79
  %v81 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s81 = add i64 %v81, %s80
  %v82 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s82 = add i64 %v82, %s81
  %v83 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s83 = add i64 %v83, %s82
  %v84 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s84 = add i64 %v84, %s83
  %v85 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s85 = add i64 %v85, %s84
  %v86 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s86 = add i64 %v86, %s85
  %v87 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s87 = add i64 %v87, %s86
  %v88 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s88 = add i64 %v88, %s87
  %v89 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s89 = add i64 %v89, %s88
  %v90 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s90 = add i64 %v90, %s89
  %v91 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s91 = add i64 %v91, %s90
  %v92 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s92 = add i64 %v92, %s91
  %v93 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s93 = add i64 %v93, %s92
  %v94 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s94 = add i64 %v94, %s93
  %v95 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s95 = add i64 %v95, %s94
  %v96 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s96 = add i64 %v96, %s95
  %v97 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s97 = add i64 %v97, %s96
  %v98 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s98 = add i64 %v98, %s97
  %v99 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovq 8($1), $0", "=&r,r,~{flags}"(ptr %obj)
  %s99 = add i64 %v99, %s98
  ret i64 %s99
}

; The same, slower.
define i64 @slower(ptr %obj) uwtable {
  %v0 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s0 = add i64 %v0, 0
  %v1 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s1 = add i64 %v1, %s0
  %v2 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s2 = add i64 %v2, %s1
  %v3 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s3 = add i64 %v3, %s2
  %v4 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s4 = add i64 %v4, %s3
  %v5 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s5 = add i64 %v5, %s4
  %v6 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s6 = add i64 %v6, %s5
  %v7 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s7 = add i64 %v7, %s6
  %v8 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s8 = add i64 %v8, %s7
  %v9 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s9 = add i64 %v9, %s8
  %v10 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s10 = add i64 %v10, %s9
  %v11 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s11 = add i64 %v11, %s10
  %v12 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s12 = add i64 %v12, %s11
  %v13 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s13 = add i64 %v13, %s12
  %v14 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s14 = add i64 %v14, %s13
  %v15 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s15 = add i64 %v15, %s14
  %v16 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s16 = add i64 %v16, %s15
  %v17 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s17 = add i64 %v17, %s16
  %v18 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s18 = add i64 %v18, %s17
  %v19 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s19 = add i64 %v19, %s18
  %v20 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s20 = add i64 %v20, %s19
  %v21 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s21 = add i64 %v21, %s20
  %v22 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s22 = add i64 %v22, %s21
  %v23 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s23 = add i64 %v23, %s22
  %v24 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s24 = add i64 %v24, %s23
  %v25 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s25 = add i64 %v25, %s24
  %v26 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s26 = add i64 %v26, %s25
  %v27 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s27 = add i64 %v27, %s26
  %v28 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s28 = add i64 %v28, %s27
  %v29 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s29 = add i64 %v29, %s28
  %v30 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s30 = add i64 %v30, %s29
  %v31 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s31 = add i64 %v31, %s30
  %v32 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s32 = add i64 %v32, %s31
  %v33 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s33 = add i64 %v33, %s32
  %v34 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s34 = add i64 %v34, %s33
  %v35 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s35 = add i64 %v35, %s34
  %v36 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s36 = add i64 %v36, %s35
  %v37 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s37 = add i64 %v37, %s36
  %v38 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s38 = add i64 %v38, %s37
  %v39 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s39 = add i64 %v39, %s38
  %v40 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s40 = add i64 %v40, %s39
  %v41 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s41 = add i64 %v41, %s40
  %v42 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s42 = add i64 %v42, %s41
  %v43 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s43 = add i64 %v43, %s42
  %v44 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s44 = add i64 %v44, %s43
  %v45 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s45 = add i64 %v45, %s44
  %v46 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s46 = add i64 %v46, %s45
  %v47 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s47 = add i64 %v47, %s46
  %v48 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s48 = add i64 %v48, %s47
  %v49 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s49 = add i64 %v49, %s48
  %v50 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s50 = add i64 %v50, %s49
  %v51 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s51 = add i64 %v51, %s50
  %v52 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s52 = add i64 %v52, %s51
  %v53 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s53 = add i64 %v53, %s52
  %v54 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s54 = add i64 %v54, %s53
  %v55 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s55 = add i64 %v55, %s54
  %v56 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s56 = add i64 %v56, %s55
  %v57 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s57 = add i64 %v57, %s56
  %v58 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s58 = add i64 %v58, %s57
  %v59 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s59 = add i64 %v59, %s58
  %v60 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s60 = add i64 %v60, %s59
  %v61 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s61 = add i64 %v61, %s60
  %v62 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s62 = add i64 %v62, %s61
  %v63 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s63 = add i64 %v63, %s62
  %v64 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s64 = add i64 %v64, %s63
  %v65 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s65 = add i64 %v65, %s64
  %v66 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s66 = add i64 %v66, %s65
  %v67 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s67 = add i64 %v67, %s66
  %v68 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s68 = add i64 %v68, %s67
  %v69 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s69 = add i64 %v69, %s68
  %v70 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s70 = add i64 %v70, %s69
  %v71 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s71 = add i64 %v71, %s70
  %v72 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s72 = add i64 %v72, %s71
  %v73 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s73 = add i64 %v73, %s72
  %v74 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s74 = add i64 %v74, %s73
  %v75 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s75 = add i64 %v75, %s74
  %v76 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s76 = add i64 %v76, %s75
  %v77 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s77 = add i64 %v77, %s76
  %v78 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s78 = add i64 %v78, %s77
  %v79 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s79 = add i64 %v79, %s78
  %v80 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s80 = add i64 %v80, %s79
  %v81 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s81 = add i64 %v81, %s80
  %v82 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s82 = add i64 %v82, %s81
  %v83 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s83 = add i64 %v83, %s82
  %v84 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s84 = add i64 %v84, %s83
  %v85 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s85 = add i64 %v85, %s84
  %v86 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s86 = add i64 %v86, %s85
  %v87 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s87 = add i64 %v87, %s86
  %v88 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s88 = add i64 %v88, %s87
  %v89 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s89 = add i64 %v89, %s88
  %v90 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s90 = add i64 %v90, %s89
  %v91 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s91 = add i64 %v91, %s90
  %v92 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s92 = add i64 %v92, %s91
  %v93 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s93 = add i64 %v93, %s92
  %v94 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s94 = add i64 %v94, %s93
  %v95 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s95 = add i64 %v95, %s94
  %v96 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s96 = add i64 %v96, %s95
  %v97 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s97 = add i64 %v97, %s96
  %v98 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s98 = add i64 %v98, %s97
  %v99 = call i64 asm sideeffect "cmpl $$7, ($1)\0Ajne missed\0Amovl ($1), ${0:k}\0Amovq 1($1,$0), $0", "=&r,r,~{flags}"(ptr %obj)
  %s99 = add i64 %v99, %s98
  ret i64 %s99
}
