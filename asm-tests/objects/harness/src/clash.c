// A harness that names what two of the tested files have.
long fail(long i);
long clash(void) { return fail(1); }
