/* Callbacks that do not return: by longjmp(). The process is to end with a message at the next call. The
 * argument is the object file of examples/objects/inline_cache.ll. */
#include "check.h"

#include <setjmp.h>

static jmp_buf out;

static void miss(pp_frame *frame, void *data) {
    (void)frame, (void)data;
    longjmp(out, 1);
}

int main(int argc, char **argv) {
    pp_engine_builder *builder;
    pp_engine *engine;
    pp_module *module;
    pp_sequence *sequence;
    pp_text *text;
    uint64_t object[4] = {0, 0, 0, 0};
    CHECK(argc == 2);
    OK(pp_engine_builder_new(&builder));
    OK(pp_engine_builder_world_single_threaded(builder));
    OK(pp_engine_builder_on_miss(builder, miss, NULL, NULL));
    OK(pp_engine_build(builder, &engine));
    module = load_module(engine, argv[1], 0);
    OK(pp_sequence_from_text(PP_STR("goto miss"), &sequence));
    OK(pp_engine_patch(engine, 78, sequence, NULL));
    OK(pp_module_release(module));
    if (setjmp(out) == 0)
        ((uint64_t (*)(const uint64_t *))pointer_of(entry_of(module, "get")))(object);
    OK(pp_sequence_text(sequence, &text));
    printf("it was not found out\n");
    return 0;
}
