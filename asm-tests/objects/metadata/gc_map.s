# A map as the plug-in of plimmix writes it, by hand from the layout.
    .text
    .globl first
    .type first,@function
first:
    nop
after:
    nop
first_end:
    .size first, first_end - first
    .globl second
    .type second,@function
second:
    nop
second_end:
    .size second, second_end - second

    .data
    .globl variable
    .type variable,@object
variable:
    .8byte 0
    .size variable, 8
    .balign 8
    .globl _IMMIX_GC_MAP_test.pi
    .type _IMMIX_GC_MAP_test.pi,@object
_IMMIX_GC_MAP_test.pi:
    .4byte 1
    .balign 8
    .4byte 2
    .balign 8
    .8byte first
    .4byte 5, 2, 2, 1
    .8byte after
    .4byte 8, 3
    .4byte 16, 1
    .balign 8
    .8byte second
    .4byte -1, 0, 0, 0
    .4byte 1
    .balign 8
    .8byte variable
map_end:
    .size _IMMIX_GC_MAP_test.pi, map_end - _IMMIX_GC_MAP_test.pi
