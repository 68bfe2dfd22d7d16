# Every relocation of COFF for x86-64 that code and data have, to symbols of every kind. make.sh gives four of the relative ones
# numbers that no assembler of LLVM's writes.
    .text
    .def start; .scl 2; .type 32; .endef
    .globl start
start:
    callq near                  # REL32
    callq outside
    jne near
    jmp outside
    movl value(%rip), %eax
    movl value+4(%rip), %eax
    movl outside_data(%rip), %eax
    movl shared+8(%rip), %eax
    leaq local(%rip), %rax
    movb $1, value+16(%rip)     # REL32_1 ...
    movw $1, value+16(%rip)
    addl $1000, value+16(%rip)
    movl $1, value+16(%rip)
    cmpl $5, value+16(%rip)
    movabsq $outside_data, %rax # ADDR64
    leaq __ImageBase(%rip), %rcx
    movl table@IMGREL(%rcx), %eax   # ADDR32NB
    retq
    .def near; .scl 2; .type 32; .endef
    .globl near
near:
    retq

    .data
    .p2align 4
local:
    .quad 1, 2
    .globl value
value:
    .quad 3, 4, 5
    .globl pointers
pointers:
    .quad start, value+8, outside-4, local+8
    .rva start, value+4, local  # ADDR32NB
    .long near@IMGREL+1
    .secrel32 value             # SECREL
    .secrel32 near
    .long near-.
    .long value-.

    .section .rdata,"dr"
    .globl table
    .p2align 2
table:
    .long start-table, near-table, near@IMGREL

    .comm shared, 40
    .lcomm zeros, 24

    .section .rdata$more,"dr"
    .globl after
after:
    .quad after, start

    .section .debug$X,"drn"
    .secrel32 near
    .secidx near                # SECTION, which only debug information has
