/* A program of several files that uses the C library. */
struct entry {
    char *word;
    unsigned count;
    struct entry *next;
};

struct entry *count_words(int argc, char **argv);
struct entry **sorted(struct entry *list, unsigned *length);
void release(struct entry *list);

long number(const char *text, int *error);
const char *kind(long value);
double mean(const long *values, unsigned length);

extern unsigned allocations;
