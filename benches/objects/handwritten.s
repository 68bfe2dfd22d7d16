# sum_fields of examples/objects/inline_cache.ll as llc-19 compiles it, instruction for instruction, but with the check
# of the inline cache written by hand where that one has its patchpoint: the guard, the load, and no nops. Made with:
#
#   llvm-mc-19 -triple=x86_64-unknown-linux-gnu -filetype=obj handwritten.s -o handwritten.o
#
# The shape is 4 bytes at offset 0 of the object and must be 7; the property is 8 bytes at offset 8.

	.section .rodata.cst8,"aM",@progbits,8
	.p2align 3
.Lhalf:
	.quad 0x3fe0000000000000
.Ltwo_to_63:
	.quad 0x43e0000000000000

	.text
# Where a shape that is not 7 goes: nothing that is measured does.
	.globl missed
	.p2align 4, 0x90
	.type missed,@function
missed:
	ud2
	.size missed, .-missed

	.globl sum_fields
	.p2align 4, 0x90
	.type sum_fields,@function
sum_fields:
	pushq %rbp
	movq %rsp, %rbp
	subq $16, %rsp
	movq $0, -8(%rbp)
	xorpd %xmm0, %xmm0
	xorl %ecx, %ecx
	movsd .Lhalf(%rip), %xmm1
	xorl %eax, %eax
	.p2align 4, 0x90
.Lloop:
	movq %rax, %rdx
	movq (%rdi,%rcx,8), %rax
	cmpl $7, (%rax)
	jne missed
	movq 8(%rax), %rax
	addq %rdx, %rax
	addsd %xmm1, %xmm0
	incq -8(%rbp)
	incq %rcx
	cmpq %rsi, %rcx
	jb .Lloop
	nopw %cs:512(%rax,%rax)
	nopw 8(%rax,%rax)
	cvttsd2si %xmm0, %rcx
	movq %rcx, %rdx
	sarq $63, %rdx
	subsd .Ltwo_to_63(%rip), %xmm0
	cvttsd2si %xmm0, %rsi
	andq %rdx, %rsi
	orq %rcx, %rsi
	addq -8(%rbp), %rax
	addq %rsi, %rax
	addq $16, %rsp
	popq %rbp
	retq
	.size sum_fields, .-sum_fields

	.section .note.GNU-stack,"",@progbits
