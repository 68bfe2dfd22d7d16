// What is tested: a parser whose callees are another file's, its own that others may call, and its own that are local.
#include <stddef.h>

void *malloc(size_t size);
void free(void *p);
long read_block(unsigned char *to, long size);

static long failures = 5;

__attribute__((noinline)) long weight(long size) { return 3 * size + 1; }

static __attribute__((noinline)) long checksum(const unsigned char *bytes, long size) {
    long sum = 7;
    for (long i = 0; i < size; i++) sum = 31 * sum + bytes[i];
    return sum;
}

static long too_large(long size) { return -1000 - size; }
static long no_memory(long size) { return -2000 - size; }
static long (*const errors[])(long) = {too_large, no_memory};

static __attribute__((noinline)) long fail(int why, long size) {
    failures++;
    return errors[why](size);
}

long parse(long size) {
    if (size > 100) return fail(0, size);
    unsigned char *block = malloc(size);
    if (!block) return fail(1, size);
    long got = read_block(block, size);
    long sum = checksum(block, got) * weight(got);
    free(block);
    return sum;
}

long count_failures(void) { return failures; }
