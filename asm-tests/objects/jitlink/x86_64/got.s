# Relocations that go by the global offset table. Its targets are out of reach, so that a linker that relaxes such code leaves it.
# link: --base 0x10000000 --define far=0x7fff12345678 --define data=0x7ffe00000010
# relocations: R_X86_64_GOTPCREL R_X86_64_GOTPCREL64 R_X86_64_GOTPCRELX R_X86_64_REX_GOTPCRELX
# relocations: R_X86_64_GOTPC32 R_X86_64_GOTPC64 R_X86_64_GOT64 R_X86_64_GOTOFF64

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
	insn load, movq far@GOTPCREL(%rip), %rax
	insn load_data, movq data@GOTPCREL(%rip), %r9
	insn load_32, movl far@GOTPCREL(%rip), %eax
	insn call_far, call *far@GOTPCREL(%rip)
	insn jump_far, jmp *far@GOTPCREL(%rip)
	insn compare, cmpq data@GOTPCREL(%rip), %rdx
	insn test_data, testl %eax, data@GOTPCREL(%rip)
	insn add_data, addq data@GOTPCREL(%rip), %rbx
	insn push_data, pushq data@GOTPCREL(%rip)
	insn base, leaq _GLOBAL_OFFSET_TABLE_(%rip), %rbx
	insn base_64, movabsq $_GLOBAL_OFFSET_TABLE_ - base_64, %rcx
	insn entry_64, movabsq $far@GOT, %rax
	insn entry_64_data, movabsq $data@GOT, %rax
	insn offset_64, movabsq $main@GOTOFF, %rax
	insn offset_64_far, movabsq $far@GOTOFF, %rax

	.data
	datum word, 4, R_X86_64_GOTPCREL, far
	datum word_back, 4, R_X86_64_GOTPCREL, data - 0x1000
	datum quad, 8, R_X86_64_GOTPCREL64, far
	datum quad_ahead, 8, R_X86_64_GOTPCREL64, data + 0x123456789
	datum base_word, 4, R_X86_64_GOTPC32, _GLOBAL_OFFSET_TABLE_ + 8
	datum base_quad, 8, R_X86_64_GOTPC64, _GLOBAL_OFFSET_TABLE_ - 8
	datum entry, 8, R_X86_64_GOT64, far - 0x100
	datum entry_ahead, 8, R_X86_64_GOT64, data + 0x100
	datum offset, 8, R_X86_64_GOTOFF64, offset + 4
	datum offset_back, 8, R_X86_64_GOTOFF64, main - 4

# jitlink-check: decode_operand(load, 4) = got_addr(got.o, far) - next_pc(load)
# jitlink-check: decode_operand(load_data, 4) = got_addr(got.o, data) - next_pc(load_data)
# jitlink-check: decode_operand(load_32, 4) = got_addr(got.o, far) - next_pc(load_32)
# jitlink-check: decode_operand(call_far, 3) = got_addr(got.o, far) - next_pc(call_far)
# jitlink-check: decode_operand(jump_far, 3) = got_addr(got.o, far) - next_pc(jump_far)
# jitlink-check: decode_operand(compare, 4) = got_addr(got.o, data) - next_pc(compare)
# jitlink-check: decode_operand(test_data, 3) = got_addr(got.o, data) - next_pc(test_data)
# jitlink-check: decode_operand(add_data, 5) = got_addr(got.o, data) - next_pc(add_data)
# jitlink-check: decode_operand(push_data, 3) = got_addr(got.o, data) - next_pc(push_data)
# jitlink-check: decode_operand(base, 4) = _GLOBAL_OFFSET_TABLE_ - next_pc(base)
# jitlink-check: decode_operand(base_64, 1) = _GLOBAL_OFFSET_TABLE_ - base_64
# jitlink-check: decode_operand(entry_64, 1) = got_addr(got.o, far) - _GLOBAL_OFFSET_TABLE_
# jitlink-check: decode_operand(entry_64_data, 1) = got_addr(got.o, data) - _GLOBAL_OFFSET_TABLE_
# jitlink-check: decode_operand(offset_64, 1) = main - _GLOBAL_OFFSET_TABLE_
# jitlink-check: decode_operand(offset_64_far, 1) = far - _GLOBAL_OFFSET_TABLE_
# jitlink-check: *{8}(got_addr(got.o, far)) = far
# jitlink-check: *{8}(got_addr(got.o, data)) = data
# jitlink-check: *{4}word = (got_addr(got.o, far) - word)[31:0]
# jitlink-check: *{4}word_back = (got_addr(got.o, data) - 0x1000-word_back)[31:0]
# jitlink-check: *{8}quad = got_addr(got.o, far) - quad
# jitlink-check: *{8}quad_ahead = got_addr(got.o, data) - quad_ahead + 0x123456789
# jitlink-check: *{4}base_word = (_GLOBAL_OFFSET_TABLE_ - base_word + 8)[31:0]
# jitlink-check: *{8}base_quad = _GLOBAL_OFFSET_TABLE_ - base_quad - 8
# jitlink-check: *{8}entry = got_addr(got.o, far) - _GLOBAL_OFFSET_TABLE_ - 0x100
# jitlink-check: *{8}entry_ahead = got_addr(got.o, data) - _GLOBAL_OFFSET_TABLE_ + 0x100
# jitlink-check: *{8}offset = offset - _GLOBAL_OFFSET_TABLE_ + 4
# jitlink-check: *{8}offset_back = main - _GLOBAL_OFFSET_TABLE_ - 4
