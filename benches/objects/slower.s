# handwritten.s with a check that is slower on purpose: the address of the property depends on the shape that was read,
# one more dependent load. It shows whether the comparison of hits would notice. Made with:
#
#   llvm-mc-19 -triple=x86_64-unknown-linux-gnu -filetype=obj slower.s -o slower.o
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
	movl (%rax), %r8d
	cmpl $7, %r8d
	jne missed
	movq 1(%rax,%r8), %rax
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
