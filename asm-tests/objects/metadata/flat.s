# Two functions with a flat stack map, by hand from the layout: DIALECT is 0 for the proposal's, 1 for the fork's. The assembler
# calculates what a compiler knows: sizes, offsets, addresses. The macros nops and leave stand for some nops and a return.
    .macro pair number, index
    .if DIALECT
    .2byte \index, \number
    .else
    .2byte \number, \index
    .endif
    .endm

    .text
    .globl first
    .type first,@function
first:
    nops
site:
    nops
    nops
site_end:
    nops
    leave
first_end:
    .size first, first_end - first

    .globl second
    .type second,@function
second:
    leave
second_end:
    .size second, second_end - second

    .section .llvm_stackmaps,"a",@progbits
map:
    .byte 2, 0
    .2byte 0
    .if DIALECT
    .4byte 2, constants - map, frames - map, records - map, locations - map, live_outs - map
    .else
    .4byte constants - map, frames - map, registers - map, records - map, locations - map, live_outs - map
    .endif
    .balign 8
constants:
    .8byte 0x123456789abcdef
frames:
    .8byte first
    .4byte first_end - first, 40
    .2byte 9, FRAME_POINTER
    .if DIALECT == 0
    pair 2, 0
    .endif
    pair 1, 0
    .balign 8
    .8byte second
    .4byte second_end - second, 0xffffffff
    .2byte 6, STACK_POINTER
    .if DIALECT == 0
    pair 0, 2
    .endif
    pair 0, 1
    .balign 8
registers:
    .if DIALECT == 0
    .2byte KEPT, -24
    .byte 8, 1
    .balign 4
    .2byte FRAME_POINTER, 0
    .byte 8, 0
    .balign 4
    .endif
    .balign 8
records:
    .8byte 7
    .4byte site - first
    .byte site_end - site, 1
    pair 2, 0
    pair 1, 0
    .balign 8
locations:
    .byte 3, 4
    .2byte FRAME_POINTER
    .4byte -20
    .byte 5, 8
    .2byte 0
    .4byte 0
live_outs:
    .2byte KEPT
    .byte 0, 8
