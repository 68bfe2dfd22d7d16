// A harness that replaces what the parser calls and is not local to it, and calls what is.
#include <stddef.h>

long parse(long size);
long checksum(const unsigned char *bytes, long size);
extern long failures;

static unsigned char memory[64];
static long freed, asked;

void *malloc(size_t size) { return size > sizeof memory ? 0 : memory; }
void free(void *p) { freed += p == memory; }
long weight(long size) { return 1; }
long read_block(unsigned char *to, long size) {
    asked = size;
    to[0] = 2;
    to[1] = 3;
    return 2;
}

// Returns the number of the first check that fails.
long test(void) {
    const unsigned char bytes[] = {2, 3};
    if (checksum(bytes, 2) != 31 * (31 * 7 + 2) + 3) return 1;
    if (parse(50) != checksum(bytes, 2)) return 2;
    if (asked != 50 || freed != 1) return 3;
    failures = 40;
    if (parse(70) != -2070) return 4;
    if (failures != 41) return 5;
    return 0;
}
