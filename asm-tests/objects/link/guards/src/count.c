/* What SanitizerCoverage calls: numbers the guards, and notes each that is passed. Compiled without it. */
void note(long n);

static unsigned guards;

void __sanitizer_cov_trace_pc_guard_init(unsigned *start, unsigned *stop) {
    /* Every object has a constructor that calls this; one of them is kept, or all are. */
    if (start == stop || *start)
        return;
    while (start < stop)
        *start++ = ++guards;
}

void __sanitizer_cov_trace_pc_guard(unsigned *guard) { note(*guard); }

long how_many(void) { return guards; }
