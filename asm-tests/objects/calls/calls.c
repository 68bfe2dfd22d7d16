/* Calls of `callee` and `other` in every form that compilers give them: calls, tail calls, conditional ones. */
long callee(long);
long other(long);

long once(long x) { return callee(x) + 1; }
long twice(long x) { return callee(x) + callee(x + 1); }
long both(long x) { return callee(x) + other(x); }
/* A jump where it is optimized. */
long tail(long x) { return callee(x); }
long sometimes(long x) {
    if (x)
        return callee(x);
    return -1;
}

/* At each distance from a multiple of 8, where an instruction may start at every byte. */
#define NOP __asm__ volatile("nop");
#define NOPS_0
#define NOPS_1 NOP
#define NOPS_2 NOPS_1 NOP
#define NOPS_3 NOPS_2 NOP
#define NOPS_4 NOPS_3 NOP
#define NOPS_5 NOPS_4 NOP
#define NOPS_6 NOPS_5 NOP
#define NOPS_7 NOPS_6 NOP
#define AT(n)                                                                                                \
    __attribute__((aligned(16))) long at_##n(long x) {                                                       \
        NOPS_##n return callee(x) + n;                                                                       \
    }
AT(0) AT(1) AT(2) AT(3) AT(4) AT(5) AT(6) AT(7)

/* In reach of every call. */
long near_one(long x) { return x * 1000; }

/* Not recorded: through a pointer, and not to a function that is named here. */
long through(long (*function)(long), long x) { return function(x) + 1; }
void *address(void) { return (void *)callee; }

#ifdef __x86_64__
/* A conditional jump to a function, and the relocation that calls had before PLT32, which cannot go through a stub. */
__asm__(".text\n"
        ".globl jumps\n.type jumps, @function\n"
        "jumps: testq %rdi, %rdi\n"
        "jne callee@PLT\n"
        "movq $-1, %rax\n"
        "ret\n"
        ".size jumps, . - jumps\n"
        ".section .text.relative, \"ax\", @progbits\n"
        ".globl relative\n.type relative, @function\n"
        "relative: subq $8, %rsp\n"
        ".byte 0xe8\n"
        ".long near_one - . - 4\n"
        "addq $8, %rsp\n"
        "ret\n"
        ".size relative, . - relative\n"
        ".text\n");
#endif
