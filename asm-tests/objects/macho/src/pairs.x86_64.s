# Differences of two places, neither of which is the field's: llvm-jitlink refuses these, so the test says what they are.
    .section __TEXT,__text,regular,pure_instructions
    .globl _first
    .p2align 2
_first:
    .long 0xc3
    .globl _second
_second:
    .long 0xc3
    .weak_definition _weak
    .globl _weak
_weak:
    .long 0xc3

    .data
Llocal:
    .quad 1
    .globl _value
_value:
    .quad 2
    .globl _pairs
_pairs:
    .quad _second-_value
    .quad _value-_second+5
    .quad Llocal+8-_first
    .quad _first-_weak-3
    .long _value-_first+7
    .long _weak-_value
    .subsections_via_symbols
