# Sections each of which would do, but not their sum.
    .section .bss.one,"aw",@nobits
    .zero 0x30000000
    .section .bss.two,"aw",@nobits
    .zero 0x30000000
