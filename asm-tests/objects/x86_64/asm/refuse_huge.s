# Zero fill of many gigabytes.
    .bss
    .zero 0x1000000000
