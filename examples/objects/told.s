# The object of the example live_stress with sites that no stack map tells, made by make.sh. x86-64.
#
# Functions of an integer, which return it, or more: `examples/live_stress/told.rs` says how much, and where the site of
# each is. In front of the site the result is as it was passed and the stack is as for a call; nobody looks at other
# registers. The sites of `told_K` have room for a jump of five bytes in one aligned quadword; those of `unaligned_K` have
# not, as they cross the border of two quadwords, or of two cache lines.

        .text

callee: leaq    0x20000000(%rdi), %rax
        retq

# Starts a function, up to its site.
.macro  begin name, at
        .p2align 6, 0xcc
        .globl  \name
        .type   \name, @function
\name:  subq    $8, %rsp
        movq    %rdi, %rax
        .fill   \at - 7, 1, 0x90
.endm

# Ends it, behind the site.
.macro  end name
        addq    $8, %rsp
        retq
        .size   \name, . - \name
.endm

.macro  nop3
        .byte   0x0f, 0x1f, 0x00
.endm

.macro  nop4
        .byte   0x0f, 0x1f, 0x40, 0x00
.endm

.macro  nop5
        .byte   0x0f, 0x1f, 0x44, 0x00, 0x00
.endm

.macro  nop9
        .byte   0x66, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00
.endm

# Five bytes, to what is local.
.macro  call5
        .byte   0xe8
        .long   callee - . - 4
.endm

# Over an instruction that adds to the result.
.macro  jump5
        .byte   0xe9
        .long   1f - . - 4
.endm

.macro  skipped
        addq    $0x10000000, %rax
1:
.endm

# ---- told ----

        begin   told_0, 8               # one nop
        nop5
        end     told_0

        begin   told_1, 16              # two
        nop3
        nop5
        end     told_1

        begin   told_2, 13              # sixteen
        .fill   16, 1, 0x90
        end     told_2

        begin   told_3, 12              # four, as long as they get
        nop9
        nop9
        nop9
        nop5
        end     told_3

        begin   told_4, 8               # a call
        call5
        end     told_4

        begin   told_5, 11              # a call, and nops behind it
        call5
        nop9
        end     told_5

        begin   told_6, 9               # a jump
        jump5
        skipped
        end     told_6

        begin   told_7, 14              # a jump, and nops behind it
        jump5
        nop9
        nop3
        skipped
        end     told_7

# ---- unaligned ----

        begin   unaligned_0, 60         # nops
        nop5
        end     unaligned_0

        begin   unaligned_1, 12
        nop5
        end     unaligned_1

        begin   unaligned_2, 61         # calls
        call5
        end     unaligned_2

        begin   unaligned_3, 13
        call5
        end     unaligned_3

        begin   unaligned_4, 63         # jumps
        jump5
        skipped
        end     unaligned_4

        begin   unaligned_5, 14
        jump5
        skipped
        end     unaligned_5

        begin   unaligned_6, 13         # several nops
        nop3
        nop4
        end     unaligned_6

        begin   unaligned_7, 60
        .fill   8, 1, 0x90
        end     unaligned_7

        .section .note.GNU-stack, "", @progbits
