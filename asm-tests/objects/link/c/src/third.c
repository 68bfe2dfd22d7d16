/* A jump table, strings, a hidden function, what nobody calls. */
#include "c.h"

const char *const names[4] = {"one", "second", "the third", "and the last"};

long inner(long x) { return x ^ 0x55; }

long length(const char *text) {
    long n = 0;
    while (text[n])
        n++;
    return n;
}

__attribute__((noinline)) long pick(long x) {
    switch (x) {
    case 0: return length("nothing");
    case 1: return add(x, 100);
    case 2: return mix(x, 200);
    case 3: return inner(300);
    case 4: return which() + 400;
    case 5: return buffer[5] + 500;
    case 6: return weak_value * 600;
    default: return -x;
    }
}

long unused(long x) { return outside(x) + pick(x) + missing(x); }
