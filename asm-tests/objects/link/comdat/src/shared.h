// What both files need, and each gets a copy of: inline functions with and without state, instances of templates, a class
// whose table of functions is emitted wherever it is used, an inline variable, and code to be run when a frame is unwound.
extern "C" long outside(long x);

inline long next() {
    static long count = 10;
    return ++count;
}

template <class T, int N> struct Ring {
    T items[N];
    static int uses;
    __attribute__((noinline)) T at(int i) {
        uses++;
        return items[i % N];
    }
};
template <class T, int N> int Ring<T, N>::uses = 0;

struct Shape {
    virtual long area(long x) { return x; }
    virtual long twice(long x) { return 2 * area(x); }
};

struct Square : Shape {
    long area(long x) override { return x * x + next(); }
};

inline long variable = 7;

struct Guard {
    long *p;
    __attribute__((noinline)) ~Guard() { *p += 100; }
};

// What is to be run when the callee throws is in a table of its own.
__attribute__((noinline)) inline long guarded(long x) {
    long sum = x;
    {
        Guard guard{&sum};
        sum += outside(x);
    }
    return sum;
}

typedef long (*Function)(long);
