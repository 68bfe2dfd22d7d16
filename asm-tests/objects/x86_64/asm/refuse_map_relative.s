# A stack map section, which has no address, with a relocation that needs one.
    .text
here:
    ret
    .section .llvm_stackmaps,"a",@progbits
    .long here - .
