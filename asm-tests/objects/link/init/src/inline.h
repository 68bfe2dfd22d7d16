extern "C" void note(long n);

struct Noted {
    long n;
    Noted(long n) : n(n) { note(n); }
};

inline Noted shared(14);
