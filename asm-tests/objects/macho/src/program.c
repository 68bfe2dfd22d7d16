// Data and code of every kind, without headers: switch tables, strings, floating-point constants, pointers, common, weak and
// static symbols, calls in and out, a cleanup that unwinding must run.
extern int outside(int);
extern int outside_data;
int common;
static int counter;
static int once = 7;
const char *names[] = {"first", "second", "third"};
static const short odd[4] = {1, 3, 5, 7};

__attribute__((weak)) int replaceable(int a) { return a + 1; }
__attribute__((visibility("hidden"))) int hidden(int a) { return a * 3; }

__attribute__((noinline)) static int table(int a) { return odd[a & 3] + counter++ + once; }

int choose(int a) {
    switch (a) {
    case 0: return table(a + 1);
    case 1: return hidden(a);
    case 2: return replaceable(a) + common;
    case 3: return names[a & 1][1];
    case 4: return once -= 2;
    case 5: return 77;
    default: return -a;
    }
}

double scale(double a) { return a * 2.5 + 0.125; }
float narrow(float a) { return a * 1.5f; }

int (*pointer)(int) = choose;
int (*const constant)(int) = replaceable;

int through(int a) { return pointer(a) + constant(a); }

static void release(int *held) { common += *held; }
int guarded(int a) {
    int held __attribute__((cleanup(release))) = a;
    return through(held) + held;
}

int calls_out(int a) { return outside(a) + outside_data; }
