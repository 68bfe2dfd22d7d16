# Relocations that hold an address, or some of its bits.
# link: --base 0x10000000 --define far=0x7fff12345678 --define top=0xfffffff0 --define low=0x80001000
# link: --define negative=0xffffffff80000010 --define half=0x7f80 --define byte=0x70
# relocations: R_X86_64_NONE R_X86_64_64 R_X86_64_32 R_X86_64_32S R_X86_64_16 R_X86_64_8

	# A datum of so many bytes that a relocation fills.
	.macro datum name, bytes, type, target
	.globl \name
\name:	.reloc ., \type, \target
	.fill 1, \bytes, 0x55
	.size \name, \bytes
	.endm

	.macro insn name, text:vararg
	.globl \name
\name:	\text
	.size \name, . - \name
	.endm

	.text
	insn main, ret
	insn mov_64, movabsq $far, %rax
	insn mov_64_plus, movabsq $main + 0x123456789, %r11
	insn load_64, movabsq far - 0x5678, %rax
	insn mov_32, movl $top + 15, %eax
	insn mov_32_low, movl $low, %ecx
	insn mov_32_main, movl $main - 1, %edi
	insn mov_32s, movq $negative, %rax
	insn mov_32s_lowest, movq $negative - 16, %rax
	insn mov_32s_main, movq $main + 0x6fff0000, %rax
	insn load_32s, movl main - 0x1000(,%rcx,4), %eax
	insn store_32s, movl $-7, negative + 0x7fffffe0
	insn compare_32s, cmpq $negative, %rax
	insn add_8, addb $byte, %cl
	insn push_16, pushw $half

	.data
	datum nothing, 8, R_X86_64_NONE, main
	datum quad_far, 8, R_X86_64_64, far
	datum quad_less, 8, R_X86_64_64, far - 0x7fff12345679
	datum quad_main, 8, R_X86_64_64, main + 0x100
	datum word_top, 4, R_X86_64_32, top + 15
	datum word_main, 4, R_X86_64_32, main
	datum word_negative, 4, R_X86_64_32S, negative - 16
	datum word_signed, 4, R_X86_64_32S, main + 0x10
	datum half_least, 2, R_X86_64_16, half - 0x7f80
	datum half_most, 2, R_X86_64_16, half + 0x807f
	datum half_middle, 2, R_X86_64_16, half
	datum byte_least, 1, R_X86_64_8, byte - 0x70
	datum byte_most, 1, R_X86_64_8, byte + 0x8f
	datum byte_middle, 1, R_X86_64_8, byte

# jitlink-check: *{8}nothing = 0x55
# jitlink-check: decode_operand(mov_64, 1) = far
# jitlink-check: decode_operand(mov_64_plus, 1) = main + 0x123456789
# jitlink-check: decode_operand(load_64, 0) = 0x7fff12340000
# jitlink-check: *{8}(load_64 + 2) = far - 0x5678
# jitlink-check: decode_operand(mov_32, 1)[31:0] = 0xffffffff
# jitlink-check: *{4}(mov_32 + 1) = top + 15
# jitlink-check: decode_operand(mov_32_low, 1)[31:0] = low
# jitlink-check: decode_operand(mov_32_main, 1) = main - 1
# jitlink-check: decode_operand(mov_32s, 1) = negative
# jitlink-check: decode_operand(mov_32s_lowest, 1) = 0xffffffff80000000
# jitlink-check: decode_operand(mov_32s_main, 1) = main + 0x6fff0000
# jitlink-check: decode_operand(load_32s, 2) = 4
# jitlink-check: decode_operand(load_32s, 4) = main - 0x1000
# jitlink-check: decode_operand(store_32s, 3) = negative + 0x7fffffe0
# jitlink-check: decode_operand(store_32s, 5) = 0xfffffff9
# jitlink-check: *{4}(compare_32s + 3) = negative & 0xffffffff
# jitlink-check: decode_operand(add_8, 2) = byte
# jitlink-check: decode_operand(push_16, 0) = half
# jitlink-check: *{8}quad_far = far
# jitlink-check: *{8}quad_less = 0xffffffffffffffff
# jitlink-check: *{8}quad_main = \
# jitlink-check:     main + 0x100
# jitlink-check: *{4}word_top = 0xffffffff
# jitlink-check: *{4}word_main = main
# jitlink-check: *{4}word_negative = 0x80000000
# jitlink-check: *{4}word_signed = main + 0x10
# jitlink-check: *{2}half_least = 0
# jitlink-check: *{2}half_most = 0xffff
# jitlink-check: *{2}half_middle = half
# jitlink-check: *{1}byte_least = 0
# jitlink-check: *{1}byte_most = 0xff
# jitlink-check: *{1}byte_middle = byte
# jitlink-check: section_addr(absolute.o, .data) = nothing
# jitlink-check: section_addr(absolute.o, .text) = main
