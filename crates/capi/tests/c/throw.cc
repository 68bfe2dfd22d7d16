// A handler that throws. The process is to end with a message.
#include "check.h"

static void miss(pp_frame *, void *) { throw 1; }

int main(int argc, char **argv) {
    pp_engine_builder *builder;
    pp_engine *engine;
    pp_sequence *sequence;
    uint64_t object[4] = {0, 0, 0, 0};
    CHECK(argc == 2);
    OK(pp_engine_builder_new(&builder));
    OK(pp_engine_builder_world_single_threaded(builder));
    OK(pp_engine_builder_on_miss(builder, miss, NULL, NULL));
    OK(pp_engine_build(builder, &engine));
    pp_module *module = load_module(engine, argv[1], 0);
    OK(pp_sequence_from_text(PP_STR("goto miss"), &sequence));
    OK(pp_engine_patch(engine, 78, sequence, NULL));
    OK(pp_module_release(module));
    try {
        reinterpret_cast<uint64_t (*)(const uint64_t *)>(pointer_of(entry_of(module, "get")))(object);
    } catch (int) {
        printf("the exception has come through compiled code\n");
    }
    return 0;
}
