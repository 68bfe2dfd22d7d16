# Access to somebody else's thread-local data.
    .text
    movq %fs:0, %rax
    lea variable@TPOFF(%rax), %rax
