// Constructors and destructors with and without priorities. Each is named by the number that it notes, D for a minus sign.
void note(long n);
long second(void);

#define BEFORE(n, ...) __attribute__((constructor __VA_ARGS__)) static void before_##n(void) { note(n); }
#define AFTER(n, ...) __attribute__((destructor __VA_ARGS__)) static void after_##n(void) { note(-n); }

BEFORE(1)
BEFORE(2)
AFTER(1)
AFTER(2)
BEFORE(65535, (65535))
BEFORE(300, (300))
AFTER(300, (300))
BEFORE(102, (102))
AFTER(102, (102))
BEFORE(103, (300))

long run(void) { return second(); }
