/* What the test programs share. */
#ifndef CHECK_H
#define CHECK_H

#include <patchpoint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FAIL(...)                                          \
    do {                                                   \
        fprintf(stderr, "%s:%d: ", __FILE__, __LINE__);    \
        fprintf(stderr, __VA_ARGS__);                      \
        fprintf(stderr, "\n");                             \
        exit(1);                                           \
    } while (0)

#define CHECK(what)                  \
    do {                             \
        if (!(what))                 \
            FAIL("not so: %s", #what); \
    } while (0)

/* The call succeeds. */
#define OK(call)                                                              \
    do {                                                                      \
        pp_error *error_ = (call);                                            \
        if (error_ != NULL) {                                                 \
            pp_str says_ = pp_error_message(error_);                          \
            FAIL("%s: %.*s", #call, (int)says_.len, says_.data);              \
        }                                                                     \
    } while (0)

/* The call is refused by an error of that kind. */
#define REFUSED(kind, call)                                                         \
    do {                                                                            \
        pp_error *error_ = (call);                                                  \
        if (pp_error_kind(error_) != (uint32_t)(kind)) {                            \
            pp_str says_ = pp_error_message(error_);                                \
            FAIL("%s: kind %u: %.*s", #call, pp_error_kind(error_), (int)says_.len, \
                 says_.data ? says_.data : "");                                     \
        }                                                                           \
        CHECK(pp_error_message(error_).len > 0);                                    \
        pp_error_free(error_);                                                      \
    } while (0)

/* Zeros, and its size. */
#define SIZED(value)                           \
    do {                                       \
        memset(&(value), 0, sizeof(value));    \
        (value).size = sizeof(value);          \
    } while (0)

static inline pp_bytes read_file(const char *path) {
    FILE *file = fopen(path, "rb");
    long len;
    char *bytes;
    if (file == NULL)
        FAIL("cannot open %s", path);
    fseek(file, 0, SEEK_END);
    len = ftell(file);
    rewind(file);
    bytes = (char *)malloc((size_t)len);
    CHECK(bytes != NULL && fread(bytes, 1, (size_t)len, file) == (size_t)len);
    fclose(file);
    return pp_bytes_of(bytes, (size_t)len);
}

static inline int is_text(pp_str text, const char *expected) {
    return text.len == strlen(expected) && memcmp(text.data, expected, text.len) == 0;
}

/* A function of no type, of which a compiler makes another. */
static inline void (*pointer_of(uint64_t address))(void) {
    void (*function)(void);
    memcpy(&function, &address, sizeof function);
    return function;
}

static inline uint64_t address_of(void (*function)(void)) {
    uint64_t address = 0;
    memcpy(&address, &function, sizeof function);
    return address;
}

/* The entry of a function of the module. */
static inline uint64_t entry_of(const pp_module *module, const char *name) {
    pp_function *function;
    uint64_t entry;
    OK(pp_module_function(module, pp_str_of(name, strlen(name)), &function));
    OK(pp_function_entry(function, &entry));
    OK(pp_function_free(function));
    return entry;
}

/* The shape of a patchpoint with anyregcc, a result and an argument. */
static inline pp_shape property_shape(void) {
    pp_shape shape;
    SIZED(shape);
    shape.kind = PP_SITE_PATCHPOINT;
    shape.reserved = 32;
    shape.convention = PP_CONVENTION_ANY_REG;
    shape.args = 1;
    shape.has_result = 1;
    return shape;
}

/* Loads the object of the inline cache, whose IR is in examples/objects/inline_cache.ll, as a module that
 * is not released yet. */
static inline pp_module *load_module(pp_engine *engine, const char *path, int is_live) {
    pp_bytes object = read_file(path);
    pp_code *code;
    pp_registration *registration;
    pp_module *module;
    pp_shape shape = property_shape(), shadow;
    SIZED(shadow);
    shadow.kind = PP_SITE_SHADOW;
    shadow.reserved = 24;
    OK(pp_load(engine, object, NULL, NULL, &code));
    OK(pp_registration_new(engine, code, &registration));
    OK(pp_registration_shape(registration, 78, &shape));
    OK(pp_registration_shape(registration, 90, &shadow));
    if (is_live)
        OK(pp_registration_live(registration));
    OK(pp_register(registration, NULL, NULL, &module));
    OK(pp_registration_free(registration));
    OK(pp_code_free(code));
    free((void *)(size_t)object.data);
    return module;
}

#endif
