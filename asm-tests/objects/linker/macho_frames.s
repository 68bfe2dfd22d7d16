# triple: x86_64-apple-macos13
# A frame description whose distance to what it has in common with others is left to relocations, and the distance to its function is
# a number, as LLVM leaves that. LLVM computes the former where the section has its name, so that has another letter until it is
# assembled.
	.subsections_via_symbols
	.section __TEXT,__text
	.globl _main
_main:	ret
	.section __TEXT,__eh_framX
	.globl common
common:	.long 16
	.long 0
	.byte 1
	.asciz "zR"
	.byte 1
	.byte 0x78
	.byte 16
	.byte 1
	.byte 0x10
	.byte 0, 0, 0
	.p2align 2
	.globl description
description:
	.long 24
	.globl field
field:	.long field - common
Lplace:
	.set Ldistance, _main - Lplace
	.quad Ldistance
	.quad 1
	.byte 0
	.byte 0, 0, 0
# jitlink-check: *{4}field = field - common
# jitlink-check: *{8}(field + 4) = _main - field - 4
