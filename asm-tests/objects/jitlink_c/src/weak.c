/* Weak definitions and references, common symbols, visibilities, an alias. */
#ifdef __GNUC__
#define WEAK __attribute__((weak))
#define HIDDEN __attribute__((visibility("hidden")))
#endif

int common_number;
long common_words[9];
char common_text[33];
WEAK int weak_number = 5;
WEAK int weak_function(int x) { return x + weak_number; }
extern int maybe(int) WEAK;
extern int maybe_number WEAK;
HIDDEN int hidden_function(int x) { return x * 3; }
__attribute__((visibility("protected"))) int protected_function(int x) { return x - 3; }
int real(int x) { return x + common_number; }
extern int other_name(int) __attribute__((alias("real")));

int use(int x) {
    common_words[x % 9] += x;
    common_text[x % 33] = (char)x;
    return weak_function(x) + hidden_function(x) + protected_function(x) + other_name(x);
}

int use_maybe(int x) {
    if (maybe)
        x = maybe(x);
    return &maybe_number ? x + maybe_number : x;
}
