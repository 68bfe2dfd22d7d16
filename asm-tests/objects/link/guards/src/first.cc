/* Functions with and without branches, and one that the other file has too. */
#include "shared.h"

static long sums(long n) {
    long sum = 0;
    for (long i = 0; i < n; i++)
        sum += i % 3 == 0 ? second(i) : shared(i);
    return sum;
}

long never(long n) { return n == 7 ? second(1) : 2; }

long run(void) {
    long sum = sums(10);
    return 1000 * how_many() + sum;
}
