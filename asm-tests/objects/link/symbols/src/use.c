// What the other file defines; and weak references to what nobody does, by a call, by the global offset table and in data.
long by_default(void), by_protected(void), by_hidden(void), by_internal(void), by_weak(void);
long unique_value(void);
extern char absolute[];
long overridden(void) { return 9000000; }

__attribute__((weak)) extern long nowhere(void);
__attribute__((weak)) extern long no_variable;
long (*const pointer)(void) = nowhere;
long (*volatile another)(void) = nowhere;

long run(void) {
    long sum = by_default() + by_protected() + by_hidden() + by_internal() + by_weak() + unique_value() + overridden();
    if (nowhere) sum += nowhere();
    if (&no_variable) sum += no_variable;
    if (pointer || another) sum = -1;
    return (long)absolute == 0x1234 ? sum : -2;
}

// A reference with a version, as to a function of the C library.
long outside(long x);
__asm__(".symver outside, outside@OLD_1.0\n");
long versioned_reference(long x) { return outside(x); }
