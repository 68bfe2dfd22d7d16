# A function that loads an address from the global offset table.
# Made by: llvm-mc-19 -triple=riscv64 -filetype=obj cross.riscv64.s -o cross.riscv64.o
.globl address
.type address, @function
address:
.Lhere:
  auipc a0, %got_pcrel_hi(callee)
  ld a0, %pcrel_lo(.Lhere)(a0)
  ret
.size address, . - address
