// Functions with and without atomics, and one whose arguments reach the stack.
struct big { long words[6]; };
long plain(long a) { return a + 1; }
long atomic(long *p) { return __atomic_load_n(p, __ATOMIC_RELAXED) + __atomic_fetch_add(p, 1, __ATOMIC_SEQ_CST); }
void escape(void *);
long on_the_stack(struct big big, long a, long b, long c, long d, long e, long f, long g) {
    escape(&g);
    return big.words[5] + a + b + c + d + e + f + g;
}
