/* A hash table with its own allocation: loops, calls of all kinds, errno. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct entry { uint64_t hash; char *key; long value; };
struct table { struct entry *entries; size_t capacity, used; };
static struct table shared;
int resizes;

static uint64_t hash(const char *key) {
    uint64_t h = 0xcbf29ce484222325u;
    for (; *key; key++)
        h = (h ^ (unsigned char)*key) * 0x100000001b3u;
    return h | 1;
}

static struct entry *slot(struct table *table, uint64_t h, const char *key) {
    size_t at = h & (table->capacity - 1);
    while (table->entries[at].hash && (table->entries[at].hash != h || strcmp(table->entries[at].key, key)))
        at = (at + 1) & (table->capacity - 1);
    return &table->entries[at];
}

static int grow(struct table *table) {
    struct table larger = {calloc(table->capacity ? table->capacity * 2 : 8, sizeof *larger.entries), 0, table->used};
    if (!larger.entries) {
        errno = ENOMEM;
        return -1;
    }
    larger.capacity = table->capacity ? table->capacity * 2 : 8;
    for (size_t i = 0; i < table->capacity; i++)
        if (table->entries[i].hash)
            *slot(&larger, table->entries[i].hash, table->entries[i].key) = table->entries[i];
    free(table->entries);
    *table = larger;
    resizes++;
    return 0;
}

int put(const char *key, long value) {
    if (shared.used * 2 >= shared.capacity && grow(&shared))
        return -1;
    uint64_t h = hash(key);
    struct entry *entry = slot(&shared, h, key);
    if (!entry->hash) {
        entry->key = strdup(key);
        entry->hash = h;
        shared.used++;
    }
    entry->value = value;
    return 0;
}

long take(const char *key) {
    struct entry *entry = shared.capacity ? slot(&shared, hash(key), key) : NULL;
    return entry && entry->hash ? entry->value : -1;
}
