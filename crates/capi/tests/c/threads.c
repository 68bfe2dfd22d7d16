/* Live code that threads execute while it is patched; worlds that are stopped by signal and by callbacks.
 * The argument is the object file of examples/objects/inline_cache.ll. */
#include "check.h"

#include <pthread.h>

typedef uint64_t (*get_function)(const uint64_t *object);

static pp_engine *engine;
static get_function get;
static volatile int stop, started;
static int stops, finalized;

static void miss(pp_frame *frame, void *data) {
    (void)data;
    OK(pp_frame_set_result(frame, 1));
}

static void *reader(void *wrong) {
    uint64_t object[4] = {0, 0x17, 0, 5};
    pp_thread *thread;
    uint64_t calls = 0;
    OK(pp_thread_attach(engine, &thread));
    __sync_fetch_and_add(&started, 1);
    while (!stop || calls < 1000) {
        uint64_t result = get(object);
        if (result != 1 && result != 5 && result != 0)
            __sync_fetch_and_add((int *)wrong, 1);
        OK(pp_thread_checkpoint(thread));
        if (++calls % 64 == 0)
            OK(pp_thread_quiescent(thread));
        if (calls % 1024 == 0) {
            OK(pp_thread_offline(thread, PP_QUIESCENCE_QUIESCENT));
            REFUSED(PP_KIND_MISUSE, pp_thread_checkpoint(thread));
            OK(pp_thread_online(thread));
        }
    }
    OK(pp_thread_free(thread));
    REFUSED(PP_KIND_MISUSE, pp_thread_free(thread));
    return NULL;
}

static void *other_thread(void *thread) {
    REFUSED(PP_KIND_MISUSE, pp_thread_checkpoint((pp_thread *)thread));
    REFUSED(PP_KIND_MISUSE, pp_thread_free((pp_thread *)thread));
    return NULL;
}

static bool while_stopped(pp_work work, void *argument, void *data) {
    CHECK(data == &stops);
    if (stops++ == 0)
        return false;
    work(argument);
    return true;
}

static void finalize(void *data) {
    (void)data;
    finalized++;
}

static void live(const char *path) {
    pp_engine_builder *builder;
    pp_module *module;
    pp_sequence *hit, *sequence;
    pp_settled settled;
    pthread_t threads[2];
    size_t count, reclaimed = 0;
    uint64_t moved = 0;
    int wrong = 0, i;
    pp_thread *own;
    OK(pp_engine_builder_new(&builder));
    OK(pp_engine_builder_world_never_stopped(builder));
    OK(pp_engine_builder_on_miss(builder, miss, NULL, NULL));
    OK(pp_engine_build(builder, &engine));
    OK(pp_engine_builder_free(builder));
    module = load_module(engine, path, 1);
    OK(pp_sequence_from_text(PP_STR("guard u64[arg(0)+8] == 0x17 else miss; result = u64[arg(0)+24]"), &hit));
    OK(pp_sequence_from_text(PP_STR("goto miss"), &sequence));
    OK(pp_engine_patch(engine, 78, sequence, NULL));
    OK(pp_module_release(module));
    get = (get_function)pointer_of(entry_of(module, "get"));
    stop = started = 0;
    for (i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, reader, &wrong) == 0);
    while (started < 2)
        ;
    OK(pp_thread_attach(engine, &own));
    REFUSED(PP_KIND_MISUSE, pp_thread_offline(own, 7));
    {
        pthread_t other;
        CHECK(pthread_create(&other, NULL, other_thread, own) == 0 && pthread_join(other, NULL) == 0);
    }
    OK(pp_thread_free(own));
    for (i = 0; i < 400 || ((reclaimed == 0 || moved == 0) && i < 1000000); i++) {
        OK(pp_engine_patch(engine, 78, i % 2 ? hit : sequence, NULL));
        if (i % 10 == 0) {
            SIZED(settled);
            OK(pp_engine_settle(engine, &settled));
            moved += settled.settled + settled.waiting;
            OK(pp_engine_reclaim_passed(engine, &count));
            reclaimed += count;
        }
    }
    stop = 1;
    for (i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(wrong == 0 && reclaimed > 0 && moved > 0);
    OK(pp_sequence_free(hit));
    OK(pp_sequence_free(sequence));
    OK(pp_engine_unregister(engine, module));
    OK(pp_module_free(module));
    OK(pp_engine_free(engine));
}

static void by_signal(const char *path) {
    pp_engine_builder *builder;
    pp_module *module;
    pp_sequence *hit;
    pthread_t threads[2];
    pp_transaction *changes;
    size_t count;
    int wrong = 0, i;
    OK(pp_engine_builder_new(&builder));
    REFUSED(PP_KIND_REFUSED, pp_engine_builder_world_signal(builder, 9, 1000, 1000));
    OK(pp_engine_builder_world_signal(builder, 0, 5000, 5000));
    OK(pp_engine_builder_on_miss(builder, miss, NULL, NULL));
    OK(pp_engine_build(builder, &engine));
    OK(pp_engine_builder_free(builder));
    module = load_module(engine, path, 0);
    OK(pp_sequence_from_text(PP_STR("guard u64[arg(0)+8] == 0x17 else miss; result = u64[arg(0)+24]"), &hit));
    OK(pp_module_release(module));
    get = (get_function)pointer_of(entry_of(module, "get"));
    OK(pp_engine_patch(engine, 78, hit, NULL));
    stop = started = 0;
    for (i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, reader, &wrong) == 0);
    while (started < 2)
        ;
    for (i = 0; i < 20; i++) {
        pp_sequence *five;
        OK(pp_transaction_new(engine, &changes));
        OK(pp_sequence_from_text(i % 2 ? PP_STR("result = 1") : PP_STR("result = 5"), &five));
        OK(pp_transaction_patch(changes, 78, five));
        OK(pp_transaction_quiescent(changes));
        OK(pp_transaction_commit(changes, NULL));
        OK(pp_transaction_free(changes));
        OK(pp_sequence_free(five));
    }
    OK(pp_engine_reclaim_by_signal(engine, &count));
    stop = 1;
    for (i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(wrong == 0);
    OK(pp_sequence_free(hit));
    OK(pp_engine_unregister(engine, module));
    OK(pp_module_free(module));
    OK(pp_engine_free(engine));
}

static void by_callbacks(const char *path) {
    pp_engine_builder *builder;
    pp_module *module;
    pp_sequence *one;
    pp_world world;
    uint64_t object[4] = {0, 0, 0, 0};
    OK(pp_engine_builder_new(&builder));
    SIZED(world);
    world.while_stopped = while_stopped;
    world.data = &stops;
    world.finalizer = finalize;
    world.resumption = 7;
    REFUSED(PP_KIND_MISUSE, pp_engine_builder_world_callbacks(builder, &world));
    world.resumption = PP_RESUMPTION_ALONE;
    OK(pp_engine_builder_world_callbacks(builder, &world));
    OK(pp_engine_builder_on_miss(builder, miss, NULL, NULL));
    OK(pp_engine_build(builder, &engine));
    OK(pp_engine_builder_free(builder));
    module = load_module(engine, path, 0);
    OK(pp_sequence_from_text(PP_STR("result = 42"), &one));
    /* The world cannot be stopped the first time. */
    REFUSED(PP_KIND_BUSY, pp_engine_patch(engine, 78, one, NULL));
    OK(pp_engine_patch(engine, 78, one, NULL));
    OK(pp_sequence_free(one));
    OK(pp_module_release(module));
    CHECK(((get_function)pointer_of(entry_of(module, "get")))(object) == 42 && stops == 2);
    OK(pp_engine_unregister(engine, module));
    OK(pp_module_free(module));
    CHECK(finalized == 0);
    OK(pp_engine_free(engine));
    CHECK(finalized == 1);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    live(argv[1]);
    by_signal(argv[1]);
    by_callbacks(argv[1]);
    printf("threads: live, by signal, by callbacks\n");
    return 0;
}
