# How LLVM counts operands and what it takes for their values, without relocations.
# link: --base 0x10000000

	.macro insn name, text:vararg
	.globl \name
\name:	\text
	.size \name, . - \name
	.endm

	.text
	insn main, ret
	insn accumulator, addl $0x12345678, %eax
	insn accumulator_less, addl $-3000000, %eax
	insn accumulator_8, addb $-3, %al
	insn accumulator_16, addw $-300, %ax
	insn compare, cmpl $-3000000, %eax
	insn scaled, addl $0x7f, 8(%rbx,%rcx,4)
	insn segment, movq %fs:0x10, %rax
	insn absolute, movabsq 0x123456789abc, %rax
	insn absolute_store, movabsb %al, 0x123456789abc
	insn absolute_32, movl -8, %ecx
	insn no_index, movl (%rsp), %ecx
	insn multiply, imull $-5, (%rax), %ecx
	insn multiply_32, imull $-500, (%rax), %ecx
	insn multiply_2, imulq -16(%rbp), %rcx
	insn shift, shll $3, %eax
	insn shift_memory, sarq $63, 8(%rdi)
	insn set_if, sete %al
	insn move_if, cmovael 4(%rdi), %eax
	insn push, pushq $-3
	insn push_32, pushq $-3000000
	insn push_16, pushw $-300
	insn test, testl $-2, %edi
	insn test_16, testw $-300, %cx
	insn move, movl $-3, %eax
	insn move_8, movb $-3, %al
	insn move_16, movw $-5, (%rax)
	insn move_64, movq $-5, %rax
	insn xor_16, xorw $-3, %cx
	insn subtract_64, subq $-3000000, %rax
	insn negate, negl 0x40(%rsi)
	insn increment, incl 0x40(%rsi)
	insn no_operation, nopl 0x12345(%rax)
	insn return, ret $0x8001
	insn call, call *-24(%rax,%r9,8)
	insn short, jle main
	insn load_scalar, movss 0x20(%rdi), %xmm3
	insn subtract_scalar, subss 0x20(%rdi), %xmm3
	insn exclusive_or, pxor -0x20(%rdi), %xmm3
	insn compare_scalar, ucomisd 0x20(%rdi), %xmm3
	insn sign, movslq 0x30(%rdi), %rax
	insn trap, int3

# jitlink-check: decode_operand(accumulator, 0) = 0x12345678
# jitlink-check: decode_operand(accumulator_less, 0) = 0xffd23940
# jitlink-check: decode_operand(accumulator_8, 0) = 0xfffffffffffffffd
# jitlink-check: decode_operand(accumulator_16, 0) = 0xfed4
# jitlink-check: decode_operand(compare, 0) = 0xffd23940
# jitlink-check: decode_operand(scaled, 1) = 4
# jitlink-check: decode_operand(scaled, 3) = 8
# jitlink-check: decode_operand(scaled, 5) = 0x7f
# jitlink-check: decode_operand(segment, 2) = 1
# jitlink-check: decode_operand(segment, 4) = 0x10
# jitlink-check: decode_operand(absolute, 0) = 0x123456789abc
# jitlink-check: decode_operand(absolute_store, 0) = 0x123456789abc
# jitlink-check: decode_operand(absolute_32, 4) = 0xfffffffffffffff8
# jitlink-check: decode_operand(no_index, 2) = 1
# jitlink-check: decode_operand(no_index, 4) = 0
# jitlink-check: decode_operand(multiply, 6) = 0xfffffffffffffffb
# jitlink-check: decode_operand(multiply_32, 6) = 0xfffffe0c
# jitlink-check: decode_operand(multiply_2, 5) = 0xfffffffffffffff0
# jitlink-check: decode_operand(shift, 2) = 3
# jitlink-check: decode_operand(shift_memory, 3) = 8
# jitlink-check: decode_operand(shift_memory, 5) = 63
# jitlink-check: decode_operand(set_if, 1) = 4
# jitlink-check: decode_operand(move_if, 5) = 4
# jitlink-check: decode_operand(move_if, 7) = 3
# jitlink-check: decode_operand(push, 0) = 0xfffffffffffffffd
# jitlink-check: decode_operand(push_32, 0) = 0xffffffffffd23940
# jitlink-check: decode_operand(push_16, 0) = 0xfed4
# jitlink-check: decode_operand(test, 1) = 0xfffffffe
# jitlink-check: decode_operand(test_16, 1) = 0xfed4
# jitlink-check: decode_operand(move, 1) = 0xfffffffd
# jitlink-check: decode_operand(move_8, 1) = 0xfffffffffffffffd
# jitlink-check: decode_operand(move_16, 5) = 0xfffb
# jitlink-check: decode_operand(move_64, 1) = 0xfffffffffffffffb
# jitlink-check: decode_operand(xor_16, 2) = 0xfffffffffffffffd
# jitlink-check: decode_operand(subtract_64, 0) = 0xffffffffffd23940
# jitlink-check: decode_operand(negate, 3) = 0x40
# jitlink-check: decode_operand(increment, 3) = 0x40
# jitlink-check: decode_operand(no_operation, 3) = 0x12345
# jitlink-check: decode_operand(return, 0) = 0xffffffffffff8001
# jitlink-check: decode_operand(call, 1) = 8
# jitlink-check: decode_operand(call, 3) = 0xffffffffffffffe8
# jitlink-check: decode_operand(short, 0) = main - next_pc(short)
# jitlink-check: decode_operand(short, 1) = 14
# jitlink-check: decode_operand(load_scalar, 4) = 0x20
# jitlink-check: decode_operand(subtract_scalar, 5) = 0x20
# jitlink-check: decode_operand(exclusive_or, 5) = 0xffffffffffffffe0
# jitlink-check: decode_operand(compare_scalar, 4) = 0x20
# jitlink-check: decode_operand(sign, 4) = 0x30
# jitlink-check: next_pc(trap) = trap + 1
