# A function that is chosen at run time.
    .text
    .type choose, @gnu_indirect_function
choose:
    ret
    .data
    .quad choose
