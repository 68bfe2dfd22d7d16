/* Every function of the header, with nulls, wrong numbers and sizes, and handles that are of another kind or
 * have been freed, from two threads at once. Nothing of that may be undefined: fuzz.sh runs it under
 * AddressSanitizer. Promises that no function can check are kept: numbers that are addresses of code go into
 * nothing that is executed.
 *
 * fuzz OBJECT SEED ROUNDS */
#include "check.h"

#include <pthread.h>

/* ---- what is shared by the threads ---- */

#define POOL 64

static void *volatile pool[POOL];
static const char *object_path;
static pp_bytes object_bytes;
static unsigned long rounds, seeds;

typedef struct {
    uint64_t state;
    uint64_t calls, refused;
} fuzzer;

static uint64_t next(fuzzer *self) {
    self->state ^= self->state << 13;
    self->state ^= self->state >> 7;
    self->state ^= self->state << 17;
    return self->state;
}

/* A handle: null, or any that was ever made, of whatever kind, freed or not. */
static void *any(fuzzer *self) {
    uint64_t roll = next(self);
    return roll % 8 == 0 ? NULL : pool[(roll >> 8) % POOL];
}

/* One that may be new takes the place of another, which is freed later, or never. */
static void keep(fuzzer *self, void *handle) {
    if (handle != NULL)
        pool[next(self) % POOL] = handle;
}

static uint64_t some_number(fuzzer *self) {
    static const uint64_t numbers[] = {0, 1, 2, 3, 5, 16, 32, 78, 90, 255, 4096, UINT32_MAX, UINT64_MAX, UINT64_MAX / 2};
    uint64_t roll = next(self);
    return roll % 4 == 0 ? roll >> 8 : numbers[(roll >> 8) % (sizeof numbers / sizeof *numbers)];
}

#define N some_number(self)
#define SMALL ((uint32_t)(next(self) % 12))

static pp_str some_text(fuzzer *self) {
    static const char *texts[] = {"",      "get",  "sum_fields",        "goto miss", "result = 1", "\xff\xfe",
                                  "nobody", "trap", "result = u64[arg(0)+24]", "guard arg(0) == 1 else miss"};
    uint64_t roll = next(self) % 12;
    if (roll == 10)
        return pp_str_of(NULL, 3);
    if (roll == 11)
        return pp_str_of("x", (size_t)-1);
    return pp_str_of(texts[roll], strlen(texts[roll]));
}

static pp_bytes some_bytes(fuzzer *self) {
    static const uint8_t some[64] = {0x90, 0x90, 0x7f, 'E', 'L', 'F', 2, 1, 1};
    switch (next(self) % 5) {
    case 0:
        return pp_bytes_of(NULL, 0);
    case 1:
        return pp_bytes_of(NULL, 9);
    case 2:
        return pp_bytes_of(some, (size_t)-1);
    case 3:
        return object_bytes;
    default:
        return pp_bytes_of(some, sizeof some);
    }
}

static pp_operand some_operand(fuzzer *self) { return pp_operand_of(SMALL, N); }
static pp_source some_source(fuzzer *self) { return pp_source_of(SMALL % 4, SMALL, some_operand(self), (int32_t)N); }
/* No address: what is there cannot be checked. */
static pp_target some_target(fuzzer *self) {
    uint32_t kind = SMALL;
    return pp_target_of(kind == PP_TARGET_ADDRESS ? 9 : kind, N);
}
static pp_pointer some_pointer(fuzzer *self) {
    pp_pointer made;
    made.value = some_operand(self);
    made.boxing = SMALL % 4;
    made.amount = (uint32_t)N;
    return made;
}

/* Counts, and frees what was returned, sometimes twice. */
static void done(fuzzer *self, pp_error *error) {
    pp_error_place place;
    self->calls++;
    if (error == NULL)
        return;
    self->refused++;
    CHECK(pp_error_kind(error) != PP_KIND_NONE && pp_error_kind(error) != PP_KIND_INTERNAL);
    CHECK(pp_error_message(error).len > 0);
    memset(&place, 0, sizeof place);
    place.size = (size_t)(next(self) % 200 < 100 ? sizeof place : next(self) % 8);
    pp_error_site(error, next(self) % 4 ? &place : NULL);
    pp_error_free(error);
    if (next(self) % 64 == 0)
        pp_error_free(error);
}

/* A size that is right, or not. Of a longer structure some byte that no version knows may be set. */
static size_t some_size(fuzzer *self, size_t size, char *room) {
    switch (next(self) % 12) {
    case 0:
        return next(self) % size;
    case 1:
        room[size + 8] = (char)(next(self) % 2);
        return size + 64;
    case 2:
        return (size_t)-1;
    default:
        return size;
    }
}

static void handler(pp_frame *frame, void *data) { (void)frame, (void)data; }
static void observer(const pp_event *event, void *data) { (void)event, (void)data; }
static uint32_t policy(const pp_history *history, void *data) { return (uint32_t)history->misses + (data != NULL); }
static bool symbols(pp_str name, uint64_t *address, void *data) { return *address = 0, name.len == 0 && data != NULL; }
static bool sections(size_t index, pp_str name, uint64_t *address, void *data) {
    return *address = 4096 * index, name.len == 5 && data == NULL;
}
static bool shapes(const pp_record *record, pp_shape *shape, void *data) {
    (void)data;
    shape->kind = (uint32_t)(record->id % 3);
    shape->reserved = record->id == 90 ? 24 : 32;
    shape->has_result = shape->args = 1;
    return true;
}
static bool calls_of(pp_str name, uint64_t *id, void *data) { return *id = 5, name.len % 2 == 0 && data == NULL; }
static bool stopped(pp_work work, void *argument, void *data) { return data == NULL ? (work(argument), true) : false; }

static void fill_pp_world(fuzzer *self, pp_world *world) {
    world->while_stopped = next(self) % 4 ? stopped : NULL;
    world->resumption = SMALL % 4;
}

static void fill_pp_load_options(fuzzer *self, pp_load_options *options) {
    static const pp_object none;
    static pp_object two[2];
    two[0].bytes = two[1].bytes = object_bytes;
    options->objects = next(self) % 4 ? two : &none;
    options->object_count = 1 + next(self) % 8 / 7;
    options->lookup = next(self) % 2 ? symbols : NULL;
    options->calls = next(self) % 2 ? calls_of : NULL;
}

static void fill_pp_shape(fuzzer *self, pp_shape *shape) {
    shape->kind = SMALL % 3;
    shape->reserved = next(self) % 4 ? 24 + 8 * (SMALL % 2) : (uint32_t)N;
    shape->convention = SMALL % 3;
    shape->args = SMALL % 3;
    shape->has_result = SMALL % 3;
}

static void fill_pp_entry_site(fuzzer *self, pp_entry_site *entry) {
    entry->function = some_text(self);
    entry->id = N;
    entry->reserved = (uint32_t)N;
    entry->offset = SMALL;
    entry->args = (uint32_t)N;
    entry->has_result = SMALL % 3;
}

static void fill_pp_told_site(fuzzer *self, pp_told_site *site) {
    static const uint32_t registers[4] = {0, 5, 17, 70000};
    site->function = some_text(self);
    site->offset = SMALL;
    site->reserved = SMALL;
    site->content = SMALL % 5;
    site->convention = SMALL % 3;
    site->id = N;
    site->has_id = SMALL % 3;
    site->arg_count = (uint32_t)N;
    site->instructions = some_bytes(self);
    site->args = next(self) % 8 ? registers : NULL;
    site->args_len = SMALL % 4;
    site->values = registers;
    site->values_len = SMALL % 4;
    site->free_registers = registers;
    site->free_len = SMALL % 4;
    site->has_result = SMALL % 3;
    site->result = SMALL;
}

static void fill_pp_reach(fuzzer *self, pp_reach *reach) {
    reach->where_ = SMALL % 4;
    reach->code = N;
    reach->code_len = N;
    reach->within = N;
}


static void one_call(fuzzer *self);

static void *run(void *argument) {
    fuzzer *self = (fuzzer *)argument;
    unsigned long round;
    for (round = 0; round < rounds; round++)
        one_call(self);
    return NULL;
}

#include "fuzz_calls.h"

int main(int argc, char **argv) {
    fuzzer both[2];
    pthread_t threads[2];
    int i;
    CHECK(argc == 4);
    object_path = argv[1];
    object_bytes = read_file(object_path);
    seeds = strtoul(argv[2], NULL, 0);
    rounds = strtoul(argv[3], NULL, 0);
    memset(both, 0, sizeof both);
    for (i = 0; i < 2; i++) {
        both[i].state = seeds * 2654435761u + (uint64_t)i + 1;
        CHECK(pthread_create(&threads[i], NULL, run, &both[i]) == 0);
    }
    for (i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    printf("fuzz: %d functions, %llu calls, %llu refused\n", FUNCTIONS,
           (unsigned long long)(both[0].calls + both[1].calls),
           (unsigned long long)(both[0].refused + both[1].refused));
    return 0;
}
