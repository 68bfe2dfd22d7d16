# Thread-local data.
    .section .tdata,"awT",@progbits
variable:
    .quad 1
