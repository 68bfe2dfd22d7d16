# Relocations that hold a distance from their place.
# link: --base 0x500000000 --define far=0x7fff12345678 --define ahead=0x57fff0000 --define behind=0x480010000
# relocations: R_X86_64_PC64 R_X86_64_PC32 R_X86_64_PLT32 R_X86_64_PC8

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
	insn call_far, call far
	insn call_ahead, call ahead
	insn call_behind, call behind + 16
	insn call_main, call main
	insn jump_far, jmp far
	insn jump_last, jmp last
	insn branch_far, jne far
	insn branch_back, jg main
	insn lea_ahead, leaq ahead(%rip), %rax
	insn lea_behind, leaq behind - 0x1000(%rip), %rax
	insn load, movq value + 8(%rip), %rcx
	insn store_byte, movb $-1, value(%rip)
	insn store_half, movw $0x1234, value(%rip)
	insn store_word, movl $0x12345678, value(%rip)
	insn test_byte, testb $1, value - 4(%rip)
	insn multiply, imull $-100, value(%rip), %edx
	insn add_sse, addsd value(%rip), %xmm1
	insn set_if, setbe value(%rip)
	insn move_if, cmovll value(%rip), %esi
	insn last, ret

	.section .rodata, "a"
	datum near_8, 1, R_X86_64_PC8, near_8 + 127
	datum near_8_back, 1, R_X86_64_PC8, near_8_back - 128
	datum other_8, 1, R_X86_64_PC8, near_8
	datum other_8_ahead, 1, R_X86_64_PC8, distance_64 - 1
	datum distance_64, 8, R_X86_64_PC64, far
	datum distance_64_back, 8, R_X86_64_PC64, far - 0x7ffff0000000
	datum distance_32, 4, R_X86_64_PC32, main
	datum distance_32_ahead, 4, R_X86_64_PC32, ahead + 0xfff
	datum distance_32_behind, 4, R_X86_64_PC32, behind - 0xfff
	datum branch_32, 4, R_X86_64_PLT32, main + 2
	datum branch_32_far, 4, R_X86_64_PLT32, far

	.data
	.globl value
value:	.quad 1, 2
	.size value, 16

# jitlink-check: decode_operand(call_far, 0) = stub_addr(relative.o, far) - next_pc(call_far)
# jitlink-check: *{8}(got_addr(relative.o, far)) = far
# jitlink-check: decode_operand(call_ahead, 0) = ahead - next_pc(call_ahead)
# jitlink-check: decode_operand(call_behind, 0) = behind + 16-next_pc(call_behind)
# jitlink-check: decode_operand(call_main, 0) = main - next_pc(call_main)
# jitlink-check: decode_operand(jump_far, 0) = stub_addr(relative.o, far) - next_pc(jump_far)
# jitlink-check: decode_operand(jump_last, 0) = last - next_pc(jump_last)
# jitlink-check: decode_operand(branch_far, 0) = stub_addr(relative.o, far) - next_pc(branch_far)
# jitlink-check: decode_operand(branch_far, 1) = 5
# jitlink-check: decode_operand(branch_back, 0) = main - next_pc(branch_back)
# jitlink-check: decode_operand(branch_back, 1) = 15
# jitlink-check: decode_operand(lea_ahead, 4) = ahead - next_pc(lea_ahead)
# jitlink-check: decode_operand(lea_behind, 4) = behind - 0x1000-next_pc(lea_behind)
# jitlink-check: decode_operand(load, 4) = value + 8-next_pc(load)
# jitlink-check: decode_operand(store_byte, 3) = value - next_pc(store_byte)
# jitlink-check: decode_operand(store_byte, 5) = 0xffffffffffffffff
# jitlink-check: decode_operand(store_half, 3) = value - next_pc(store_half)
# jitlink-check: decode_operand(store_half, 5) = 0x1234
# jitlink-check: decode_operand(store_word, 3) = value - next_pc(store_word)
# jitlink-check: decode_operand(store_word, 5) = 0x12345678
# jitlink-check: decode_operand(test_byte, 3) = value - 4-next_pc(test_byte)
# jitlink-check: decode_operand(multiply, 4) = value - next_pc(multiply)
# jitlink-check: decode_operand(multiply, 6) = 0xffffffffffffff9c
# jitlink-check: decode_operand(add_sse, 5) = value - next_pc(add_sse)
# jitlink-check: decode_operand(set_if, 3) = value - next_pc(set_if)
# jitlink-check: decode_operand(set_if, 5) = 6
# jitlink-check: decode_operand(move_if, 5) = value - next_pc(move_if)
# jitlink-check: decode_operand(move_if, 7) = 12
# jitlink-check: next_pc(last) = main + (last - main) + 1
# jitlink-check: *{1}near_8 = 127
# jitlink-check: *{1}near_8_back = 0x80
# jitlink-check: *{1}other_8 = (near_8 - other_8)[7:0]
# jitlink-check: *{1}other_8_ahead = 0
# jitlink-check: *{8}distance_64 = far - distance_64
# jitlink-check: *{8}distance_64_back = far - 0x7ffff0000000-distance_64_back
# jitlink-check: *{4}distance_32 = (main - distance_32)[31:0]
# jitlink-check: *{4}distance_32_ahead = (ahead + 0xfff-distance_32_ahead)[31:0]
# jitlink-check: *{4}distance_32_behind = (behind - 0xfff-distance_32_behind)[31:0]
# jitlink-check: *{4}branch_32 = (main + 2-branch_32)[31:0]
# jitlink-check: *{4}branch_32_far = (stub_addr(relative.o, far) - branch_32_far)[31:0]
# jitlink-check: *{8}(value + 8) = 2
