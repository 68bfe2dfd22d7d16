/* Pointers to functions: tables of them, callbacks, addresses of what is elsewhere. */
#include <stdlib.h>

typedef int operation(int, int);
extern int outside_operation(int, int);
extern int outside_value;
extern int *outside_pointer;
static int add(int a, int b) { return a + b; }
static int subtract(int a, int b) { return a - b; }
__attribute__((noinline)) int multiply(int a, int b) { return a * b; }

operation *const fixed[] = {add, subtract, multiply, outside_operation};
operation *changing[4] = {multiply, add};
int *address = &outside_value;
static operation *chosen = subtract;

int apply(unsigned which, int a, int b) { return fixed[which & 3](a, b) + changing[which & 1](b, a); }
operation *choose(int which) {
    operation *before = chosen;
    chosen = which == 0 ? outside_operation : which == 1 ? multiply : add;
    return before;
}
static int by_size(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
void sort(int *numbers, size_t count) { qsort(numbers, count, sizeof *numbers, by_size); }
int sum(void) { return outside_value + *outside_pointer + *address; }
int *where(void) { return &outside_value; }
int is_ours(operation *it) { return it == multiply || it == add; }
int tail(int a) { return outside_operation(a, a + 1); }
