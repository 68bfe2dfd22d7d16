/* Text: scanning, copying, literals that are merged, tables of literals. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const char *const colours[] = {"red", "green", "blue", "deep blue", "green"};
const char separators[] = " ,;\t\n";
char buffer[256];

size_t count_words(const char *text) {
    size_t words = 0;
    while (*text) {
        text += strspn(text, separators);
        if (*text)
            words++;
        text += strcspn(text, separators);
    }
    return words;
}

const char *colour(unsigned index) {
    return index < sizeof colours / sizeof *colours ? colours[index] : "none";
}

int find_colour(const char *name) {
    for (unsigned i = 0; i < sizeof colours / sizeof *colours; i++)
        if (strcmp(colours[i], name) == 0)
            return (int)i;
    return -1;
}

char *reversed(const char *text) {
    size_t length = strlen(text);
    if (length >= sizeof buffer)
        length = sizeof buffer - 1;
    for (size_t i = 0; i < length; i++)
        buffer[i] = text[length - 1 - i];
    buffer[length] = 0;
    return buffer;
}

int say(FILE *out, const char *who) {
    return fprintf(out, "%s says %s\n", who, colour((unsigned)strlen(who)));
}
