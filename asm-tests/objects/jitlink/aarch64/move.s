# Relocations of moves of 16 bits, and how LLVM counts the operands of these and others.
# link: --base 0x700000000 --define far=0x89abcdef01237654
# relocations: R_AARCH64_MOVW_UABS_G0_NC R_AARCH64_MOVW_UABS_G1_NC R_AARCH64_MOVW_UABS_G2_NC R_AARCH64_MOVW_UABS_G3

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
	insn bits_0, movz x0, #:abs_g0_nc:far
	insn bits_0_less, movk x0, #:abs_g0_nc:far - 0x8000
	insn bits_0_main, movz w0, #:abs_g0_nc:main
	insn bits_1, movk x0, #:abs_g1_nc:far
	insn bits_1_more, movz x0, #:abs_g1_nc:far + 0x89ac
	insn bits_2, movk x0, #:abs_g2_nc:far
	insn bits_2_main, movk x0, #:abs_g2_nc:main
	insn bits_3, movk x0, #:abs_g3:far
	insn bits_3_main, movz x0, #:abs_g3:main
	insn not, movn x0, #7, lsl #16
	insn add_shifted, add x0, x1, #0x123, lsl #12
	insn subtract, sub sp, sp, #0x40
	insn compare, cmp x0, #0x10
	insn hint, nop
	insn hint_landing, bti c
	insn trap, brk #0x1234
	insn unscaled, ldur x0, [x1, #-8]
	insn unscaled_byte, sturb w0, [x1, #255]
	insn two, ldp x0, x1, [sp, #-16]
	insn two_words, stp w0, w1, [sp, #24]
	insn two_vectors, ldp q0, q1, [sp, #64]

# jitlink-check: decode_operand(bits_0, 1) = far[15:0]
# jitlink-check: decode_operand(bits_0, 2) = 0
# jitlink-check: decode_operand(bits_0_less, 2) = (far - 0x8000)[15:0]
# jitlink-check: decode_operand(bits_0_main, 1) = main[15:0]
# jitlink-check: decode_operand(bits_1, 2) = far[31:16]
# jitlink-check: decode_operand(bits_1, 3) = 16
# jitlink-check: decode_operand(bits_1_more, 1) = 0x0124
# jitlink-check: decode_operand(bits_2, 2) = far[47:32]
# jitlink-check: decode_operand(bits_2, 3) = 32
# jitlink-check: decode_operand(bits_2_main, 2) = 7
# jitlink-check: decode_operand(bits_3, 2) = far[63:48]
# jitlink-check: decode_operand(bits_3, 3) = 48
# jitlink-check: decode_operand(bits_3_main, 1) = 0
# jitlink-check: decode_operand(not, 1) = 7
# jitlink-check: decode_operand(not, 2) = 16
# jitlink-check: decode_operand(add_shifted, 2) = 0x123
# jitlink-check: decode_operand(add_shifted, 3) = 12
# jitlink-check: decode_operand(subtract, 2) = 0x40
# jitlink-check: decode_operand(compare, 2) = 0x10
# jitlink-check: decode_operand(hint, 0) = 0
# jitlink-check: decode_operand(hint_landing, 0) = 34
# jitlink-check: decode_operand(trap, 0) = 0x1234
# jitlink-check: decode_operand(unscaled, 2) = 0xfffffffffffffff8
# jitlink-check: decode_operand(unscaled_byte, 2) = 255
# jitlink-check: decode_operand(two, 3) = 0xfffffffffffffffe
# jitlink-check: decode_operand(two_words, 3) = 6
# jitlink-check: decode_operand(two_vectors, 3) = 4
