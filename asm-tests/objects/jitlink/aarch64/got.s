# Relocations that go by the global offset table.
# link: --base 0x700000000 --define far=0x7fff12345678 --define data=0x7ffe00000010
# relocations: R_AARCH64_ADR_GOT_PAGE R_AARCH64_LD64_GOT_LO12_NC

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
	insn page, adrp x0, :got:far
	insn low, ldr x0, [x0, :got_lo12:far]
	insn page_data, adrp x1, :got:data
	insn low_data, ldr x2, [x1, :got_lo12:data]
	insn page_main, adrp x1, :got:main
	insn low_main, ldr x2, [x1, :got_lo12:main]

# jitlink-check: *{8}(got_addr(got.o, far)) = far
# jitlink-check: *{8}(got_addr(got.o, data)) = data
# jitlink-check: *{8}(got_addr(got.o, main)) = main
# jitlink-check: decode_operand(page, 1)[51:0] = \
# jitlink-check:     ((got_addr(got.o, far) & 0xfffffffffffff000) - (page & 0xfffffffffffff000))[63:12]
# jitlink-check: decode_operand(low, 2) = got_addr(got.o, far)[11:3]
# jitlink-check: decode_operand(page_data, 1)[51:0] = \
# jitlink-check:     ((got_addr(got.o, data) & 0xfffffffffffff000) - (page_data & 0xfffffffffffff000))[63:12]
# jitlink-check: decode_operand(low_data, 2) = got_addr(got.o, data)[11:3]
# jitlink-check: decode_operand(page_main, 1)[51:0] = \
# jitlink-check:     ((got_addr(got.o, main) & 0xfffffffffffff000) - (page_main & 0xfffffffffffff000))[63:12]
# jitlink-check: decode_operand(low_main, 2) = got_addr(got.o, main)[11:3]
