; Every relocation of arm64 that objects have, with and without something added.
    .section __TEXT,__text,regular,pure_instructions
    .p2align 2
    .globl _start
_start:
    bl _near                    ; BRANCH26
    b _outside
    bl _near+8                  ; ADDEND, BRANCH26
    adrp x0, _value@PAGE        ; PAGE21
    add x0, x0, _value@PAGEOFF  ; PAGEOFF12, in every size
    ldrb w1, [x0, _value@PAGEOFF]
    ldrsh x1, [x0, _value@PAGEOFF]
    ldr w1, [x0, _value@PAGEOFF]
    ldr x1, [x0, _value@PAGEOFF]
    ldr q1, [x0, _value@PAGEOFF]
    str d1, [x0, _value@PAGEOFF]
    str b1, [x0, _value@PAGEOFF]
    adrp x2, _value@PAGE+5000   ; ADDEND, PAGE21
    ldrh w2, [x2, _value@PAGEOFF+5000]
    add x2, x2, _value@PAGEOFF+17
    adrp x4, _outside@GOTPAGE   ; GOT_LOAD_PAGE21
    ldr x4, [x4, _outside@GOTPAGEOFF]   ; GOT_LOAD_PAGEOFF12
    adrp x5, _outside_data@GOTPAGE
    ldr x5, [x5, _outside_data@GOTPAGEOFF]
    ret

    .globl _near
    .p2align 4
_near:
    nop
    nop
    ret
    .weak_definition _weak
    .globl _weak
_weak:
    b _near
    .private_extern _kept
_kept:
    ret

    .data
    .p2align 5
Llocal:
    .quad 1, 2, 3, 4
    .globl _value
_value:
    .quad 4, 5
    .globl _pointers
_pointers:
    .quad _start                ; UNSIGNED
    .quad _value+8
    .quad Llocal+8
    .quad _outside-4
    .long _low+16               ; UNSIGNED in 32 bits
    .long _outside@GOT-.        ; POINTER_TO_GOT
    .quad _constant-_pointers+3
    .long _value-.+7            ; SUBTRACTOR in 32 bits
    .long _near-.
    .long _outside_data@GOT-.
    .long 0

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
