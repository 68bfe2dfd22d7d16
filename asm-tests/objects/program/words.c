#include <stdlib.h>
#include <string.h>

#include "program.h"

unsigned allocations;

static void *allocate(size_t size) {
    void *memory = malloc(size);
    if (!memory)
        abort();
    allocations++;
    return memory;
}

struct entry *count_words(int argc, char **argv) {
    struct entry *list = NULL;
    for (int i = 1; i < argc; i++) {
        struct entry *at = list;
        while (at && strcmp(at->word, argv[i]) != 0)
            at = at->next;
        if (!at) {
            at = allocate(sizeof *at);
            at->word = strcpy(allocate(strlen(argv[i]) + 1), argv[i]);
            at->count = 0;
            at->next = list;
            list = at;
        }
        at->count++;
    }
    return list;
}

/* The most frequent first, and then by the alphabet. */
static int compare(const void *a, const void *b) {
    const struct entry *left = *(struct entry *const *)a, *right = *(struct entry *const *)b;
    if (left->count != right->count)
        return left->count < right->count ? 1 : -1;
    return strcmp(left->word, right->word);
}

struct entry **sorted(struct entry *list, unsigned *length) {
    unsigned count = 0;
    for (struct entry *at = list; at; at = at->next)
        count++;
    struct entry **all = allocate((count + 1) * sizeof *all);
    struct entry **next = all;
    for (struct entry *at = list; at; at = at->next)
        *next++ = at;
    qsort(all, count, sizeof *all, compare);
    *length = count;
    return all;
}

void release(struct entry *list) {
    while (list) {
        struct entry *next = list->next;
        free(list->word);
        free(list);
        allocations -= 2;
        list = next;
    }
    allocations--;
}
