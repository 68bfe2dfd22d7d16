// The other file: it has a local function of its own by the name of one of the parser's.
static __attribute__((noinline)) long fail(long i) { return 11 * i; }

long read_block(unsigned char *to, long size) {
    for (long i = 0; i < size; i++) to[i] = fail(i);
    return size;
}
