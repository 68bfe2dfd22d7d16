# sum_fields of handwritten.s, but with an inline cache that is held in data: the shape is loaded and compared with the
# cached one, and the cached routine called. Made with:
#
#   llvm-mc-19 -triple=x86_64-unknown-linux-gnu -filetype=obj data_call.s -o data_call.o

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
	cmpl cache(%rip), %r8d
	jne missed
	callq *cache+8(%rip)
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

# Reads the property; object and result in rax.
	.globl field
	.p2align 4, 0x90
	.type field,@function
field:
	movq 8(%rax), %rax
	retq
	.size field, .-field

# The cache: the shape, and what to do with it. It is writable, as the runtime that fills it needs it.
	.data
	.p2align 4
cache:
	.quad 7
	.quad field

	.section .note.GNU-stack,"",@progbits
