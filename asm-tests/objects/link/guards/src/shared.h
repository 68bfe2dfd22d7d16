__attribute__((weak, noinline)) long shared(long n) { return n & 1 ? n + 1 : n - 1; }
