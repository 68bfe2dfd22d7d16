# The loop of c_loop.ll with a lookup in a hashed table in data, as a compiler would inline it: hash of the shape, one
# entry of 16 bytes with the shape and where the property is, one comparison. It serves one property and one thread. Made
# with:
#
#   llvm-mc-19 -triple=x86_64-unknown-linux-gnu -filetype=obj data_probe.s -o data_probe.o

	.text
# Where a shape goes that the table has not.
	.globl missed
	.p2align 4, 0x90
	.type missed,@function
missed:
	ud2
	.size missed, .-missed

# The sum of a property over rsi objects (at least 1), whose addresses are at rdi.
	.globl sum_fields
	.p2align 4, 0x90
	.type sum_fields,@function
sum_fields:
	xorl %eax, %eax
	xorl %ecx, %ecx
	leaq table(%rip), %r9
	.p2align 4, 0x90
.Lloop:
	movq (%rdi,%rcx,8), %rdx
	movl (%rdx), %r8d
	movl %r8d, %r10d
	shrl $7, %r10d
	addl %r8d, %r10d
	andl $0xfff, %r10d
	shll $4, %r10d
	cmpq %r8, (%r9,%r10)
	jne missed
	movq 8(%r9,%r10), %r8
	addq (%rdx,%r8), %rax
	incq %rcx
	cmpq %rsi, %rcx
	jb .Lloop
	retq
	.size sum_fields, .-sum_fields

# Where the table is.
	.globl table_at
	.p2align 4, 0x90
	.type table_at,@function
table_at:
	leaq table(%rip), %rax
	retq
	.size table_at, .-table_at

	.bss
	.p2align 6
table:
	.zero 65536

	.section .note.GNU-stack,"",@progbits
