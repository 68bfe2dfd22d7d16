/* Floating point: constants in sections of their own, conversions, calls of the mathematical library. */
#include <math.h>

static double state = 0.5;
float scales[4] = {1.0f, 2.5f, -3.75f, 1e-9f};

double polynomial(double x) {
    return ((3.25 * x - 1.125) * x + 0.0625) * x - 7.0;
}

float blend(float a, float b, float t) {
    return a * (1.0f - t) + b * t + scales[(int)t & 3];
}

double integrate(double from, double to, int steps) {
    double sum = 0, width = (to - from) / steps;
    for (int i = 0; i < steps; i++)
        sum += polynomial(from + (i + 0.5) * width);
    return sum * width;
}

double step(void) {
    state = fabs(sin(state) * 1e3) + pow(state, 1.5) - sqrt(state);
    return state;
}

long long rounded(double x) { return (long long)(x < 0 ? x - 0.5 : x + 0.5); }
unsigned long long whole(float x) { return (unsigned long long)x; }
double widened(unsigned long long x) { return (double)x; }
int classify(double x) { return x != x ? 0 : x > 1e300 ? 1 : x < -1e300 ? 2 : 3; }
