/* An inline cache that learns, and code that is discarded in the middle of its loop: what a runtime in C
 * does with patchpoint. The argument is the object file of examples/objects/inline_cache.ll. */
#include "check.h"

typedef uint64_t (*get_function)(const uint64_t *object);
typedef uint64_t (*sum_function)(const uint64_t *const *objects, uint64_t count);

typedef struct {
    int lookups, deopts, finalized, decisions;
    pp_engine *engine;
    pp_module *module;
    uint64_t breaks_assumption;
} runtime;

/* An object is { ?, shape, ?, value }. */
static void lookup(pp_frame *frame, void *data) {
    runtime *self = (runtime *)data;
    uint64_t argument;
    pp_entry *entry;
    const uint64_t *object;
    self->lookups++;
    OK(pp_frame_arg_u64(frame, 0, &argument));
    object = (const uint64_t *)(size_t)argument;
    OK(pp_frame_set_result(frame, object[3]));
    OK(pp_entry_load(pp_pointer_to(pp_arg(0)), PP_U64, 24, &entry));
    OK(pp_entry_guard_field(entry, pp_pointer_to(pp_arg(0)), PP_U64, 8, object[1]));
    OK(pp_entry_depends_on(entry, object[1]));
    OK(pp_frame_learn(frame, entry));
    OK(pp_entry_free(entry));
    if (object[1] == self->breaks_assumption) {
        pp_function *function;
        pp_receipt receipt;
        SIZED(receipt);
        OK(pp_module_function(self->module, PP_STR("sum_fields"), &function));
        OK(pp_engine_invalidate(self->engine, function, &receipt));
        CHECK(receipt.sites == 2);
        OK(pp_function_free(function));
    }
}

/* Goes on with the loop at the stackmap where its code was left: objects, count, index, sum, slot, half. */
static void deopt(pp_frame *frame, void *data) {
    runtime *self = (runtime *)data;
    uint64_t objects, count, index, sum, slot, total, half_bits;
    double half;
    pp_frame_info info;
    pp_location location;
    pp_value value;
    pp_site *site;
    void *description;
    self->deopts++;
    SIZED(info);
    OK(pp_frame_get_info(frame, &info));
    CHECK(info.role == PP_ROLE_DEOPT && info.id == 90 && info.live == 8 && info.locations == 8);
    OK(pp_frame_site(frame, &site));
    OK(pp_frame_description(frame, &description));
    CHECK(description == (void *)self);
    OK(pp_site_free(site));
    OK(pp_frame_live_u64(frame, 0, &objects));
    OK(pp_frame_live_u64(frame, 1, &count));
    OK(pp_frame_live_u64(frame, 2, &index));
    OK(pp_frame_live_u64(frame, 3, &sum));
    OK(pp_frame_live_u64(frame, 4, &slot));
    OK(pp_frame_live_value(frame, 5, &value));
    CHECK(value.len >= 8);
    memcpy(&half_bits, value.bytes, 8);
    memcpy(&half, &half_bits, 8);
    OK(pp_frame_value(frame, 7, &value));
    SIZED(location);
    OK(pp_frame_location(frame, 7, &location));
    CHECK(location.kind == PP_LOCATION_CONSTANT && location.offset == -7);
    REFUSED(PP_KIND_MISUSE, pp_frame_location(frame, 8, &location));
    REFUSED(PP_KIND_NOT_FOUND, pp_frame_live_u64(frame, 8, &total));
    CHECK(half == 0.5 * (double)(index + 1));
    CHECK(*(uint64_t *)(size_t)slot == index + 1);
    for (total = sum, index++; index < count; index++)
        total += ((const uint64_t *const *)(size_t)objects)[index][3];
    OK(pp_frame_return(frame, PP_RETURN_INT, total + count + count / 2, 0));
}

/* Learns an entry of each kind; what it answers itself shows that it was asked. */
enum { CONSTANT, THROUGH, STORE, CALL, KINDS };
static uint64_t words[4] = {0, 0x55, 0, 33};

static void lookup_kinds(pp_frame *frame, void *data) {
    pp_pointer receiver = pp_pointer_to(pp_arg(0));
    uint64_t argument;
    pp_entry *entry = NULL;
    OK(pp_frame_arg_u64(frame, 0, &argument));
    OK(pp_frame_set_result(frame, 1000));
    switch (*(int *)data) {
    case CONSTANT:
        OK(pp_entry_constant(44, &entry));
        OK(pp_entry_guard_equal(entry, pp_value_of(pp_arg(0)), argument));
        break;
    case THROUGH:
        OK(pp_entry_load_through(receiver, 16, PP_U64, 24, &entry));
        OK(pp_entry_guard_through(entry, receiver, 16, PP_U64, 8, 0x55));
        OK(pp_entry_guard_masked(entry, pp_arg(0), 7, argument & 7));
        break;
    case STORE:
        OK(pp_entry_store(receiver, PP_U64, 24, pp_value_of(pp_imm(66)), &entry));
        OK(pp_entry_guard_high_bits(entry, pp_arg(0), 40, argument >> 40));
        break;
    case CALL:
        /* What follows the C convention cannot be called at a site with anyregcc: the site refuses it. */
        OK(pp_entry_call(argument, PP_ON_RETURN_FOLLOWS_C, &entry));
        break;
    }
    OK(pp_frame_learn(frame, entry));
    OK(pp_entry_free(entry));
}

static void kinds(const char *path) {
    int kind = 0;
    uint64_t object[4] = {0, 0x17, 0, 5};
    pp_caches_builder *caches_builder;
    pp_caches *caches;
    pp_engine_builder *builder;
    pp_engine *engine;
    pp_module *module;
    pp_cache *cache;
    pp_site *site;
    pp_error *refusal;
    get_function get;
    size_t count;
    object[2] = (uint64_t)(size_t)words;
    OK(pp_caches_builder_new(&caches_builder));
    OK(pp_caches_build(caches_builder, lookup_kinds, &kind, NULL, &caches));
    OK(pp_caches_builder_free(caches_builder));
    OK(pp_engine_builder_new(&builder));
    OK(pp_engine_builder_world_single_threaded(builder));
    OK(pp_engine_builder_caches(builder, caches));
    OK(pp_engine_build(builder, &engine));
    OK(pp_engine_builder_free(builder));
    module = load_module(engine, path, 0);
    OK(pp_caches_attach_all(caches, engine, 78, &count));
    OK(pp_module_release(module));
    get = (get_function)pointer_of(entry_of(module, "get"));
    for (; kind < KINDS; kind++) {
        OK(pp_caches_reset(caches, &count));
        CHECK(get(object) == 1000);
        if (kind == CONSTANT)
            CHECK(get(object) == 44);
        if (kind == THROUGH)
            CHECK(get(object) == 33);
        if (kind == STORE)
            CHECK(get(object) != 1000 && object[3] == 66);
        if (kind == CALL)
            CHECK(get(object) == 1000);
    }
    {
        pp_sites *sites;
        OK(pp_engine_sites(engine, 78, &sites));
        OK(pp_sites_at(sites, 0, &site));
        OK(pp_sites_free(sites));
    }
    OK(pp_caches_at(caches, site, &cache));
    refusal = pp_cache_last_refusal(cache);
    CHECK(pp_error_kind(refusal) == PP_KIND_REFUSED);
    pp_error_free(refusal);
    OK(pp_cache_free(cache));
    OK(pp_site_free(site));
    OK(pp_engine_unregister(engine, module));
    OK(pp_module_free(module));
    OK(pp_caches_free(caches));
    OK(pp_engine_free(engine));
}

static void finalize(void *data) { ((runtime *)data)->finalized++; }

static void no_finalizer_needed(void *data) { (void)data; }

static uint32_t install_up_to_two(const pp_history *history, void *data) {
    ((runtime *)data)->decisions++;
    return history->entries < 2 ? PP_DECISION_INSTALL : PP_DECISION_GO_MEGAMORPHIC;
}

int main(int argc, char **argv) {
    runtime self;
    pp_caches_builder *caches_builder;
    pp_caches *caches, *more;
    pp_engine_builder *builder;
    pp_engine *engine;
    pp_module *module;
    pp_sites *sites;
    pp_site *site, *same;
    pp_cache *cache;
    pp_cache_stats stats;
    pp_site_info info;
    pp_sequence *generic;
    pp_text *text;
    pp_str says;
    size_t count;
    bool is_same;
    void *described;
    get_function get;
    sum_function sum;
    uint64_t keys[1] = {0x17};
    uint64_t a[4] = {0, 0x17, 0, 5}, b[4] = {0, 0x18, 0, 7}, c[4] = {0, 0x19, 0, 11};
    const uint64_t *all[6];
    CHECK(argc == 2);
    memset(&self, 0, sizeof self);

    OK(pp_version_check(PP_VERSION));
    REFUSED(PP_KIND_MISUSE, pp_version_check(PP_VERSION + 0x10000));
    CHECK(pp_version() == PP_VERSION && pp_version_text().len >= 5);

    OK(pp_caches_builder_new(&caches_builder));
    OK(pp_caches_builder_counting(caches_builder, PP_COUNTING_ATOMIC));
    REFUSED(PP_KIND_MISUSE, pp_caches_builder_counting(caches_builder, 9));
    OK(pp_caches_builder_order(caches_builder, PP_ORDER_MOST_FREQUENT));
    OK(pp_caches_builder_chain(caches_builder, 4, 1, 1024));
    OK(pp_caches_builder_policy(caches_builder, install_up_to_two, &self, finalize));
    OK(pp_caches_builder_whole_frames(caches_builder));
    OK(pp_sequence_from_text(PP_STR("result = u64[arg(0)+24]"), &generic));
    OK(pp_caches_builder_megamorphic(caches_builder, generic));
    OK(pp_sequence_free(generic));
    OK(pp_caches_build(caches_builder, lookup, &self, finalize, &caches));
    REFUSED(PP_KIND_MISUSE, pp_caches_build(caches_builder, lookup, &self, finalize, &more));
    CHECK(more == NULL && self.finalized == 0);
    OK(pp_caches_builder_free(caches_builder));
    OK(pp_caches_free(caches));
    CHECK(self.finalized == 2);

    /* Others, which have no generic path. */
    self.finalized = 0;
    OK(pp_caches_builder_new(&caches_builder));
    OK(pp_caches_builder_policy(caches_builder, install_up_to_two, &self, finalize));
    OK(pp_caches_builder_counting(caches_builder, PP_COUNTING_ATOMIC));
    OK(pp_caches_builder_whole_frames(caches_builder));
    OK(pp_caches_build(caches_builder, lookup, &self, finalize, &caches));
    OK(pp_caches_builder_free(caches_builder));

    OK(pp_engine_builder_new(&builder));
    OK(pp_engine_builder_world_single_threaded(builder));
    OK(pp_engine_builder_caches(builder, caches));
    OK(pp_engine_builder_on_deopt(builder, deopt, &self, finalize));
    OK(pp_engine_build(builder, &engine));
    OK(pp_engine_builder_free(builder));
    module = load_module(engine, argv[1], 0);
    self.engine = engine;
    self.module = module;

    OK(pp_engine_sites(engine, 78, &sites));
    OK(pp_sites_count(sites, &count));
    CHECK(count == 2);
    OK(pp_sites_at(sites, 0, &site));
    REFUSED(PP_KIND_MISUSE, pp_sites_at(sites, 2, &same));
    CHECK(same == NULL);
    OK(pp_sites_free(sites));
    REFUSED(PP_KIND_MISUSE, pp_sites_count(sites, &count));
    OK(pp_caches_attach(caches, engine, site, &cache));
    OK(pp_caches_attach_all(caches, engine, 78, &count));
    CHECK(count == 2);
    OK(pp_module_sites_with_id(module, 90, &sites));
    OK(pp_sites_at(sites, 0, &same));
    OK(pp_sites_free(sites));
    OK(pp_site_describe(same, &self, no_finalizer_needed));
    REFUSED(PP_KIND_MISUSE, pp_site_describe(same, &self, no_finalizer_needed));
    OK(pp_site_description(same, &described));
    CHECK(described == (void *)&self);
    OK(pp_site_is_same(site, same, &is_same));
    CHECK(!is_same);
    OK(pp_site_free(same));
    OK(pp_module_release(module));
    get = (get_function)pointer_of(entry_of(module, "get"));
    sum = (sum_function)pointer_of(entry_of(module, "sum_fields"));

    /* Uninitialized, monomorphic, polymorphic; hits go to the lookup no more. */
    CHECK(get(a) == 5 && self.lookups == 1);
    CHECK(get(a) == 5 && self.lookups == 1);
    CHECK(get(b) == 7 && self.lookups == 2);
    CHECK(get(b) == 7 && get(a) == 5 && self.lookups == 2);
    SIZED(stats);
    OK(pp_cache_get_stats(caches, cache, &stats));
    CHECK(stats.state == PP_CACHE_POLYMORPHIC && stats.entries == 2 && stats.hits == 3 && stats.misses == 2);
    SIZED(info);
    OK(pp_site_get_info(site, &info));
    CHECK(info.id == 78 && info.reserved == 32 && info.kind == PP_SITE_PATCHPOINT && info.args == 1 &&
          info.has_result == 1 && info.convention == PP_CONVENTION_ANY_REG && info.status == PP_STATUS_PATCHED);

    /* A class changes: what depended on it is taken back, and learnt again. */
    OK(pp_caches_retract(caches, keys, 1, &count));
    CHECK(count == 1);
    a[3] = 6;
    CHECK(get(a) == 6 && self.lookups == 3);
    CHECK(get(c) == 11 && self.lookups == 4);
    OK(pp_cache_get_stats(caches, cache, &stats));
    CHECK(stats.state == PP_CACHE_MEGAMORPHIC && self.decisions > 0);
    OK(pp_cache_reset(caches, cache));
    OK(pp_cache_get_stats(caches, cache, &stats));
    CHECK(stats.state == PP_CACHE_UNINITIALIZED);
    OK(pp_caches_reset(caches, &count));
    OK(pp_cache_last_refusal(cache));

    /* In the middle of the loop an assumption breaks: the loop goes on in the handler. */
    all[0] = a, all[1] = a, all[2] = b, all[3] = a, all[4] = b, all[5] = b;
    CHECK(sum(all, 6) == 3 * 6 + 3 * 7 + 6 + 3 && self.deopts == 0);
    OK(pp_caches_reset(caches, &count));
    self.breaks_assumption = 0x18;
    CHECK(sum(all, 6) == 3 * 6 + 3 * 7 + 6 + 3 && self.deopts == 1);
    OK(pp_cache_free(cache));
    OK(pp_caches_at(caches, site, &cache));
    CHECK(cache != NULL);
    OK(pp_caches_stats(caches, &stats));
    CHECK(stats.caches == 2 && stats.misses > 4);
    OK(pp_engine_journal_text(engine, &text));
    OK(pp_text_get(text, &says));
    CHECK(strstr(says.data, "invalidated") != NULL && says.data[says.len] == 0);
    OK(pp_text_free(text));
    OK(pp_cache_free(cache));

    /* Everything is freed, and what was given is finalized. */
    OK(pp_site_free(site));
    OK(pp_engine_unregister(engine, module));
    OK(pp_module_free(module));
    OK(pp_caches_free(caches));
    CHECK(self.finalized == 0);
    OK(pp_engine_free(engine));
    REFUSED(PP_KIND_MISUSE, pp_engine_free(engine));
    CHECK(self.finalized == 3);
    kinds(argv[1]);
    printf("cache: %d lookups, %d deoptimization, %d finalized\n", self.lookups, self.deopts, self.finalized);
    return 0;
}
