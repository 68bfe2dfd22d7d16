/* The object of adopted.c: calls of a function that it does not define. */
#include <stdint.h>

extern uint64_t helper(uint64_t number);

uint64_t both(uint64_t number) { return helper(number) + helper(number + 1); }
