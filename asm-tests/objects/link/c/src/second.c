/* What the first file uses; tables of addresses. */
#include "c.h"

long counter;
long scratch[64];
long buffer[8] = {1, 2, 3, 4, 5, 6, 7, 8};
long weak_value = 20;

long which(void) { return 2; }
static long local(long x) { return x - 5; }

long add(long a, long b) { return a + b + local(b); }
long mix(long a, long b) { return (a << 1) ^ b ^ scratch[1]; }
static long sub(long a, long b) { return a - b; }
static long both(long a, long b) { return add(a, b) + mix(a, b); }

operation operations[4] = {add, mix, sub, both};
