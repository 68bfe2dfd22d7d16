/* In a group of its own in every file that uses it. */
inline __attribute__((noinline)) long shared(long n) { return n & 1 ? n + 1 : n - 1; }

extern "C" {
long how_many(void);
long second(long n);
long never(long n);
long run(void);
}
