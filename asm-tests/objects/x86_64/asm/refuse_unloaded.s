# Data that refers to a section that is not loaded.
    .section .comment,"",@progbits
note:
    .long 0
    .data
    .quad note
