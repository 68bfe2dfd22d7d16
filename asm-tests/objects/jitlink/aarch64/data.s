# Relocations of data: an address, or a distance from its place.
# link: --base 0x700000000 --define far=0x7fff12345678 --define top=0xfffffff0 --define ahead=0x77fff0000 --define behind=0x680010000
# relocations: R_AARCH64_ABS64 R_AARCH64_ABS32 R_AARCH64_PREL64 R_AARCH64_PREL32

	.macro datum name, bytes, type, target
	.globl \name
\name:	.reloc ., \type, \target
	.fill 1, \bytes, 0
	.size \name, \bytes
	.endm

	.macro insn name, text:vararg
	.globl \name
\name:	\text
	.size \name, . - \name
	.endm
	.text
	insn main, ret

	.data
	datum quad, 8, R_AARCH64_ABS64, far
	datum quad_less, 8, R_AARCH64_ABS64, far - 0x7fff12345679
	datum quad_main, 8, R_AARCH64_ABS64, main + 0x123456789
	datum word, 4, R_AARCH64_ABS32, top + 15
	datum word_less, 4, R_AARCH64_ABS32, top - 0xfffffff0
	datum distance_64, 8, R_AARCH64_PREL64, far
	datum distance_64_back, 8, R_AARCH64_PREL64, far - 0x7fffffff0000
	datum distance_32, 4, R_AARCH64_PREL32, main
	datum distance_32_ahead, 4, R_AARCH64_PREL32, ahead + 0xfff
	datum distance_32_behind, 4, R_AARCH64_PREL32, behind - 0xfff

# jitlink-check: *{8}quad = far
# jitlink-check: *{8}quad_less = 0xffffffffffffffff
# jitlink-check: *{8}quad_main = main + 0x123456789
# jitlink-check: *{4}word = 0xffffffff
# jitlink-check: *{4}word_less = 0
# jitlink-check: *{8}distance_64 = far - distance_64
# jitlink-check: *{8}distance_64_back = far - distance_64_back - 0x7fffffff0000
# jitlink-check: *{4}distance_32 = (main - distance_32)[31:0]
# jitlink-check: *{4}distance_32_ahead = (ahead - distance_32_ahead + 0xfff)[31:0]
# jitlink-check: *{4}distance_32_behind = (behind - distance_32_behind - 0xfff)[31:0]
# jitlink-check: section_addr(data.o, .text) = main
# jitlink-check: section_addr(data.o, .data) = quad
