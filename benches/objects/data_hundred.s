# hundred of checks.ll, with inline caches that are held in data, one for each read: called (hundred_call), or saying where the
# property is (hundred_offset). Made with:
#
#   llvm-mc-19 -triple=x86_64-unknown-linux-gnu -filetype=obj data_hundred.s -o data_hundred.o

	.data
	.p2align 4
caches_call:
	.rept 100
	.quad 7
	.quad field
	.endr
caches_offset:
	.rept 100
	.quad 7
	.quad 8
	.endr

	.text
# Where a shape that is not 7 goes: nothing that is measured does.
	.globl missed
	.p2align 4, 0x90
	.type missed,@function
missed:
	ud2
	.size missed, .-missed

# Reads the property: object in rdi, result in rax.
	.globl field
	.p2align 4, 0x90
	.type field,@function
field:
	movq 8(%rdi), %rax
	retq
	.size field, .-field

	.globl hundred_call
	.p2align 4, 0x90
	.type hundred_call,@function
hundred_call:
	pushq %rbp
	movq %rsp, %rbp
	xorl %ecx, %ecx
	.set n, 0
	.rept 100
	movl (%rdi), %edx
	cmpl caches_call+16*n(%rip), %edx
	jne missed
	callq *caches_call+16*n+8(%rip)
	addq %rax, %rcx
	.set n, n+1
	.endr
	movq %rcx, %rax
	popq %rbp
	retq
	.size hundred_call, .-hundred_call

	.globl hundred_offset
	.p2align 4, 0x90
	.type hundred_offset,@function
hundred_offset:
	pushq %rbp
	movq %rsp, %rbp
	xorl %ecx, %ecx
	.set n, 0
	.rept 100
	movl (%rdi), %edx
	cmpl caches_offset+16*n(%rip), %edx
	jne missed
	movq caches_offset+16*n+8(%rip), %rdx
	movq (%rdi,%rdx), %rax
	addq %rax, %rcx
	.set n, n+1
	.endr
	movq %rcx, %rax
	popq %rbp
	retq
	.size hundred_offset, .-hundred_offset

	.section .note.GNU-stack,"",@progbits
