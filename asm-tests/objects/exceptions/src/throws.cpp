// Throws through whoever calls it.
#include "problem.h"

extern "C" void may_throw(int x) {
    if (x > 100)
        throw Problem{x};
    if (x > 50)
        throw x;
}
