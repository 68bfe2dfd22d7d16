#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program.h"

static const char *const names[] = {"zero", "one", "two", "three"};

static int at_end = 7;

static void goodbye(void) { printf("goodbye, %d\n", at_end); }

int main(int argc, char **argv) {
    unsigned length, sum = 0;
    long values[16] = {0};
    unsigned count = 0;
    struct entry *list = count_words(argc, argv);
    struct entry **all = sorted(list, &length);
    if (atexit(goodbye) != 0)
        return 100;
    for (unsigned i = 0; i < length; i++) {
        int error;
        long value = number(all[i]->word, &error);
        const char *times = all[i]->count < 4 ? names[all[i]->count] : "many";
        if (error)
            printf("%-8s %s times, no number: %s\n", all[i]->word, times, strerror(error));
        else
            printf("%-8s %s times, %ld, %s\n", all[i]->word, times, value, kind(value));
        if (!error && count < 16)
            values[count++] = value;
        sum += all[i]->count;
    }
    printf("%u words, mean %.3f, %u allocations\n", sum, mean(values, count), allocations);
    if (argc > 1 && strcmp(argv[argc - 1], "--exit") == 0)
        exit(33);
    free(all);
    release(list);
    at_end = (int)allocations;
    return 40 + (int)length;
}
