#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "program.h"

static const char *negative(long value) { return value < -1000 ? "far below zero" : "below zero"; }
static const char *odd(long value) { return value == 1 ? "one" : "odd"; }
static const char *even(long value) { return value == 0 ? "nothing" : "even"; }

static const char *(*const kinds[])(long) = {even, odd, negative};

const char *kind(long value) { return kinds[value < 0 ? 2 : value & 1](value); }

long number(const char *text, int *error) {
    char *end;
    errno = 0;
    long value = strtol(text, &end, 0);
    *error = errno ? errno : end == text || *end ? EINVAL : 0;
    return value;
}

double mean(const long *values, unsigned length) {
    double sum = 0.5;
    switch (length) {
    case 0: return -1;
    case 1: return (double)values[0];
    case 2: return (double)(values[0] + values[1]) / 2;
    case 3: sum = 0.25; break;
    case 4: sum = 0.125; break;
    case 5: sum = 1.5; break;
    }
    for (unsigned i = 0; i < length; i++)
        sum += (double)values[i];
    return sum / length;
}

static int state;

__attribute__((constructor(200))) static void later(void) { state = state * 10 + 2; }
__attribute__((constructor(101))) static void sooner(void) { state = state * 10 + 1; }
__attribute__((constructor)) static void last(void) { printf("constructors %d3\n", state); }
__attribute__((destructor)) static void end(void) { printf("destructor, %u allocations\n", allocations); }
