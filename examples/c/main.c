/* Compiled code in an object file, patched from C: an inline cache that learns, and a loop that is
 * left in the middle.
 *
 * LLVM compiled ../objects/inline_cache.ll ahead of time. Its function `sum_fields` reads a property
 * of each of a list of objects; the read is a *patchpoint*: 32 bytes that LLVM has left free, with a
 * note, the *stack map*, of the registers in which the object and the result are. This program is the
 * runtime of such code. It loads the object file, and says what its sites are; then
 *
 *   1. at first every read goes to the handler `miss`, which finds the property and patches the site,
 *      so that the next object of that shape is served by compiled code;
 *   2. an object turns up that no patch can serve. The function is *invalidated*: at its next site the
 *      loop goes to the handler `leave`, which reads what the loop was doing and does the rest of it.
 *
 * Every function of patchpoint.h returns an error, or NULL. `run.sh` builds and runs this.
 */
#include <patchpoint.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The IDs that the IR gives its sites. */
enum { READ = 78, LOOP = 90 };

/* An object: its shape says which field is the property. Shape 0 has none, and computes it. */
struct object {
    uint64_t header;
    uint32_t shape;
    uint32_t unused;
    uint64_t fields[4];
};

static uint64_t property(const struct object *object)
{
    if (object->shape == 0)
        return object->fields[0] + object->fields[1];
    return object->fields[object->shape % 4];
}

/* Ends the program with what an error says: which site, what was needed, how to mend it. */
static void check(pp_error *error)
{
    if (error != NULL) {
        pp_str message = pp_error_message(error);
        fprintf(stderr, "error: %.*s\n", (int)message.len, message.data);
        pp_error_free(error);
        exit(1);
    }
}

static pp_str str(const char *text)
{
    pp_str string = {text, strlen(text)};
    return string;
}

/* What the runtime has learnt. */
struct runtime {
    pp_module *module;
    uint32_t shapes[8];
    int known;
    int misses;
    int left;
};

/* Patches the reads for all shapes that are known: for each a comparison and a load. The object is
 * arg(0), wherever LLVM has put it; behind the last comparison the code goes to `miss`. */
static void patch(struct runtime *runtime)
{
    char text[1024] = "";
    size_t len = 0;
    for (int at = 0; at < runtime->known; at++) {
        uint32_t shape = runtime->shapes[at];
        size_t offset = offsetof(struct object, fields) + 8 * (shape % 4);
        len += (size_t)snprintf(text + len, sizeof text - len,
                                "if u32[arg(0)+8] != %" PRIu32 " goto label(%d); result = u64[arg(0)+%zu]; "
                                "goto end; label(%d):; ",
                                shape, at, offset, at);
    }
    snprintf(text + len, sizeof text - len, "goto miss");
    pp_sequence *sequence;
    check(pp_sequence_from_text(str(text), &sequence));
    check(pp_module_patch(runtime->module, READ, sequence, NULL));
    check(pp_sequence_free(sequence));
}

/* A read for whose object no comparison holds. */
static void miss(pp_frame *frame, void *data)
{
    struct runtime *runtime = data;
    uint64_t address;
    check(pp_frame_arg_u64(frame, 0, &address));
    const struct object *object = (const struct object *)(uintptr_t)address;
    check(pp_frame_set_result(frame, property(object)));
    runtime->misses++;
    if (object->shape != 0) {
        runtime->shapes[runtime->known++] = object->shape;
        patch(runtime);
        return;
    }
    /* Give the function up. This read still goes on, to the next site of the loop. */
    pp_engine *engine;
    pp_function *function;
    check(pp_frame_engine(frame, &engine));
    check(pp_module_function(runtime->module, str("sum_fields"), &function));
    check(pp_engine_invalidate(engine, function, NULL));
    check(pp_function_free(function));
    check(pp_engine_free(engine));
}

/* A site of an invalidated function. At the stackmap at the end of the loop's body all that the loop
 * needs is known: the rest is done here, and the caller of `sum_fields` gets the result. */
static void leave(pp_frame *frame, void *data)
{
    struct runtime *runtime = data;
    pp_frame_info info = {.size = sizeof info};
    check(pp_frame_get_info(frame, &info));
    if (info.id != LOOP)
        return; /* No answer: the code goes on as if nothing had happened. */
    uint64_t objects, count, index, sum, slot;
    check(pp_frame_live_u64(frame, 0, &objects));
    check(pp_frame_live_u64(frame, 1, &count));
    check(pp_frame_live_u64(frame, 2, &index));
    check(pp_frame_live_u64(frame, 3, &sum));
    check(pp_frame_live_u64(frame, 4, &slot)); /* The address of a variable on the stack: it counts objects. */
    const struct object *const *list = (const struct object *const *)(uintptr_t)objects;
    printf("  left after object %" PRIu64 " of %" PRIu64 ", with a sum of %" PRIu64 "\n", index, count, sum);
    for (uint64_t at = index + 1; at < count; at++)
        sum += property(list[at]);
    /* The IR's function returns the sum, how many objects there were, and half of that. */
    check(pp_frame_return(frame, PP_RETURN_INT, sum + count + count / 2, 0));
    runtime->left++;
}

static unsigned char *read_file(const char *path, size_t *len)
{
    FILE *file = fopen(path, "rb");
    unsigned char *bytes = malloc(1 << 20);
    if (file == NULL || bytes == NULL) {
        fprintf(stderr, "error: %s cannot be read\n", path);
        exit(1);
    }
    *len = fread(bytes, 1, 1 << 20, file);
    fclose(file);
    return bytes;
}

enum { COUNT = 1000 };
typedef uint64_t sum_function(const struct object *const *objects, uint64_t count);

/* Calls the compiled function with objects of these shapes in turn. 1 if its result is wrong. */
static int call(const struct runtime *runtime, sum_function *sum, const char *what, const uint32_t *shapes, int many)
{
    static struct object objects[COUNT];
    const struct object *list[COUNT];
    uint64_t right = COUNT + COUNT / 2;
    for (uint32_t at = 0; at < COUNT; at++) {
        struct object object = {0, shapes[at % (uint32_t)many], 0, {at, 2 * at, 3 * at, 4 * at}};
        objects[at] = object;
        list[at] = &objects[at];
        right += property(&object);
    }
    int before = runtime->misses;
    uint64_t found = sum(list, COUNT);
    printf("  %-34s %8" PRIu64 ", %d misses of %d reads%s\n", what, found, runtime->misses - before, COUNT,
           found == right ? "" : ": WRONG");
    return found != right;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s OBJECT\n", argv[0]);
        return 2;
    }
    struct runtime runtime = {0};

    /* An engine, with the handlers. This program has one thread, so nobody has to be stopped while
     * bytes change. */
    pp_engine_builder *builder;
    pp_engine *engine;
    check(pp_engine_builder_new(&builder));
    check(pp_engine_builder_world_single_threaded(builder));
    check(pp_engine_builder_on_miss(builder, miss, &runtime, NULL));
    check(pp_engine_builder_on_deopt(builder, leave, &runtime, NULL));
    check(pp_engine_build(builder, &engine));
    check(pp_engine_builder_free(builder));

    /* The object, linked into memory of the engine's. It has no undefined symbols to look up. */
    size_t len;
    unsigned char *bytes = read_file(argv[1], &len);
    pp_bytes object = {bytes, len};
    pp_code *code;
    check(pp_load(engine, object, NULL, NULL, &code));
    free(bytes);

    /* No stack map says how many bytes are reserved, nor which values are arguments: the IR does. */
    pp_shape read = {.size = sizeof read, .kind = PP_SITE_PATCHPOINT, .reserved = 32,
                     .convention = PP_CONVENTION_ANY_REG, .args = 1, .has_result = 1};
    pp_shape loop = {.size = sizeof loop, .kind = PP_SITE_SHADOW, .reserved = 24};
    pp_registration *registration;
    check(pp_registration_new(engine, code, &registration));
    check(pp_registration_shape(registration, READ, &read));
    check(pp_registration_shape(registration, LOOP, &loop));
    check(pp_registration_leavable(registration)); /* `leave` leaves frames: refuse what cannot be left. */
    check(pp_register(registration, NULL, NULL, &runtime.module));
    check(pp_registration_free(registration));
    check(pp_code_free(code));

    patch(&runtime); /* Nothing is known: every read misses. */
    check(pp_module_release(runtime.module)); /* From now on it may run. */
    pp_function *function;
    uint64_t entry;
    check(pp_module_function(runtime.module, str("sum_fields"), &function));
    check(pp_function_entry(function, &entry));
    check(pp_function_free(function));
    sum_function *sum = (sum_function *)(uintptr_t)entry;

    int wrong = 0;
    wrong += call(&runtime, sum, "one shape, for the first time", (uint32_t[]){1}, 1);
    wrong += call(&runtime, sum, "once more", (uint32_t[]){1}, 1);
    wrong += call(&runtime, sum, "a second shape", (uint32_t[]){1, 2}, 2);
    wrong += call(&runtime, sum, "once more", (uint32_t[]){1, 2}, 2);
    wrong += call(&runtime, sum, "an object that no patch can serve", (uint32_t[]){1, 2, 1, 2, 0}, 5);
    wrong += runtime.left != 1;

    /* No thread is in the code any more: it can go. */
    check(pp_engine_unregister(engine, runtime.module));
    check(pp_module_free(runtime.module));
    check(pp_engine_free(engine));
    puts(wrong == 0 ? "all results are right" : "SOMETHING IS WRONG");
    return wrong != 0;
}
