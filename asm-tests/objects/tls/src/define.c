// Thread-local variables: with a value, without, local, aligned, large, and of another file.
__thread long counter = 40;
__thread long zero;
static __thread struct { char first; long wide __attribute__((aligned(64))); } aligned = {1, 2};
__thread char large[5000];

long in_use(void);

// Adds to each, and returns their sum.
long add(long n) {
    counter += n;
    zero += n;
    aligned.wide += n;
    large[n & 4095] += 1;
    return counter + 1000 * zero + 1000000 * aligned.wide + 1000000000 * large[n & 4095] + in_use();
}

// 1 if each is aligned as it says.
long is_aligned(void) { return ((unsigned long)&aligned.wide | (unsigned long)&aligned) % 64 == 0; }
