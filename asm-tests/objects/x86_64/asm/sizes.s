# Functions without sizes, aliases, and several code sections.
    .text
    .globl first, second, second_alias, last
    .type first, @function
    .type second, @function
    .type second_alias, @function
    .type last, @function
first:
    nop
    nop
    ret
second:
second_alias:
    nop
    ret
    .size second, 2
    .p2align 4, 0x90
last:
    ret
    nop

    .section .text.other,"ax",@progbits
    .globl other
    .type other, @function
other:
    ret
