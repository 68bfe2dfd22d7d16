# Relocations of instructions that compute an address or load from one.
# link: --base 0x700000000 --define ahead=0x7ffff0120 --define behind=0x600010ff0 --define odd=0x700345fff
# relocations: R_AARCH64_LD_PREL_LO19 R_AARCH64_ADR_PREL_LO21 R_AARCH64_ADR_PREL_PG_HI21 R_AARCH64_ADD_ABS_LO12_NC
# relocations: R_AARCH64_LDST8_ABS_LO12_NC R_AARCH64_LDST16_ABS_LO12_NC R_AARCH64_LDST32_ABS_LO12_NC
# relocations: R_AARCH64_LDST64_ABS_LO12_NC R_AARCH64_LDST128_ABS_LO12_NC

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
	insn literal, ldr x0, value
	insn literal_back, ldr w0, main
	insn literal_signed, ldrsw x0, value + 8
	insn literal_vector, ldr q0, value
	insn near, adr x1, value + 3
	insn near_back, adr x1, main - 0xffff
	insn page, adrp x2, value
	insn page_ahead, adrp x2, ahead
	insn page_behind, adrp x2, behind
	insn page_carried, adrp x2, behind + 0x10
	insn low, add x3, x2, :lo12:value
	insn low_odd, add w3, w2, :lo12:odd
	insn low_carried, add x3, x2, :lo12:odd + 1
	insn byte, ldrb w4, [x2, :lo12:odd]
	insn byte_signed, ldrsb x4, [x2, :lo12:odd - 1]
	insn byte_vector, str b4, [x2, :lo12:odd]
	insn half, ldrh w4, [x2, :lo12:odd - 1]
	insn half_signed, ldrsh w4, [x2, :lo12:ahead]
	insn half_vector, str h4, [x2, :lo12:behind]
	insn word, ldr w4, [x2, :lo12:odd - 3]
	insn word_signed, ldrsw x4, [x2, :lo12:ahead]
	insn word_vector, ldr s4, [x2, :lo12:behind + 0xc]
	insn double, ldr x4, [x2, :lo12:odd - 7]
	insn double_vector, str d4, [x2, :lo12:ahead]
	insn quad, ldr q4, [x2, :lo12:behind]
	insn quad_store, str q4, [x2, :lo12:ahead - 0x20]

	.section .rodata, "a"
	.p2align 4
	.globl value
value:	.quad 1, 2
	.size value, 16

# jitlink-check: decode_operand(literal, 1)[61:0] = (value - literal)[63:2]
# jitlink-check: decode_operand(literal_back, 1)[61:0] = (main - literal_back)[63:2]
# jitlink-check: decode_operand(literal_signed, 1)[61:0] = (value - literal_signed + 8)[63:2]
# jitlink-check: decode_operand(literal_vector, 1)[61:0] = (value - literal_vector)[63:2]
# jitlink-check: decode_operand(near, 1) = value - near + 3
# jitlink-check: decode_operand(near_back, 1) = main - near_back - 0xffff
# jitlink-check: decode_operand(page, 1)[51:0] = ((value & 0xfffffffffffff000) - (page & 0xfffffffffffff000))[63:12]
# jitlink-check: decode_operand(page_ahead, 1) = (ahead - (page_ahead & 0xfffffffffffff000))[63:12]
# jitlink-check: decode_operand(page_behind, 1)[51:0] = (behind - (page_behind & 0xfffffffffffff000))[63:12]
# jitlink-check: decode_operand(page_carried, 1)[51:0] = (behind + 0x10-(page_carried & 0xfffffffffffff000))[63:12]
# jitlink-check: decode_operand(page_carried, 1) = decode_operand(page_behind, 1) + 1
# jitlink-check: decode_operand(low, 2) = value[11:0]
# jitlink-check: decode_operand(low, 3) = 0
# jitlink-check: decode_operand(low_odd, 2) = 0xfff
# jitlink-check: decode_operand(low_carried, 2) = 0
# jitlink-check: decode_operand(byte, 2) = odd[11:0]
# jitlink-check: decode_operand(byte_signed, 2) = 0xffe
# jitlink-check: decode_operand(byte_vector, 2) = 0xfff
# jitlink-check: decode_operand(half, 2) = odd[11:1]
# jitlink-check: decode_operand(half_signed, 2) = 0x90
# jitlink-check: decode_operand(half_vector, 2) = behind[11:1]
# jitlink-check: decode_operand(word, 2) = odd[11:2]
# jitlink-check: decode_operand(word_signed, 2) = 0x48
# jitlink-check: decode_operand(word_vector, 2) = 0x3ff
# jitlink-check: decode_operand(double, 2) = odd[11:3]
# jitlink-check: decode_operand(double_vector, 2) = ahead[11:3]
# jitlink-check: decode_operand(quad, 2) = 0xff
# jitlink-check: decode_operand(quad_store, 2) = 0x10
