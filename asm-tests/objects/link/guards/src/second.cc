/* A switch, and what the first file has too. */
#include "shared.h"

long second(long n) {
    switch (n) {
    case 0:
        return 5;
    case 3:
        return shared(4);
    case 9:
        return 1;
    default:
        return n > 5 ? 40 : 41;
    }
}
