// Catches what comes through other languages.
#include "problem.h"

extern "C" int passes(int);
int destroyed;

static int guarded(int x) {
    Guard guard(1);
    return passes(x) + 1;
}

extern "C" int attempt(int x) {
    try {
        Guard guard(2);
        return guarded(x);
    } catch (const Problem &problem) {
        return 1000 + problem.code;
    } catch (int number) {
        return 2000 + number;
    }
}

// Caught, and thrown on to another frame.
extern "C" int again(int x) {
    try {
        try {
            return passes(x);
        } catch (...) {
            destroyed += 4;
            throw;
        }
    } catch (const Problem &problem) {
        return 3000 + problem.code;
    } catch (int number) {
        return 4000 + number;
    }
}
