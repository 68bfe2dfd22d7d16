/* Code that a JIT of one's own has placed: told sites, entries, sequences by the builder, transactions,
 * observers. x86-64. The argument is the object file of examples/objects/inline_cache.ll. */
#include "check.h"

typedef uint64_t (*unary)(uint64_t);

/* twice: lea rax, [rdi + rdi]; five bytes of nops; ret */
static const uint8_t TWICE[] = {0x48, 0x8d, 0x04, 0x3f, 0x0f, 0x1f, 0x44, 0x00, 0x00, 0xc3};
/* seven, at 64: sixteen bytes of nops, for an entry; mov eax, 7; ret */
static const uint8_t SEVEN[] = {0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90,
                                0x90, 0x90, 0x90, 0x90, 0x90, 0xb8, 7,    0,    0,    0,    0xc3};

/* many: that many times sixteen bytes of nops; ret */
enum { MANY = 4200, MANY_SITE = 16 };

static int events[9], finalized, sections;
static size_t last_prepared, last_of;

static void observe(const pp_event *event, void *data) {
    CHECK(data == events && event->size == sizeof *event && event->kind < 9);
    events[event->kind]++;
    if (event->kind == PP_EVENT_PREPARING) {
        CHECK(event->prepared > last_prepared && event->prepared <= event->of && event->address == 0);
        last_prepared = event->prepared, last_of = event->of;
    } else {
        CHECK(event->prepared == 0 && event->of == 0);
    }
}

static void finalize(void *data) {
    CHECK(data == events);
    finalized++;
}

static uint64_t eight(uint64_t ignored) {
    (void)ignored;
    return 8;
}

static bool find_section(size_t index, pp_str name, uint64_t *address, void *data) {
    (void)index;
    CHECK(data == &sections);
    sections++;
    if (is_text(name, ".text"))
        *address = 0x7f0000000000;
    else if (is_text(name, ".eh_frame"))
        *address = 0x7f0000001000;
    else
        return false;
    return true;
}

static bool choose(const pp_record *record, pp_shape *shape, void *data) {
    CHECK(record->size == sizeof *record && record->function.len > 0 && record->bytes.len > 0);
    (*(int *)data)++;
    *shape = property_shape();
    return record->id == 78;
}

static bool no_symbol(pp_str name, uint64_t *address, void *data) {
    (void)name, (void)address, (void)data;
    return false;
}

static bool every_call(pp_str name, uint64_t *id, void *data) {
    (void)data;
    *id = name.len;
    return true;
}

static pp_code *adopt_placed(pp_engine *engine, pp_placed *placed, uint64_t at) {
    pp_adoption *adoption;
    pp_code *code;
    size_t count;
    OK(pp_adoption_new(pp_bytes_of(NULL, 0), &adoption));
    OK(pp_adoption_function(adoption, PP_STR("twice"), at, sizeof TWICE));
    OK(pp_adoption_function(adoption, PP_STR("seven"), at + 64, sizeof SEVEN));
    OK(pp_adoption_called_at(adoption, at + 64));
    OK(pp_adoption_code_table(adoption, PP_STR("a_table"), at, pp_bytes_of(NULL, 0)));
    OK(pp_adoption_not_yet_run(adoption));
    OK(pp_adoption_function_count(adoption, &count));
    CHECK(count == 2);
    OK(pp_adopt_placed(engine, adoption, placed, &code));
    REFUSED(PP_KIND_MISUSE, pp_adoption_function_count(adoption, &count));
    OK(pp_adoption_free(adoption));
    return code;
}

static pp_module *register_told(pp_engine *engine, pp_code *code) {
    pp_registration *registration;
    pp_module *module, *again;
    pp_told_site site;
    pp_entry_site entry;
    uint32_t argument = 5; /* rdi */
    SIZED(site);
    site.function = PP_STR("twice");
    site.offset = 4;
    site.reserved = 5;
    site.content = PP_CONTENT_NOPS;
    site.id = 78;
    site.has_id = 1;
    site.args = &argument;
    site.args_len = 1;
    site.has_result = 1;
    site.result = 0; /* rax */
    site.free_flags = 1;
    SIZED(entry);
    entry.function = PP_STR("seven");
    entry.id = 90;
    entry.reserved = 16;
    entry.args = 1;
    entry.has_result = 1;
    OK(pp_registration_new(engine, code, &registration));
    site.content = 4;
    REFUSED(PP_KIND_MISUSE, pp_registration_site(registration, &site));
    site.content = PP_CONTENT_NOPS;
    OK(pp_registration_site(registration, &site));
    OK(pp_registration_entry(registration, &entry));
    REFUSED(PP_KIND_MISUSE, pp_registration_unwind_by(registration, 9));
    OK(pp_registration_unwind_by(registration, PP_UNWIND_BY_EH_FRAME));
    OK(pp_registration_trust_live_outs(registration));
    OK(pp_register(registration, NULL, NULL, &module));
    REFUSED(PP_KIND_MISUSE, pp_register(registration, NULL, NULL, &again));
    CHECK(again == NULL);
    OK(pp_registration_free(registration));
    return module;
}

/* Observers are told how far a transaction is that takes long to prepare. */
static void long_transaction(pp_engine *engine, pp_arena *arena) {
    static uint8_t many[MANY * MANY_SITE + 1];
    pp_segment_need need = {PP_SEGMENT_CODE, sizeof many, 64};
    pp_reach reach;
    pp_placement *placement;
    pp_placed *placed;
    pp_segment segment;
    pp_adoption *adoption;
    pp_code *code;
    pp_registration *registration;
    pp_module *module;
    pp_sequence *argument_again;
    pp_receipt receipt;
    pp_told_site site;
    uint32_t argument = 5; /* rdi */
    memset(many, 0x90, sizeof many - 1);
    many[sizeof many - 1] = 0xc3;
    SIZED(reach);
    SIZED(segment);
    SIZED(receipt);
    SIZED(site);
    OK(pp_arena_place(arena, &need, 1, &reach, &placement));
    OK(pp_placement_segment(placement, 0, &segment));
    OK(pp_placement_fill(placement, segment.address, pp_bytes_of(many, sizeof many)));
    OK(pp_placement_finalize(placement, &placed));
    OK(pp_placement_free(placement));
    OK(pp_adoption_new(pp_bytes_of(NULL, 0), &adoption));
    OK(pp_adoption_function(adoption, PP_STR("many"), segment.address, sizeof many));
    OK(pp_adoption_not_yet_run(adoption));
    OK(pp_adopt_placed(engine, adoption, placed, &code));
    OK(pp_adoption_free(adoption));
    OK(pp_registration_new(engine, code, &registration));
    OK(pp_code_free(code));
    site.function = PP_STR("many");
    site.reserved = MANY_SITE;
    site.content = PP_CONTENT_NOPS;
    site.id = 100;
    site.has_id = 1;
    site.args = &argument;
    site.args_len = 1;
    site.has_result = 1;
    site.result = 0; /* rax */
    site.free_flags = 1;
    for (; site.offset < MANY * MANY_SITE; site.offset += MANY_SITE)
        OK(pp_registration_site(registration, &site));
    OK(pp_register(registration, NULL, NULL, &module));
    OK(pp_registration_free(registration));
    CHECK(events[PP_EVENT_PREPARING] == 0);
    OK(pp_sequence_from_text(PP_STR("result = arg(0)"), &argument_again));
    OK(pp_engine_patch(engine, 100, argument_again, &receipt));
    OK(pp_sequence_free(argument_again));
    CHECK(receipt.sites == MANY && events[PP_EVENT_PREPARING] > 0);
    CHECK(last_prepared > 0 && last_prepared < MANY && last_of == MANY);
    OK(pp_engine_unregister(engine, module));
    OK(pp_module_free(module));
    OK(pp_placed_free(placed));
}

/* What the builder makes is what the text says. */
static void sequences(void) {
    pp_sequence *sequence, *copy;
    pp_text *text;
    pp_str says;
    uint32_t rax = 0;
    static const uint8_t nop[] = {0x90};
    OK(pp_sequence_new(&sequence));
    OK(pp_sequence_guard(sequence, PP_COND_EQ, pp_at(PP_U32, pp_arg(0), 8), pp_value_of(pp_imm(0x17)), pp_miss()));
    OK(pp_sequence_jump_if(sequence, PP_COND_BELOW, pp_part(PP_U8, pp_arg(0)), pp_value_of(pp_live(1)), pp_label(1)));
    OK(pp_sequence_move(sequence, pp_temp(), pp_at(PP_I16, pp_reg(5), -8)));
    OK(pp_sequence_store(sequence, pp_at(PP_U64, pp_arg(0), 16), pp_value_of(pp_temp())));
    REFUSED(PP_KIND_MISUSE, pp_sequence_store(sequence, pp_value_of(pp_temp()), pp_value_of(pp_temp())));
    OK(pp_sequence_add(sequence, pp_result(), pp_value_of(pp_arg(1))));
    OK(pp_sequence_and(sequence, pp_temp(), 255));
    OK(pp_sequence_shift(sequence, PP_SHIFT_RIGHT_SIGNED, pp_temp(), 3));
    OK(pp_sequence_add_to_memory(sequence, pp_at(PP_U64, pp_imm(4096), 0), pp_value_of(pp_imm(1)), true));
    OK(pp_sequence_call(sequence, 0x1234, PP_ON_RETURN_FOLLOWS_C));
    OK(pp_sequence_bind(sequence, 1));
    OK(pp_sequence_raw(sequence, pp_bytes_of(nop, 1)));
    OK(pp_sequence_vouched(sequence, pp_bytes_of(nop, 1), &rax, 1));
    OK(pp_sequence_jump(sequence, pp_address(0x5678)));
    OK(pp_sequence_jump(sequence, pp_end()));
    OK(pp_sequence_return(sequence));
    OK(pp_sequence_trap(sequence));
    OK(pp_sequence_in_place_only(sequence));
    OK(pp_sequence_clone(sequence, &copy));
    OK(pp_sequence_free(sequence));
    OK(pp_sequence_text(copy, &text));
    OK(pp_text_get(text, &says));
    printf("%.*s\n", (int)says.len, says.data);
    CHECK(strstr(says.data, "guard u32[arg(0)+8] == 0x17 else miss; if u8(arg(0)) <u live(1) goto label(1)") != NULL);
    OK(pp_sequence_from_text(says, &sequence));
    OK(pp_text_free(text));
    OK(pp_sequence_free(sequence));
    OK(pp_sequence_free(copy));
    REFUSED(PP_KIND_MALFORMED, pp_sequence_from_text(PP_STR("what is this"), &sequence));
}

static pp_sequence *text_of(const char *text) {
    pp_sequence *sequence;
    OK(pp_sequence_from_text(pp_str_of(text, strlen(text)), &sequence));
    return sequence;
}

int main(int argc, char **argv) {
    pp_arena *arena;
    pp_placement *placement;
    pp_placed *placed;
    pp_segment segment;
    pp_segment_need need;
    pp_reach reach;
    pp_engine_builder *builder;
    pp_engine *engine, *clone;
    pp_code *code;
    pp_module *module, *found_module, *loaded;
    pp_function *function;
    pp_site *site;
    pp_sites *sites;
    pp_sequence *sum, *nine;
    pp_transaction *changes;
    pp_prepared *prepared;
    pp_receipt receipt;
    pp_stats stats;
    pp_text *text;
    pp_str says;
    pp_adoption *adoption;
    pp_load_options options;
    pp_object object;
    pp_bytes bytes;
    pp_registration *registration;
    pp_error *error;
    pp_error_place place;
    uint64_t at, address, trimmed, stub, none[2];
    size_t count;
    bool is_live;
    int chosen = 0;
    unary twice, seven;
    CHECK(argc == 2);
    sequences();

    /* Code memory for a JIT of one's own. */
    OK(pp_arena_new(1 << 20, &arena));
    need.kind = PP_SEGMENT_CODE, need.len = 4096, need.align = 64;
    SIZED(reach);
    reach.where_ = 1;
    OK(pp_arena_place(arena, &need, 1, &reach, &placement));
    SIZED(segment);
    OK(pp_placement_segment(placement, 0, &segment));
    CHECK(segment.address < (uint64_t)1 << 31 && segment.len == 4096 && segment.kind == PP_SEGMENT_CODE);
    at = segment.address;
    OK(pp_placement_fill(placement, at, pp_bytes_of(TWICE, sizeof TWICE)));
    OK(pp_placement_fill(placement, at + 64, pp_bytes_of(SEVEN, sizeof SEVEN)));
    REFUSED(PP_KIND_REFUSED, pp_placement_fill(placement, at + 4096, pp_bytes_of(SEVEN, sizeof SEVEN)));
    OK(pp_placement_finalize(placement, &placed));
    REFUSED(PP_KIND_MISUSE, pp_placement_segment(placement, 0, &segment));
    OK(pp_placement_free(placement));
    OK(pp_placed_segment(placed, 0, &segment));
    CHECK(segment.address == at);
    pp_serialize();
    OK(pp_serialize_all());

    OK(pp_engine_builder_new(&builder));
    OK(pp_engine_builder_world_single_threaded(builder));
    OK(pp_engine_builder_observer(builder, observe, events, finalize));
    OK(pp_engine_builder_perf_map(builder, PP_STR("/tmp/patchpoint-capi-test.map")));
    OK(pp_engine_builder_jit_dump(builder, PP_STR("/tmp")));
    OK(pp_engine_builder_gdb(builder));
    OK(pp_engine_builder_unwinder(builder));
    OK(pp_engine_builder_arena(builder, arena));
    OK(pp_engine_builder_journal(builder, 16));
    OK(pp_engine_builder_image_limit(builder, 1 << 20));
    OK(pp_engine_build(builder, &engine));
    OK(pp_engine_builder_free(builder));
    OK(pp_engine_clone(engine, &clone));
    OK(pp_engine_free(clone));

    code = adopt_placed(engine, placed, at);
    module = register_told(engine, code);
    OK(pp_code_free(code));
    CHECK(events[PP_EVENT_REGISTERED] == 1);
    OK(pp_module_function(module, PP_STR("twice"), &function));
    REFUSED(PP_KIND_BUSY, pp_function_entry(function, &address));
    OK(pp_module_release(module));
    twice = (unary)pointer_of(entry_of(module, "twice"));
    seven = (unary)pointer_of(entry_of(module, "seven"));
    CHECK(twice(4) == 8 && seven(0) == 7);

    /* Looking around. */
    OK(pp_function_name(function, &says));
    CHECK(is_text(says, "twice"));
    OK(pp_module_function_count(module, &count));
    CHECK(count == 2);
    OK(pp_function_free(function));
    OK(pp_module_function_at(module, 1, &function));
    OK(pp_function_free(function));
    REFUSED(PP_KIND_MISUSE, pp_module_function_at(module, 2, &function));
    OK(pp_engine_function_at(engine, at + 64, &function));
    CHECK(function != NULL);
    OK(pp_module_sites(module, &sites));
    OK(pp_sites_count(sites, &count));
    CHECK(count == 2);
    OK(pp_sites_free(sites));
    OK(pp_module_is_live(module, &is_live));
    CHECK(!is_live);
    OK(pp_engine_module_at(engine, at, &found_module));
    CHECK(found_module != NULL);
    OK(pp_module_free(found_module));
    OK(pp_engine_module_at(engine, 8, &found_module));
    CHECK(found_module == NULL);
    OK(pp_engine_site_at(engine, at + 4, &site));
    OK(pp_site_module(site, &found_module));
    OK(pp_module_free(found_module));
    {
        pp_function *its;
        pp_site *copy;
        OK(pp_site_function(site, &its));
        OK(pp_function_free(its));
        OK(pp_site_clone(site, &copy));
        OK(pp_site_free(copy));
    }

    /* Patches, one and many. */
    SIZED(receipt);
    sum = text_of("result += arg(0)");
    nine = text_of("result = 9");
    OK(pp_engine_plan(engine, 78, nine, &text));
    OK(pp_text_get(text, &says));
    CHECK(strstr(says.data, "5 bytes reserved") != NULL);
    OK(pp_text_free(text));
    OK(pp_engine_patch(engine, 78, nine, &receipt));
    CHECK(receipt.sites == 1 && receipt.invalidated == 0 && twice(4) == 9);
    OK(pp_engine_restore(engine, 78, &receipt));
    CHECK(twice(4) == 8);
    OK(pp_site_patch(site, nine, NULL));
    CHECK(twice(4) == 9);
    OK(pp_site_restore(site, NULL));
    OK(pp_module_patch(module, 78, nine, NULL));
    OK(pp_module_restore(module, 78, NULL));
    CHECK(twice(4) == 8);
    REFUSED(PP_KIND_NOT_FOUND, pp_engine_patch(engine, 79, nine, NULL));
    (void)sum;
    OK(pp_engine_redirect(engine, function, address_of((void (*)(void))eight), NULL));
    CHECK(seven(0) == 8);
    OK(pp_transaction_new(engine, &changes));
    OK(pp_transaction_patch(changes, 78, nine));
    REFUSED(PP_KIND_REFUSED, pp_transaction_patch_site(changes, site, nine));
    OK(pp_transaction_redirect(changes, function, address_of((void (*)(void))eight)));
    OK(pp_transaction_grace_period(changes));
    OK(pp_transaction_immediate(changes));
    OK(pp_transaction_prepare(changes, &prepared));
    OK(pp_prepared_text(prepared, &text));
    OK(pp_text_free(text));
    CHECK(twice(4) == 8);
    OK(pp_prepared_commit(prepared, &receipt));
    REFUSED(PP_KIND_MISUSE, pp_prepared_commit(prepared, &receipt));
    OK(pp_prepared_free(prepared));
    CHECK(twice(4) == 9);
    OK(pp_transaction_restore_site(changes, site));
    OK(pp_transaction_commit(changes, &receipt));
    CHECK(twice(4) == 8);
    OK(pp_transaction_patch_site(changes, site, nine));
    OK(pp_transaction_quiescent(changes));
    REFUSED(PP_KIND_UNSUPPORTED, pp_transaction_commit(changes, NULL));
    OK(pp_transaction_free(changes));
    OK(pp_transaction_new(engine, &changes));
    REFUSED(PP_KIND_NOT_FOUND, pp_transaction_retarget(changes, PP_STR("nobody"), 8));
    REFUSED(PP_KIND_NOT_FOUND, pp_transaction_restore_calls(changes, PP_STR("nobody")));
    OK(pp_transaction_invalidate_site(changes, site));
    /* This engine has no handler. */
    REFUSED(PP_KIND_NOT_FOUND, pp_transaction_commit(changes, NULL));
    OK(pp_transaction_free(changes));
    OK(pp_transaction_new(engine, &changes));
    REFUSED(PP_KIND_NOT_FOUND, pp_transaction_invalidate(changes, function));
    OK(pp_transaction_free(changes));
    REFUSED(PP_KIND_NOT_FOUND, pp_engine_retarget(engine, PP_STR("nobody"), 8, NULL));
    REFUSED(PP_KIND_NOT_FOUND, pp_engine_restore_calls(engine, PP_STR("nobody"), NULL));
    error = pp_engine_invalidate_site(engine, site, NULL);
    SIZED(place);
    CHECK(pp_error_site(error, &place) && place.id == 78 && place.address == at + 4 &&
          place.kind == PP_SITE_TOLD && is_text(place.function, "twice"));
    pp_error_free(error);
    CHECK(pp_error_kind(error) == PP_KIND_MISUSE && !pp_error_site(error, &place));
    OK(pp_engine_publish_stub(engine, site, sum, &stub));
    CHECK(stub != 0);
    {
        pp_site *of_stub;
        OK(pp_engine_site_of_stub(engine, stub, &of_stub));
        OK(pp_site_free(of_stub));
    }
    OK(pp_module_calls_of(module, PP_STR("nobody"), &sites));
    OK(pp_sites_free(sites));
    SIZED(stats);
    OK(pp_engine_stats(engine, &stats));
    CHECK(stats.modules == 1 && stats.stubs >= 1);
    OK(pp_engine_reclaim(engine, &count));
    OK(pp_engine_reclaim_passed(engine, &count));
    REFUSED(PP_KIND_MISUSE, pp_engine_reclaim_by_signal(engine, &count));
    OK(pp_sequence_free(sum));
    OK(pp_sequence_free(nine));
    OK(pp_site_free(site));
    OK(pp_function_free(function));
    OK(pp_engine_unregister(engine, module));
    OK(pp_module_free(module));
    OK(pp_placed_free(placed));

    /* An object, described where another linker might have placed it; not adopted, as it is not there. */
    bytes = read_file(argv[1]);
    OK(pp_adoption_from_object(bytes, find_section, &sections, &adoption));
    OK(pp_adoption_function_count(adoption, &count));
    CHECK(count == 2 && sections > 2);
    OK(pp_adoption_functions_from_eh_frame(adoption));
    OK(pp_adoption_eh_frame(adoption, 0x7f0000002000, pp_bytes_of(NULL, 0)));
    none[0] = none[1] = 0;
    REFUSED(PP_KIND_REFUSED, pp_adoption_function_addresses(adoption, none, 1));
    REFUSED(PP_KIND_MISUSE, pp_adopt(engine, adoption, 9, &code));
    error = pp_adopt(engine, adoption, PP_STRATEGY_AUTO, &code);
    CHECK(error != NULL && code == NULL);
    pp_error_free(error);
    OK(pp_adoption_free(adoption));

    /* The same, loaded with others, its shapes chosen by a callback. */
    SIZED(options);
    object.name = PP_STR("get.o");
    object.bytes = bytes;
    options.objects = &object;
    options.object_count = 1;
    options.lookup = no_symbol;
    options.calls = every_call;
    OK(pp_load_objects(engine, &options, &code));
    OK(pp_code_symbol(code, PP_STR("get"), &address));
    CHECK(address != 0);
    OK(pp_code_constructors(code, none, 2, &count));
    CHECK(count == 0);
    OK(pp_code_destructors(code, NULL, 0, &count));
    OK(pp_registration_new(engine, code, &registration));
    REFUSED(PP_KIND_MISUSE, pp_code_set_stack_maps(code, pp_bytes_of(NULL, 0)));
    OK(pp_code_free(code));
    OK(pp_register(registration, choose, &chosen, &loaded));
    CHECK(chosen >= 3);
    OK(pp_registration_free(registration));
    OK(pp_engine_sites(engine, 78, &sites));
    OK(pp_sites_count(sites, &count));
    CHECK(count == 2);
    OK(pp_sites_free(sites));
    OK(pp_engine_unregister(engine, loaded));
    OK(pp_module_free(loaded));
    long_transaction(engine, arena);

    /* Frames cannot be left where nobody is called. */
    OK(pp_load_objects(engine, &options, &code));
    OK(pp_code_set_stack_maps(code, pp_bytes_of(NULL, 0)));
    OK(pp_code_free(code));
    OK(pp_load_objects(engine, &options, &code));
    OK(pp_registration_new(engine, code, &registration));
    OK(pp_registration_leavable(registration));
    error = pp_register(registration, choose, &chosen, &loaded);
    CHECK(pp_error_kind(error) == PP_KIND_REFUSED || pp_error_kind(error) == PP_KIND_UNSUPPORTED);
    pp_error_free(error);
    OK(pp_registration_free(registration));
    OK(pp_code_free(code));
    free((void *)(size_t)bytes.data);

    OK(pp_engine_free(engine));
    CHECK(finalized == 1 && events[PP_EVENT_CHANGED] > 5 && events[PP_EVENT_REFUSED] > 0 &&
          events[PP_EVENT_UNREGISTERED] == 3 && events[PP_EVENT_PLACED] > 0);
    OK(pp_arena_trim(arena, &trimmed));
    OK(pp_arena_free(arena));
    remove("/tmp/patchpoint-capi-test.map");
    printf("code: told, redirected, in transactions\n");
    return 0;
}
