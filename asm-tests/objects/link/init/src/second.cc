// As the first, with what C++ initializes at run time: objects, with and without a priority, and an inline variable that
// both this file and the third have.
#include "inline.h"

extern "C" {
#define BEFORE(n, ...) __attribute__((constructor __VA_ARGS__)) static void before_##n(void) { note(n); }
#define AFTER(n, ...) __attribute__((destructor __VA_ARGS__)) static void after_##n(void) { note(-n); }

AFTER(11)
BEFORE(11)
BEFORE(12)
BEFORE(104, (102))
AFTER(104, (102))
AFTER(200, (200))
BEFORE(200, (200))
}

static Noted plain(13);
Noted early __attribute__((init_priority(150)))(150);

extern "C" long third(void);
extern "C" long second(void) { return plain.n + early.n + shared.n + third(); }
