# A relocation of linked files.
    .data
place:
    .reloc place, R_X86_64_RELATIVE, 0
    .quad 0
