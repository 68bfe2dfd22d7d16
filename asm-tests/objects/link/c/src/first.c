/* Calls and data across files; common and weak symbols. */
#include "c.h"

/* Common with -fcommon: the other file's is larger. */
long counter;
long scratch[2];

/* The other file has a strong one. */
__attribute__((weak)) long which(void) { return 1; }
__attribute__((weak)) long weak_value = 10;

static long local(long x) { return x * 3 + counter; }
static operation chosen = mix;

long run(long x) {
    long sum = local(x) + which() * 1000 + weak_value;
    counter += 1;
    scratch[1] = x;
    for (long i = 0; i < 4; i++)
        sum += operations[i](sum, i) + length(names[i]);
    sum += chosen(sum, 7) + inner(x);
    if (missing)
        sum += missing(x);
    buffer[x & 7] = sum;
    return outside(sum + buffer[x & 7]) + pick(x);
}
