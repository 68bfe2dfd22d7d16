# Relocations that llvm-jitlink 19 refuses, and values that it refuses for others.
# link: --base 0x10000000 --define far=0x7fff12345678 --define minus=0xffffffffffffffff
# relocations: R_X86_64_GOT32 R_X86_64_PC16 R_X86_64_GOTPLT64 R_X86_64_PLTOFF64 R_X86_64_SIZE32 R_X86_64_SIZE64
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

	.text
	insn main, ret
	insn base, leaq _GLOBAL_OFFSET_TABLE_(%rip), %rbx
	insn load, movl far@GOT(%rbx), %eax
	insn call_offset, movabsq $far@PLTOFF, %rax
	insn call_offset_main, movabsq $main@PLTOFF + 2, %rax

	.data
	.globl table
table:	.zero 40
	.size table, 40
	datum entry, 4, R_X86_64_GOT32, far
	datum entry_back, 4, R_X86_64_GOT32, far - 0x1000
	datum entry_64, 8, R_X86_64_GOTPLT64, far
	datum entry_64_ahead, 8, R_X86_64_GOTPLT64, far + 0x123456789
	datum distance, 2, R_X86_64_PC16, table
	datum distance_ahead, 2, R_X86_64_PC16, distance_ahead + 0x7fff
	datum distance_back, 2, R_X86_64_PC16, distance_back - 0x8000
	datum size, 4, R_X86_64_SIZE32, table
	datum size_more, 4, R_X86_64_SIZE32, table + 0xffffffd7
	datum size_less, 4, R_X86_64_SIZE32, table - 40
	datum size_64, 8, R_X86_64_SIZE64, table
	datum size_64_less, 8, R_X86_64_SIZE64, table - 41
	datum half, 2, R_X86_64_16, minus - 0x7fff
	datum byte, 1, R_X86_64_8, minus - 0x7f

# jitlink-check: decode_operand(load, 4) = got_addr(other.o, far) - _GLOBAL_OFFSET_TABLE_
# jitlink-check: decode_operand(call_offset, 1) = far - _GLOBAL_OFFSET_TABLE_
# jitlink-check: decode_operand(call_offset_main, 1) = main + 2-_GLOBAL_OFFSET_TABLE_
# jitlink-check: *{4}entry = got_addr(other.o, far) - _GLOBAL_OFFSET_TABLE_
# jitlink-check: *{4}entry_back = (got_addr(other.o, far) - _GLOBAL_OFFSET_TABLE_ - 0x1000)[31:0]
# jitlink-check: *{8}entry_64 = got_addr(other.o, far) - _GLOBAL_OFFSET_TABLE_
# jitlink-check: *{8}entry_64_ahead = got_addr(other.o, far) - _GLOBAL_OFFSET_TABLE_ + 0x123456789
# jitlink-check: *{2}distance = (table - distance)[15:0]
# jitlink-check: *{2}distance_ahead = 0x7fff
# jitlink-check: *{2}distance_back = 0x8000
# jitlink-check: *{4}size = 40
# jitlink-check: *{4}size_more = 0xffffffff
# jitlink-check: *{4}size_less = 0
# jitlink-check: *{8}size_64 = 40
# jitlink-check: *{8}size_64_less = 0xffffffffffffffff
# jitlink-check: *{2}half = 0x8000
# jitlink-check: *{1}byte = 0x80
