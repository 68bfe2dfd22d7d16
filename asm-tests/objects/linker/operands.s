# triple: riscv64-unknown-linux-gnu
# features: +c
# Operands of RISC-V's instructions.
	.option norelax
	.text
	.globl main
main:	auipc a0, %pcrel_hi(number)
	.globl low
low:	addi a0, a0, %pcrel_lo(main)
	.globl short
short:	c.ldsp ra, 8(sp)
	ret
	.data
	.globl number
number:	.quad 5
# jitlink-check: decode_operand(main, 1) << 12 = (number - main + 0x800) & 0xfffff000
# jitlink-check: decode_operand(low, 2)[11:0] = (number - main)[11:0]
# jitlink-check: decode_operand(short, 2) = 8
# jitlink-check: next_pc(short) = short + 2
