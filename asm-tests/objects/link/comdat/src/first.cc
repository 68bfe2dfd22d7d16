#include "shared.h"

long second(long x);
Function other();
Shape *shape();

static long mine(Ring<long, 4> &ring, int i) { return ring.at(i) + next(); }

extern "C" long run(long x) {
    Ring<long, 4> ring = {{x, x + 1, x + 2, x + 3}};
    long sum = 0;
    for (int i = 0; i < 6; i++) sum = 3 * sum + mine(ring, i);
    variable += x;
    sum += second(x) + shape()->twice(x) + guarded(x) + variable;
    Square square;
    Shape *own = &square;
    sum += own->area(x) + Ring<long, 4>::uses;
    // One function has one address.
    return 10 * sum + (other() == guarded);
}
