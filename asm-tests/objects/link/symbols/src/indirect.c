// An indirect function: its resolver says which one is called.
int which;
static long chosen(void) { return 5; }
static long another(void) { return 6; }
static void *resolver(void) { return which ? (void *)chosen : (void *)another; }
long indirect(void) __attribute__((ifunc("resolver")));
long call(void) { return indirect(); }
