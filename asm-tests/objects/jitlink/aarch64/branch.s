# Relocations of branches. LLVM counts their distances in words.
# link: --base 0x700000000 --define far=0x7fff12345678
# relocations: R_AARCH64_CALL26 R_AARCH64_JUMP26 R_AARCH64_CONDBR19 R_AARCH64_TSTBR14

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
	insn call_far, bl far
	insn call_back, bl main
	insn call_ahead, bl last
	insn call_more, bl main + 0x7fffff8
	insn call_least, bl main - 0x7ffffe0
	insn jump_far, b far
	insn jump_back, b main + 4
	insn jump_ahead, b last
	insn equal_back, b.eq main
	insn never_more, b.nv main + 0xffffc
	insn zero, cbz x3, last
	insn not_zero, cbnz w3, main
	insn not_zero_least, cbnz x30, main - 0xfff00
	insn bit_0, tbz w9, #0, last
	insn bit_31, tbnz w9, #31, main
	insn bit_63, tbnz x9, #63, main + 0x7ffc
	insn bit_33, tbz x9, #33, main - 0x7f00
	insn last, ret

# jitlink-check: decode_operand(call_far, 0)[25:0] = (stub_addr(branch.o, far) - call_far)[27:2]
# jitlink-check: *{8}(got_addr(branch.o, far)) = far
# jitlink-check: decode_operand(call_back, 0)[61:0] = (main - call_back)[63:2]
# jitlink-check: decode_operand(call_ahead, 0) = (last - call_ahead)[63:2]
# jitlink-check: decode_operand(call_more, 0) = (main - call_more + 0x7fffff8)[63:2]
# jitlink-check: decode_operand(call_least, 0)[61:0] = (main - call_least - 0x7ffffe0)[63:2]
# jitlink-check: decode_operand(jump_far, 0)[25:0] = (stub_addr(branch.o, far) - jump_far)[27:2]
# jitlink-check: decode_operand(jump_back, 0)[61:0] = (main - jump_back + 4)[63:2]
# jitlink-check: decode_operand(jump_ahead, 0) = (last - jump_ahead)[63:2]
# jitlink-check: decode_operand(equal_back, 0) = 0
# jitlink-check: decode_operand(equal_back, 1)[61:0] = (main - equal_back)[63:2]
# jitlink-check: decode_operand(never_more, 0) = 15
# jitlink-check: decode_operand(never_more, 1) = (main - never_more + 0xffffc)[63:2]
# jitlink-check: decode_operand(zero, 1) = (last - zero)[63:2]
# jitlink-check: decode_operand(not_zero, 1)[61:0] = (main - not_zero)[63:2]
# jitlink-check: decode_operand(not_zero_least, 1)[61:0] = (main - not_zero_least - 0xfff00)[63:2]
# jitlink-check: decode_operand(bit_0, 1) = 0
# jitlink-check: decode_operand(bit_0, 2) = (last - bit_0)[63:2]
# jitlink-check: decode_operand(bit_31, 1) = 31
# jitlink-check: decode_operand(bit_31, 2)[61:0] = (main - bit_31)[63:2]
# jitlink-check: decode_operand(bit_63, 1) = 63
# jitlink-check: decode_operand(bit_63, 2) = (main - bit_63 + 0x7ffc)[63:2]
# jitlink-check: decode_operand(bit_33, 1) = 33
# jitlink-check: decode_operand(bit_33, 2)[61:0] = (main - bit_33 - 0x7f00)[63:2]
# jitlink-check: next_pc(call_far) = call_back
