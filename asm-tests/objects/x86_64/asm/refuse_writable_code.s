# A section that is writable and executable.
    .section .wx,"awx",@progbits
    ret
