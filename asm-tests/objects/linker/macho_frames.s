# triple: x86_64-apple-macos13
# A frame description whose distance to what it has in common with others is left to relocations. LLVM computes it where the section
# has its name, so that has another letter until it is assembled.
	.subsections_via_symbols
	.section __TEXT,__text
	.globl _main
_main:	ret
	.section __TEXT,__eh_framX
	.globl common
common:	.long 12
	.long 0
	.byte 1
	.asciz ""
	.byte 1
	.byte 0x78
	.byte 16
	.byte 0, 0, 0
	.p2align 2
	.globl description
description:
	.long 20
	.globl field
field:	.long field - common
	.quad _main
	.quad 1
# jitlink-check: *{4}field = field - common
# jitlink-check: *{8}(field + 4) = _main
