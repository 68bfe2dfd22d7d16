/* Cleanups that run when an exception passes through: -fexceptions. */
#include <stdio.h>
#include <stdlib.h>

extern void may_throw(int);
int live;

static void finish(int *number) { live -= *number; }
static void close_file(FILE **file) { if (*file) fclose(*file); }
static void release(void **memory) { free(*memory); }

int guarded(int x) {
    __attribute__((cleanup(finish))) int number = x;
    live += number;
    may_throw(x);
    return live;
}

int nested(int x) {
    __attribute__((cleanup(finish))) int outer = x;
    live += outer;
    for (int i = 0; i < x; i++) {
        __attribute__((cleanup(finish))) int inner = i;
        live += inner;
        may_throw(i);
    }
    return guarded(x + 1);
}

long size_of(const char *path) {
    __attribute__((cleanup(close_file))) FILE *file = fopen(path, "r");
    __attribute__((cleanup(release))) void *memory = malloc(100);
    if (!file || !memory)
        return -1;
    may_throw(2);
    fseek(file, 0, SEEK_END);
    return ftell(file);
}
