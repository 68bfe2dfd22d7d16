# Every relocation of x86-64 that objects have, to symbols and to sections, with and without something added.
    .section __TEXT,__text,regular,pure_instructions
    .globl _start
_start:
    callq _near                 # BRANCH
    callq _near+1
    jmp _outside
    jne _weak
    movl _value(%rip), %eax     # SIGNED
    movl _value+4(%rip), %eax
    movl _low(%rip), %eax
    leaq Llocal+8(%rip), %rax   # SIGNED, of a section
    movb $1, _value(%rip)       # SIGNED_1
    movb $1, _value+2(%rip)
    movw $1, _value(%rip)       # SIGNED_2
    movl $1, _value(%rip)       # SIGNED_4
    movb $1, Llocal+2(%rip)     # the same of sections
    movw $1, Llocal+4(%rip)
    movl $1, Llocal(%rip)
    movq _outside@GOTPCREL(%rip), %rax      # GOT_LOAD
    movq _outside_data@GOTPCREL(%rip), %rcx
    pushq _outside@GOTPCREL(%rip)           # GOT
    cmpq $0, _outside_data@GOTPCREL(%rip)
    popq %rax
    ret

    .globl _near
    nop
_near:
    ret
    .alt_entry _within
_within:
    nop
    ret

    .weak_definition _weak
    .globl _weak
_weak:
    ret
    .private_extern _kept
_kept:
    ret

    .data
Llocal:
    .quad 1, 2, 3
    .globl _value
    .p2align 3
_value:
    .quad 4, 5
    .globl _pointers
_pointers:
    .quad _start                # UNSIGNED
    .quad _value+8
    .quad _outside-4
    .quad Llocal+8              # UNSIGNED, of a section
    .long _low+16               # UNSIGNED in 32 bits
    .long 0
    .quad _constant-_pointers+3
    .long _value-.+7            # SUBTRACTOR in 32 bits
    .long _near-.

    .section __DATA,__const
    .p2align 3
    .globl _constant
_constant:
    .quad _weak, _outside_data
    .long _near-_constant
    .long _constant-_near

    .comm _shared, 40, 5
    .zerofill __DATA,__bss,_zeros,32,4
    .subsections_via_symbols
