#include "shared.h"

Function other() { return guarded; }
Shape *shape() {
    static Square square;
    return &square;
}

long second(long x) {
    Ring<long, 4> ring = {{1, 2, 3, x}};
    Ring<char, 3> small = {{1, 2, 3}};
    variable ^= 5;
    return ring.at(x) + next() + guarded(x + 1) + small.at(x);
}
