/* Code that others have placed: adopted where it is, its calls retargeted, its frames left, with arguments
 * and results that are floating-point numbers. x86-64. The arguments are the object file of
 * examples/objects/inline_cache.ll and that of calls.c. */
#include "check.h"

#include <elf.h>
#include <sys/mman.h>

typedef uint64_t (*get_function)(const uint64_t *object);
typedef uint64_t (*unary)(uint64_t);
typedef double (*scale_function)(double first, double second);
typedef float (*half_function)(double first, double second);

/* push rbp; mov rbp, rsp; five bytes of nops; pop rbp; ret. It returns its first argument. */
static const uint8_t SCALE[] = {0x55, 0x48, 0x89, 0xe5, 0x0f, 0x1f, 0x44, 0x00, 0x00, 0x5d, 0xc3};
enum { PAGE = 4096, SITE_OF_SCALE = 4, BEHIND_GET = 0x30 };

static enum { RESULT, RETURN_DOUBLE, RETURN_FLOAT, RETURN_VECTOR } answer;
static int deoptimized, adopted;

/* Of `scale`: its arguments are read as the caller has passed them. */
static void miss(pp_frame *frame, void *data) {
    pp_value value;
    double first, second, product;
    float half;
    uint64_t bits = 0;
    (void)data;
    OK(pp_frame_float_arg(frame, 0, &value));
    CHECK(value.len >= sizeof first);
    memcpy(&first, value.bytes, sizeof first);
    OK(pp_frame_float_arg(frame, 1, &value));
    memcpy(&second, value.bytes, sizeof second);
    REFUSED(PP_KIND_NOT_FOUND, pp_frame_float_arg(frame, 99, &value));
    product = first * second;
    switch (answer) {
    case RESULT:
        OK(pp_frame_set_float_result(frame, product));
        OK(pp_frame_resume(frame));
        break;
    case RETURN_DOUBLE:
        memcpy(&bits, &product, sizeof product);
        OK(pp_frame_return(frame, PP_RETURN_F64, bits, 0));
        break;
    case RETURN_FLOAT:
        half = 0.5;
        memcpy(&bits, &half, sizeof half);
        OK(pp_frame_return(frame, PP_RETURN_F32, bits, 0));
        break;
    case RETURN_VECTOR:
        memset(&value, 0, sizeof value);
        value.len = 16;
        product = -product;
        memcpy(value.bytes, &product, sizeof product);
        OK(pp_frame_return_vector(frame, &value));
        break;
    }
}

/* The frame is left: whoever called the function finds 4321. */
static void deopt(pp_frame *frame, void *data) {
    CHECK(data == &deoptimized);
    deoptimized++;
    OK(pp_frame_return(frame, PP_RETURN_INT, 4321, 0));
}

static uint64_t doubles(uint64_t number) { return 2 * number; }
static uint64_t squares(uint64_t number) { return number * number; }
static uint64_t counts(uint64_t number) { (void)number; return 1; }

/* Executable memory with that at its start, as a JIT of somebody else's would have placed it. */
static uint64_t place(const void *bytes, size_t len) {
    void *memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED && len <= PAGE);
    memcpy(memory, bytes, len);
    CHECK(mprotect(memory, PAGE, PROT_READ | PROT_EXEC) == 0);
    return (uint64_t)(size_t)memory;
}

/* The bytes of the section of an ELF object that has that name. */
static pp_bytes section(pp_bytes object, const char *name) {
    const Elf64_Ehdr *header = (const void *)object.data;
    const Elf64_Shdr *sections = (const void *)(object.data + header->e_shoff);
    const char *names = (const char *)object.data + sections[header->e_shstrndx].sh_offset;
    size_t i;
    for (i = 0; i < header->e_shnum; i++)
        if (strcmp(names + sections[i].sh_name, name) == 0)
            return pp_bytes_of(object.data + sections[i].sh_offset, sections[i].sh_size);
    FAIL("no section %s", name);
}

static bool is_text_of(size_t index, pp_str name, uint64_t *address, void *data) {
    (void)index;
    *address = *(const uint64_t *)data;
    return is_text(name, ".text");
}

static pp_engine *new_engine(void) {
    pp_engine_builder *builder;
    pp_engine *engine;
    OK(pp_engine_builder_new(&builder));
    OK(pp_engine_builder_world_single_threaded(builder));
    OK(pp_engine_builder_on_miss(builder, miss, NULL, NULL));
    OK(pp_engine_builder_on_deopt(builder, deopt, &deoptimized, NULL));
    OK(pp_engine_build(builder, &engine));
    OK(pp_engine_builder_free(builder));
    return engine;
}

static pp_sequence *text_of(const char *text) {
    pp_sequence *sequence;
    OK(pp_sequence_from_text(pp_str_of(text, strlen(text)), &sequence));
    return sequence;
}

/* Registers what a site with ID 78 is in, whose frames can be left by frame pointers. */
static pp_module *leavable(pp_engine *engine, pp_code *code) {
    pp_registration *registration;
    pp_module *module;
    pp_shape shape = property_shape();
    OK(pp_registration_new(engine, code, &registration));
    OK(pp_registration_shape(registration, 78, &shape));
    OK(pp_registration_unwind_by(registration, PP_UNWIND_BY_FRAME_POINTERS));
    OK(pp_registration_leavable(registration));
    OK(pp_register(registration, NULL, NULL, &module));
    OK(pp_registration_free(registration));
    OK(pp_code_free(code));
    OK(pp_module_release(module));
    return module;
}

/* What is adopted is patched, its function is invalidated, and its frame is left. */
static void is_patched(pp_engine *engine, pp_module *module, uint64_t at) {
    const uint64_t known[4] = {0, 0x17, 0, 1234};
    pp_sequence *load = text_of("result = u64[arg(0)+24]");
    pp_sequence *seven = text_of("result = 7");
    pp_function *function;
    pp_transaction *changes;
    pp_receipt receipt;
    pp_sites *sites;
    pp_site *site;
    get_function get = (get_function)pointer_of(entry_of(module, "get"));
    SIZED(receipt);
    CHECK(address_of((void (*)(void))get) == at);
    OK(pp_engine_patch(engine, 78, load, &receipt));
    CHECK(receipt.sites == 2 && get(known) == 1234);
    OK(pp_module_patch(module, 78, seven, NULL));
    CHECK(get(known) == 7);
    OK(pp_module_function(module, PP_STR("get"), &function));
    OK(pp_transaction_new(engine, &changes));
    if (adopted++) {
        OK(pp_transaction_invalidate(changes, function));
    } else {
        OK(pp_function_sites(function, &sites));
        OK(pp_sites_at(sites, 0, &site));
        OK(pp_transaction_invalidate_site(changes, site));
        OK(pp_site_free(site));
        OK(pp_sites_free(sites));
    }
    OK(pp_transaction_commit(changes, &receipt));
    CHECK(receipt.invalidated + receipt.sites >= 1);
    OK(pp_transaction_free(changes));
    CHECK(get(known) == 4321 && deoptimized == adopted);
    OK(pp_function_free(function));
    OK(pp_sequence_free(load));
    OK(pp_sequence_free(seven));
    OK(pp_engine_unregister(engine, module));
    OK(pp_module_free(module));
}

/* An object of LLVM's, by the object file and where its text went; and by its stack map, with the addresses of
 * its functions. */
static void an_object_is_adopted_both_ways(pp_engine *engine, pp_bytes object) {
    const pp_bytes text = section(object, ".text");
    pp_adoption *adoption;
    pp_code *code;
    uint64_t addresses[2];
    uint64_t at = place(text.data, text.len);
    OK(pp_adoption_from_object(object, is_text_of, &at, &adoption));
    OK(pp_adopt(engine, adoption, PP_STRATEGY_AUTO, &code));
    OK(pp_adoption_free(adoption));
    is_patched(engine, leavable(engine, code), at);
    CHECK(munmap((void *)(size_t)at, PAGE) == 0);

    at = place(text.data, text.len);
    addresses[0] = at, addresses[1] = at + BEHIND_GET;
    OK(pp_adoption_new(section(object, ".llvm_stackmaps"), &adoption));
    OK(pp_adoption_function_addresses(adoption, addresses, 2));
    OK(pp_adoption_function(adoption, PP_STR("get"), at, 0x26));
    OK(pp_adoption_function(adoption, PP_STR("sum"), at + BEHIND_GET, (uint32_t)text.len - BEHIND_GET));
    OK(pp_adoption_not_yet_run(adoption));
    OK(pp_adopt(engine, adoption, PP_STRATEGY_REMAP, &code));
    OK(pp_adoption_free(adoption));
    is_patched(engine, leavable(engine, code), at);
    CHECK(munmap((void *)(size_t)at, PAGE) == 0);
}

static void floating_point(pp_engine *engine) {
    const uint64_t at = place(SCALE, sizeof SCALE);
    pp_sequence *second = text_of("float_result = float_arg(1)");
    pp_sequence *asks = text_of("goto miss");
    pp_adoption *adoption;
    pp_registration *registration;
    pp_code *code;
    pp_module *module;
    pp_told_site told;
    scale_function scale;
    pp_site *site;
    OK(pp_adoption_new(pp_bytes_of(NULL, 0), &adoption));
    OK(pp_adoption_function(adoption, PP_STR("scale"), at, sizeof SCALE));
    OK(pp_adopt(engine, adoption, PP_STRATEGY_TOGGLE, &code));
    OK(pp_adoption_free(adoption));
    OK(pp_registration_new(engine, code, &registration));
    SIZED(told);
    told.function = PP_STR("scale");
    told.offset = SITE_OF_SCALE;
    told.reserved = 5;
    told.content = PP_CONTENT_NOPS;
    told.convention = PP_CONVENTION_C;
    told.id = 5;
    told.has_id = 1;
    told.arg_count = 2;
    told.has_result = 1;
    told.free_stack = 1;
    OK(pp_registration_site(registration, &told));
    OK(pp_registration_unwind_by(registration, PP_UNWIND_BY_FRAME_POINTERS));
    OK(pp_registration_leavable(registration));
    OK(pp_register(registration, NULL, NULL, &module));
    OK(pp_registration_free(registration));
    OK(pp_code_free(code));
    OK(pp_module_release(module));
    scale = (scale_function)pointer_of(entry_of(module, "scale"));
    CHECK(scale(3, 2.5) == 3);
    OK(pp_module_patch(module, 5, second, NULL));
    CHECK(scale(3, 2.5) == 2.5);
    OK(pp_module_patch(module, 5, asks, NULL));
    answer = RESULT;
    CHECK(scale(3, 2.5) == 7.5);
    answer = RETURN_DOUBLE;
    CHECK(scale(3, 3) == 9);
    answer = RETURN_FLOAT;
    CHECK(((half_function)pointer_of(at))(3, 3) == 0.5F);
    answer = RETURN_VECTOR;
    CHECK(scale(3, 3) == -9);
    /* For good. */
    OK(pp_engine_site_at(engine, at + SITE_OF_SCALE, &site));
    OK(pp_engine_invalidate_site(engine, site, NULL));
    CHECK(((unary)pointer_of(at))(0) == 4321 && deoptimized == 3);
    OK(pp_site_free(site));
    OK(pp_sequence_free(second));
    OK(pp_sequence_free(asks));
    OK(pp_engine_unregister(engine, module));
    OK(pp_module_free(module));
    CHECK(munmap((void *)(size_t)at, PAGE) == 0);
}

static bool find_helper(pp_str name, uint64_t *address, void *data) {
    (void)data;
    *address = address_of((void (*)(void))doubles);
    return is_text(name, "helper");
}

static bool calls_of_helper(pp_str name, uint64_t *id, void *data) {
    (void)data;
    *id = 31;
    return is_text(name, "helper");
}

static void calls_are_retargeted(pp_engine *engine, const char *path) {
    pp_load_options options;
    pp_object object;
    pp_code *code;
    pp_registration *registration;
    pp_module *module;
    pp_transaction *changes;
    pp_sites *calls;
    size_t count;
    unary both;
    SIZED(options);
    object.name = PP_STR("calls.o");
    object.bytes = read_file(path);
    options.objects = &object;
    options.object_count = 1;
    options.lookup = find_helper;
    options.calls = calls_of_helper;
    OK(pp_load_objects(engine, &options, &code));
    free((void *)(size_t)object.bytes.data);
    OK(pp_registration_new(engine, code, &registration));
    OK(pp_register(registration, NULL, NULL, &module));
    OK(pp_registration_free(registration));
    OK(pp_code_free(code));
    OK(pp_module_release(module));
    OK(pp_module_calls_of(module, PP_STR("helper"), &calls));
    OK(pp_sites_count(calls, &count));
    CHECK(count == 2);
    OK(pp_sites_free(calls));
    both = (unary)pointer_of(entry_of(module, "both"));
    CHECK(both(4) == 8 + 10);
    OK(pp_engine_retarget(engine, PP_STR("helper"), address_of((void (*)(void))squares), NULL));
    CHECK(both(4) == 16 + 25);
    OK(pp_transaction_new(engine, &changes));
    OK(pp_transaction_retarget(changes, PP_STR("helper"), address_of((void (*)(void))counts)));
    CHECK(both(4) == 16 + 25);
    OK(pp_transaction_commit(changes, NULL));
    OK(pp_transaction_free(changes));
    CHECK(both(4) == 2);
    OK(pp_engine_restore_calls(engine, PP_STR("helper"), NULL));
    CHECK(both(4) == 8 + 10);
    OK(pp_engine_retarget(engine, PP_STR("helper"), address_of((void (*)(void))counts), NULL));
    OK(pp_transaction_new(engine, &changes));
    OK(pp_transaction_restore_calls(changes, PP_STR("helper")));
    OK(pp_transaction_commit(changes, NULL));
    OK(pp_transaction_free(changes));
    CHECK(both(4) == 8 + 10);
    OK(pp_engine_unregister(engine, module));
    OK(pp_module_free(module));
}

int main(int argc, char **argv) {
    pp_engine *engine;
    pp_bytes object;
    CHECK(argc == 3);
    engine = new_engine();
    object = read_file(argv[1]);
    an_object_is_adopted_both_ways(engine, object);
    free((void *)(size_t)object.data);
    floating_point(engine);
    calls_are_retargeted(engine, argv[2]);
    OK(pp_engine_free(engine));
    printf("adopted: patched, left, retargeted\n");
    return 0;
}
