/* Frames in handlers: what is read and written, each answer, and what is refused. The argument is the
 * object file of examples/objects/inline_cache.ll. */
#include "check.h"

#include <pthread.h>

typedef uint64_t (*get_function)(const uint64_t *object);

enum { RESUME, WRITE, RETURN, RETURN_VECTOR, CONTINUE, CONTINUE_STACK, REPLACE_CALL, REPLACE, FLOAT, NOTHING };

static int mode, finalized;
static pp_frame *kept;
static uint64_t go_on_at;

static void finalize(void *data) {
    CHECK(data == &mode);
    finalized++;
}

static void *on_another_thread(void *frame) {
    REFUSED(PP_KIND_MISUSE, pp_frame_set_result((pp_frame *)frame, 1));
    return NULL;
}

/* What the code goes on with in REPLACE_CALL. */
static uint64_t in_its_place(uint64_t one, uint64_t two) { return one * 100 + two; }

static void miss(pp_frame *frame, void *data) {
    pp_frame_info info;
    pp_location location;
    pp_value value, register_value;
    pp_argument arguments[2];
    pp_engine *engine;
    uint64_t argument, stack_pointer, next;
    pthread_t other;
    CHECK(data == &mode);
    kept = frame;
    SIZED(info);
    SIZED(location);
    OK(pp_frame_get_info(frame, &info));
    CHECK(info.role == PP_ROLE_MISS && info.id == 78 && info.args == 1 && info.pc != 0 && info.stack_pointer != 0);
    OK(pp_frame_arg(frame, 0, &value));
    OK(pp_frame_arg_u64(frame, 0, &argument));
    CHECK(value.len == 8 && memcmp(value.bytes, &argument, 8) == 0);
    OK(pp_frame_value(frame, 1, &register_value));
    CHECK(memcmp(value.bytes, register_value.bytes, 8) == 0);
    OK(pp_frame_location(frame, 1, &location));
    CHECK(location.kind == PP_LOCATION_REGISTER && location.value_size == 8);
    OK(pp_frame_register(frame, location.reg, &register_value));
    CHECK(memcmp(value.bytes, register_value.bytes, 8) == 0);
    OK(pp_frame_set_register(frame, location.reg, &value));
    OK(pp_frame_set_flags(frame, info.flags));
    REFUSED(PP_KIND_NOT_FOUND, pp_frame_arg(frame, 1, &value));
    REFUSED(PP_KIND_NOT_FOUND, pp_frame_float_arg(frame, 0, &value));
    REFUSED(PP_KIND_MISUSE, pp_frame_register(frame, 70000, &value));
    REFUSED(PP_KIND_MISUSE, pp_frame_replace(frame));
    CHECK(pthread_create(&other, NULL, on_another_thread, frame) == 0 && pthread_join(other, NULL) == 0);
    OK(pp_frame_engine(frame, &engine));
    OK(pp_engine_free(engine));
    value.len = 65;
    REFUSED(PP_KIND_MISUSE, pp_frame_set_value(frame, 0, &value));
    memset(&value, 0, sizeof value);
    value.len = 8;
    switch (mode) {
    case RESUME:
        OK(pp_frame_set_result(frame, argument + 1));
        OK(pp_frame_resume(frame));
        break;
    case NOTHING:
        OK(pp_frame_set_result(frame, argument + 2));
        break;
    case WRITE:
        value.bytes[0] = 77;
        OK(pp_frame_set_value(frame, 0, &value));
        break;
    case RETURN:
        REFUSED(PP_KIND_MISUSE, pp_frame_return(frame, 99, 0, 0));
        OK(pp_frame_return(frame, PP_RETURN_INT, 5, 0));
        break;
    case RETURN_VECTOR:
        /* A function that returns an integer: its result register stays as it is. */
        value.len = 16;
        OK(pp_frame_set_result(frame, 6));
        OK(pp_frame_return_vector(frame, &value));
        OK(pp_frame_return(frame, PP_RETURN_PAIR, 6, 7));
        break;
    case FLOAT:
        OK(pp_frame_set_float_result(frame, 2.5));
        break;
    case CONTINUE:
        OK(pp_frame_set_result(frame, 8));
        OK(pp_frame_continue_at(frame, go_on_at));
        break;
    case CONTINUE_STACK:
        OK(pp_frame_set_result(frame, 9));
        REFUSED(PP_KIND_REFUSED, pp_frame_continue_with_stack(frame, go_on_at, info.stack_pointer - 64));
        OK(pp_frame_continue_with_stack(frame, go_on_at, info.stack_pointer));
        break;
    case REPLACE_CALL:
        OK(pp_frame_replace_begin(frame));
        arguments[0].kind = PP_ARGUMENT_INT, arguments[0].value = 3;
        arguments[1].kind = PP_ARGUMENT_INT, arguments[1].value = 4;
        OK(pp_frame_replace_call(frame, address_of((void (*)(void))in_its_place), arguments, 2));
        break;
    case REPLACE:
        /* A frame of one word, which is its return address: its code goes on at a `ret`. */
        OK(pp_frame_replace_begin(frame));
        OK(pp_frame_replace_push(frame, go_on_at, 8, NULL, 0, NULL, 0));
        OK(pp_frame_replace_state(frame, &stack_pointer, &next));
        CHECK(next == go_on_at && stack_pointer >= info.stack_pointer - 8);
        {
            pp_register_value result;
            pp_frame_slot slot;
            result.reg = 0, result.value = 12;
            OK(pp_frame_replace_begin(frame));
            slot.offset = 0, slot.what = 2, slot.reg = 0, slot.value = 0;
            OK(pp_frame_replace_push(frame, go_on_at, 8, &slot, 1, &result, 1));
        }
        OK(pp_frame_replace(frame));
        break;
    }
}

static void deopt(pp_frame *frame, void *data) {
    (void)data;
    OK(pp_frame_resume(frame));
}

int main(int argc, char **argv) {
    pp_engine_builder *builder;
    pp_engine *engine, *none;
    pp_module *module;
    pp_sequence *sequence;
    pp_function *function;
    pp_sites *sites;
    pp_site *site;
    pp_location location;
    uint64_t address, len, object[4] = {0, 0, 0, 0}, at = (uint64_t)(size_t)object;
    uint8_t bytes[64];
    get_function get;
    size_t i, count;
    CHECK(argc == 2);
    OK(pp_engine_builder_new(&builder));
    OK(pp_engine_builder_world_single_threaded(builder));
    OK(pp_engine_builder_on_live_register_miss(builder, miss, &mode, finalize));
    OK(pp_engine_builder_on_miss(builder, miss, &mode, finalize));
    CHECK(finalized == 1);
    OK(pp_engine_builder_on_deopt(builder, deopt, NULL, NULL));
    OK(pp_engine_build(builder, &engine));
    /* Nothing is said of it any more: it has no world. */
    REFUSED(PP_KIND_REFUSED, pp_engine_build(builder, &none));
    CHECK(none == NULL);
    OK(pp_engine_builder_free(builder));
    module = load_module(engine, argv[1], 0);
    OK(pp_sequence_new(&sequence));
    OK(pp_sequence_jump(sequence, pp_miss()));
    OK(pp_module_patch(module, 78, sequence, NULL));
    OK(pp_sequence_free(sequence));
    OK(pp_module_release(module));

    OK(pp_module_function(module, PP_STR("get"), &function));
    OK(pp_function_range(function, &address, &len));
    OK(pp_function_sites(function, &sites));
    OK(pp_sites_at(sites, 0, &site));
    OK(pp_sites_free(sites));
    SIZED(location);
    OK(pp_site_location(site, 1, &location));
    CHECK(location.kind == PP_LOCATION_REGISTER);
    OK(pp_site_read(site, bytes, sizeof bytes, &count));
    CHECK(count == 32);
    OK(pp_site_free(site));
    OK(pp_function_free(function));
    get = (get_function)pointer_of(entry_of(module, "get"));

    mode = RESUME;
    CHECK(get(object) == at + 1);
    /* The frame is gone with its handler. */
    REFUSED(PP_KIND_MISUSE, pp_frame_set_result(kept, 1));
    mode = NOTHING;
    CHECK(get(object) == at + 2);
    mode = WRITE;
    CHECK(get(object) == 77);
    mode = RETURN;
    CHECK(get(object) == 5);
    mode = RETURN_VECTOR;
    CHECK(get(object) == 6);
    mode = FLOAT;
    {
        double expected = 2.5;
        uint64_t bits;
        memcpy(&bits, &expected, 8);
        CHECK(get(object) == bits);
    }
    mode = REPLACE_CALL;
    CHECK(get(object) == 304);
    /* The last byte of the function is its `ret`. */
    for (i = 0; i < len; i++)
        if (((const uint8_t *)(size_t)address)[i] == 0xc3)
            go_on_at = address + i;
    CHECK(go_on_at != 0);
    mode = REPLACE;
    CHECK(get(object) == 12);
    go_on_at = 0;
    {
        pp_site_info info;
        SIZED(info);
        OK(pp_engine_site_at(engine, address + 8, &site));
        if (site == NULL)
            OK(pp_engine_site_at(engine, address, &site));
        CHECK(site != NULL);
        OK(pp_site_get_info(site, &info));
        go_on_at = info.address + info.reserved;
        OK(pp_site_free(site));
    }
    mode = CONTINUE;
    CHECK(get(object) == 8);
    mode = CONTINUE_STACK;
    CHECK(get(object) == 9);

    OK(pp_engine_unregister(engine, module));
    OK(pp_module_free(module));
    OK(pp_engine_free(engine));
    CHECK(finalized == 2);
    printf("frames: every answer\n");
    return 0;
}
