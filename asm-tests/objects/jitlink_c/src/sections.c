/* Code and data in sections of their own, cold parts, branches between them. */
#include <stdio.h>
#include <stdlib.h>

__attribute__((section(".text.special"))) int special(int x) { return x * 7; }
__attribute__((section(".data.special"))) int special_data[3] = {1, 2, 3};
__attribute__((section(".rodata.special"))) const int special_constants[4] = {9, 8, 7, 6};
__attribute__((cold, noinline)) static void failed(int x) { fprintf(stderr, "failed: %d\n", x); exit(x); }
__attribute__((hot)) int hot(int x) {
    if (__builtin_expect(x < 0, 0))
        failed(x);
    return special(x) + special_data[x % 3] + special_constants[x & 3];
}
static int unused_by_others(int x) { return x ^ 0x55; }
int (*keeps)(int) = unused_by_others;
int far_apart(int x) {
    for (int i = 0; i < 10; i++) {
        if (hot(x + i) == 3)
            return special(i);
        if (hot(x - i) == 4)
            failed(i);
    }
    return keeps(x);
}
