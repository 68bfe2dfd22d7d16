# Every relocation the loader knows, each at a label of its own: `at_NAME` for R_X86_64_NAME, in .data where the field
# is alone. Addends are all different. Symbols: far (external, far away), low (external, below 2 GiB), near
# (external, near the image), byte (external, below 128), here (in .text), there (in .data), absent (weak, undefined).
    .text
    .globl here
    .type here, @function
here:
    nop
    ret
    .size here, .-here

    .globl branches
    .type branches, @function
branches:
    .globl at_PLT32_far, at_PLT32_near, at_PLT32_here, at_PLT32_absent
    call far@PLT
at_PLT32_far = . - 4
    call near@PLT
at_PLT32_near = . - 4
    call here@PLT
at_PLT32_here = . - 4
    call absent@PLT
at_PLT32_absent = . - 4
    .size branches, .-branches

    .globl at_GOTPCREL, at_GOTPCRELX, at_REX_GOTPCRELX
    .globl at_GOTPC32
loads:
    .byte 0x48, 0x8b, 0x05
at_GOTPCREL:
    .reloc at_GOTPCREL, R_X86_64_GOTPCREL, far - 4
    .long 0
    mov far@GOTPCREL(%rip), %eax
at_GOTPCRELX = . - 4
    mov far@GOTPCREL(%rip), %rax
at_REX_GOTPCRELX = . - 4
    lea _GLOBAL_OFFSET_TABLE_(%rip), %rbx
at_GOTPC32 = . - 4

    .weak absent
    .data
    .globl there
    .type there, @object
there:
    .zero 40
    .size there, 40

    .macro field name, size, symbol, addend
    .globl at_\name
at_\name:
    .reloc at_\name, R_X86_64_\name, \symbol + \addend
    .zero \size
    .endm

    field 64, 8, far, 1
    field 32, 4, low, 2
    field 32S, 4, low, 3
    field 16, 2, byte, 4
    field 8, 1, byte, 5
    field PC64, 8, far, 6
    field PC32, 4, near, 7
    field PC16, 2, there, 8
    field PC8, 1, at_PC8, 9
    field PLT32, 4, near, 10
    field PLTOFF64, 8, far, 11
    field GOT32, 4, far, 12
    field GOT64, 8, far, 13
    field GOTPLT64, 8, far, 14
    field GOTPCREL64, 8, far, 15
    field GOTPC64, 8, _GLOBAL_OFFSET_TABLE_, 16
    field GOTOFF64, 8, there, 17
    field SIZE32, 4, there, 18
    field SIZE64, 8, there, 19
    field NONE, 0, there, 20

    .comm shared, 24, 32
    .bss
    .globl zeroed
zeroed:
    .zero 100
