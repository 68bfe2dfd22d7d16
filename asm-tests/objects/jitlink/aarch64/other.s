# Relocations that llvm-jitlink 19 refuses.
# link: --base 0x70000000 --define far=0x7fff12345678 --define ahead=0xf0001000 --define small=0x7f80 --define minus=0xffffffffffffffff
# relocations: R_AARCH64_NONE R_AARCH64_ABS16 R_AARCH64_PREL16 R_AARCH64_MOVW_UABS_G0 R_AARCH64_MOVW_UABS_G1
# relocations: R_AARCH64_MOVW_UABS_G2 R_AARCH64_ADR_PREL_PG_HI21_NC R_AARCH64_GOTREL64 R_AARCH64_GOTREL32
# relocations: R_AARCH64_GOT_LD_PREL19 R_AARCH64_LD64_GOTOFF_LO15 R_AARCH64_LD64_GOTPAGE_LO15 R_AARCH64_PLT32
# relocations: R_AARCH64_GOTPCREL32
# llvm-jitlink: refuses

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
	.macro filled name, type, target, text:vararg
	.globl \name
\name:	.reloc ., \type, \target
	\text
	.size \name, 4
	.endm

	.text
	insn main, ret
	insn bits_0, movz x0, #:abs_g0:small + 0x807f
	insn bits_0_least, movz x0, #:abs_g0:small - 0x7f80
	insn bits_1, movz x0, #:abs_g1:ahead
	insn bits_1_most, movk x0, #:abs_g1:ahead + 0xfffefff
	insn bits_2, movz x0, #:abs_g2:far
	insn bits_2_main, movz x0, #:abs_g2:main
	insn page, adrp x0, :pg_hi21_nc:far
	insn page_back, adrp x0, :pg_hi21_nc:small
	insn entry, ldr x0, :got:far
	insn entry_main, ldr x30, :got:main
	filled entry_offset, R_AARCH64_LD64_GOTOFF_LO15, far, ldr x0, [x1]
	filled entry_offset_main, R_AARCH64_LD64_GOTOFF_LO15, main, ldr x0, [x1]
	insn entry_of_page, ldr x0, [x1, :gotpage_lo15:far]
	insn entry_of_page_main, ldr x0, [x1, :gotpage_lo15:main]

	.data
	datum nothing, 4, R_AARCH64_NONE, main
	datum half, 2, R_AARCH64_ABS16, small
	datum half_most, 2, R_AARCH64_ABS16, small + 0x807f
	datum half_least, 2, R_AARCH64_ABS16, minus - 0x7fff
	datum distance, 2, R_AARCH64_PREL16, nothing
	datum distance_most, 2, R_AARCH64_PREL16, distance_most + 0x7fff
	datum distance_least, 2, R_AARCH64_PREL16, distance_least - 0x8000
	datum offset, 8, R_AARCH64_GOTREL64, far
	datum offset_back, 8, R_AARCH64_GOTREL64, main - 8
	datum offset_32, 4, R_AARCH64_GOTREL32, main
	datum offset_32_ahead, 4, R_AARCH64_GOTREL32, offset_32 + 0x100
	datum branch, 4, R_AARCH64_PLT32, main
	datum branch_far, 4, R_AARCH64_PLT32, far
	datum branch_ahead, 4, R_AARCH64_PLT32, nothing + 0x7000
	datum entry_distance, 4, R_AARCH64_GOTPCREL32, far
	datum entry_distance_ahead, 4, R_AARCH64_GOTPCREL32, main + 0x2000

# The table begins with the entry that the first of these relocations wants.
# jitlink-check: decode_operand(bits_0, 1) = 0xffff
# jitlink-check: decode_operand(bits_0_least, 1) = 0
# jitlink-check: decode_operand(bits_1, 1) = ahead[31:16]
# jitlink-check: decode_operand(bits_1_most, 2) = 0xffff
# jitlink-check: decode_operand(bits_2, 1) = far[47:32]
# jitlink-check: decode_operand(bits_2_main, 1) = 0
# jitlink-check: decode_operand(page, 1)[20:0] = (far - (page & 0xfffffffffffff000))[32:12]
# jitlink-check: decode_operand(page_back, 1)[20:0] = (small - (page_back & 0xfffffffffffff000))[32:12]
# jitlink-check: decode_operand(entry, 1)[61:0] = (got_addr(other.o, far) - entry)[63:2]
# jitlink-check: decode_operand(entry_main, 1)[61:0] = (got_addr(other.o, main) - entry_main)[63:2]
# jitlink-check: decode_operand(entry_offset, 2) = (got_addr(other.o, far) - got_addr(other.o, far))[14:3]
# jitlink-check: decode_operand(entry_offset_main, 2) = (got_addr(other.o, main) - got_addr(other.o, far))[14:3]
# jitlink-check: decode_operand(entry_of_page, 2) = (got_addr(other.o, far) - (got_addr(other.o, far) & 0xfffffffffffff000))[14:3]
# jitlink-check: decode_operand(entry_of_page_main, 2) = \
# jitlink-check:     (got_addr(other.o, main) - (got_addr(other.o, far) & 0xfffffffffffff000))[14:3]
# jitlink-check: *{8}(got_addr(other.o, main)) = main
# jitlink-check: *{4}nothing = 0
# jitlink-check: *{2}half = small
# jitlink-check: *{2}half_most = 0xffff
# jitlink-check: *{2}half_least = 0x8000
# jitlink-check: *{2}distance = (nothing - distance)[15:0]
# jitlink-check: *{2}distance_most = 0x7fff
# jitlink-check: *{2}distance_least = 0x8000
# jitlink-check: *{8}offset = far - got_addr(other.o, far)
# jitlink-check: *{8}offset_back = main - got_addr(other.o, far) - 8
# jitlink-check: *{4}offset_32 = (main - got_addr(other.o, far))[31:0]
# jitlink-check: *{4}offset_32_ahead = (offset_32 + 0x100-got_addr(other.o, far))[31:0]
# jitlink-check: *{4}branch = (main - branch)[31:0]
# jitlink-check: *{4}branch_far = (stub_addr(other.o, far) - branch_far)[31:0]
# jitlink-check: *{4}branch_ahead = (nothing + 0x7000-branch_ahead)[31:0]
# jitlink-check: *{4}entry_distance = (got_addr(other.o, far) - entry_distance)[31:0]
# jitlink-check: *{4}entry_distance_ahead = (got_addr(other.o, main) - entry_distance_ahead + 0x2000)[31:0]
