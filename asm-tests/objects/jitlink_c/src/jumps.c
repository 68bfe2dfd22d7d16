/* setjmp and longjmp, labels as values, recursion. */
#include <setjmp.h>
#include <stdlib.h>

static jmp_buf home;
static volatile int depth;

static void descend(int left) {
    depth++;
    if (left == 0)
        longjmp(home, depth);
    descend(left - 1);
}

int attempt(int levels) {
    depth = 0;
    int how = setjmp(home);
    if (how == 0) {
        descend(levels);
        abort();
    }
    return how;
}

int threaded(const unsigned char *code) {
    static const void *const labels[] = {&&stop, &&increment, &&twice, &&back};
    int value = 1;
    goto *labels[*code++ & 3];
increment:
    value++;
    goto *labels[*code++ & 3];
twice:
    value *= 2;
    goto *labels[*code++ & 3];
back:
    value--;
    goto *labels[*code++ & 3];
stop:
    return value;
}

unsigned long ackermann(unsigned long m, unsigned long n) {
    if (m == 0)
        return n + 1;
    return ackermann(m - 1, n == 0 ? 1 : ackermann(m, n - 1));
}
