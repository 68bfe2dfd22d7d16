# A constructor.
    .text
construct:
    ret
    .section .init_array,"aw",@init_array
    .quad construct
