# What llvm-jitlink refuses: weak symbols that may be undefined, beside one that stands for another, and ADDR32.
    .text
    .def own; .scl 2; .type 32; .endef
    .globl own
own:
    retq
    .weak replaceable
replaceable = own
    .weak perhaps
    .data
    .globl pointers
pointers:
    .quad perhaps, replaceable, own
    .long low, low+16
