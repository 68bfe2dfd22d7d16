/* C code that exceptions pass through: its cleanups run. */
extern void may_throw(int);
int cleaned;
static void clean(int *number) { cleaned += *number; }

int passes(int x) {
    __attribute__((cleanup(clean))) int number = x;
    may_throw(x);
    return number * 2;
}
