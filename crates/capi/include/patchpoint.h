/* patchpoint: verified patching of the patchpoints that LLVM leaves in compiled code. The C interface.
 *
 * This file is made of the crate patchpoint-capi and is the documentation of who uses it from C or
 * C++. What a patchpoint is, how code is emitted with them, and which mode is for whom is in the
 * guide.
 *
 * A program
 * ---------
 *
 *     pp_engine_builder_new(&builder);                          an engine: how threads are stopped,
 *     pp_engine_builder_world_single_threaded(builder);         who is called at a miss and at a
 *     pp_engine_builder_on_miss(builder, miss, data, NULL);     deoptimization
 *     pp_engine_build(builder, &engine);
 *     pp_load(engine, object, lookup, data, &code);             code: loaded, or adopted
 *     pp_registration_new(engine, code, &registration);         what the stack map does not say of it:
 *     pp_registration_shape(registration, 78, &shape);          shapes, entries, told sites
 *     pp_register(registration, NULL, NULL, &module);           a module, with its sites
 *     pp_sequence_from_text(PP_STR("result = u64[arg(0)+24]"), &sequence);
 *     pp_engine_patch(engine, 78, sequence, NULL);              all bytes of all sites, or none
 *     pp_module_release(module);                                its code may run from now on
 *     pp_module_function(module, PP_STR("get"), &function);
 *     pp_function_entry(function, &address);                    to be called
 *     pp_engine_invalidate(engine, function, NULL);             every site goes to the handler
 *
 * Errors
 * ------
 *
 * Functions that can fail return an error, which the caller frees by pp_error_free(), or NULL. Each
 * says its kind, one sentence, and the site that it is about. Whatever is refused has changed
 * nothing, unless it is of the kind PP_KIND_BROKEN. Null pointers, handles that have been freed or
 * are of another kind, wrong sizes and numbers that mean nothing are errors of the kind
 * PP_KIND_MISUSE. A panic in the library is an error of the kind PP_KIND_INTERNAL.
 *
 * Ownership
 * ---------
 *
 * Handles (pointers to types that are only declared here) belong to the caller who was given them, until
 * the function of that type whose name ends in _free is called, once. NULL may be freed. A place for
 * a handle is NULL after a call that fails. Engines, modules, functions, sites, caches and arenas are
 * counted: what they refer to is there as long as anything refers to it. A handle that is freed is
 * found out for long, but not for ever: its memory is used again when some hundred others of its type
 * have been freed after it.
 *
 * What is said to be lent is good as long as what lends it. What is passed is needed during the call
 * only and copied, except data of callbacks.
 *
 * Strings and bytes have a pointer and a length. Strings are UTF-8 and need no zero at their end;
 * PP_STR("text") makes one of a literal.
 *
 * Structures that may become longer begin with their size. Whoever makes one, or room for one, sets all of
 * it to zero and `size` to its sizeof.
 *
 * Callbacks
 * ---------
 *
 * A callback that is kept comes with `data` and a finalizer, which is called once when nothing will call
 * the callback any more, on any thread. Finalizers call no function of this interface. A callback
 * that is called only during the call that it is given to has none.
 *
 * Callbacks return. One that throws a C++ exception ends the process with a message. One that is left
 * by longjmp() or by pthread_exit() breaks its contract; the process is ended with a message when that is
 * found out, which is mostly at the next call of this interface on that thread.
 *
 * Where functions may be called
 * -----------------------------
 *
 * Each says it in its last lines. `Threads: any` is for any thread, and several at once, also with
 * the same handles, where one waits for another; the exceptions are that a handle must not be freed while
 * what it lends is used, and that frames and attached threads are used on their own threads.
 * `Handlers: yes` is for handlers and lookups that compiled code has called; not for other callbacks, which
 * say what they may call. `Stopped world` is the time in which pp_world stops threads, on the thread that
 * does. `Signal handlers: no` is for handlers of signals that may interrupt anything; functions that
 * allocate or lock cannot be called there. What a function promises besides, and cannot check, is said
 * there too: all of that is undefined if it is not true. */

#ifndef PATCHPOINT_H
#define PATCHPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** The version of this header, for pp_version_check(). */
#define PP_VERSION_MAJOR 0
#define PP_VERSION_MINOR 1
#define PP_VERSION_PATCH 0
#define PP_VERSION ((uint32_t)PP_VERSION_MAJOR << 16 | (uint32_t)PP_VERSION_MINOR << 8 | (uint32_t)PP_VERSION_PATCH)

// The few kinds that errors have, for callers that treat kinds alike.
typedef enum {
    // No error: what pp_error_kind() says of NULL.
    PP_KIND_NONE = 0,
    // A call of this interface is wrong in itself: a null pointer, a handle that was freed or is of
    // another kind, a wrong size, a number that means nothing.
    PP_KIND_MISUSE = 1,
    // The bytes, tables or records that were given contradict themselves or each other.
    PP_KIND_MALFORMED = 2,
    // It is well-formed, and cannot be done: on this machine, in that memory, under this world.
    PP_KIND_UNSUPPORTED = 3,
    // There is nothing with that name, number or address.
    PP_KIND_NOT_FOUND = 4,
    // What was asked for does not go together, or breaks a rule.
    PP_KIND_REFUSED = 5,
    // It does not go now; later, or with more patience, it may.
    PP_KIND_BUSY = 6,
    // Something has changed meanwhile: look again, and ask again.
    PP_KIND_CHANGED = 7,
    // What it is about exists no more, or not in this process.
    PP_KIND_GONE = 8,
    // The operating system refuses, or has no more.
    PP_KIND_SYSTEM = 9,
    // Code is left that must not be executed.
    PP_KIND_BROKEN = 10,
    // A mistake of the library.
    PP_KIND_INTERNAL = 11,
    // A callback of the caller's has failed.
    PP_KIND_CALLBACK = 12,
} pp_kind;

// What reserves the bytes of a site.
typedef enum {
    // A patchpoint of LLVM's.
    PP_SITE_PATCHPOINT = 1,
    // A stackmap with a shadow.
    PP_SITE_SHADOW = 2,
    // The start of a function.
    PP_SITE_ENTRY = 3,
    // An instruction that a PC section marks.
    PP_SITE_MARKED = 4,
    // A recorded call.
    PP_SITE_CALL = 5,
    // A site of which the runtime told.
    PP_SITE_TOLD = 6,
} pp_site_kind;

// By which convention a site passes its arguments.
typedef enum {
    // In the registers and slots that its record says.
    PP_CONVENTION_ANY_REG = 0,
    // By the platform's C convention.
    PP_CONVENTION_C = 1,
} pp_convention;

// What a site holds.
typedef enum {
    // What it held when it was registered.
    PP_STATUS_ORIGINAL = 0,
    // A sequence.
    PP_STATUS_PATCHED = 1,
    // A way to its exit stub, for good.
    PP_STATUS_INVALIDATED = 2,
    // A jump away: nobody enters its function any more.
    PP_STATUS_REDIRECTED = 3,
    // It is not known: a failed roll-back left it in doubt.
    PP_STATUS_LOST = 4,
} pp_status;

// Why a handler is called.
typedef enum {
    // A sequence has gone to `miss`.
    PP_ROLE_MISS = 0,
    // The site is invalidated, or a sequence has gone to `deopt`.
    PP_ROLE_DEOPT = 1,
} pp_role;

// Where a value of a record is.
typedef enum {
    // In the register `reg`, `offset` bits from its least significant one.
    PP_LOCATION_REGISTER = 1,
    // The value is the address `reg` + `offset`.
    PP_LOCATION_DIRECT = 2,
    // In memory at `reg` + `offset`.
    PP_LOCATION_INDIRECT = 3,
    // The constant `offset`.
    PP_LOCATION_CONSTANT = 4,
    // A large constant: read it by pp_frame_value().
    PP_LOCATION_CONSTANT_INDEX = 5,
} pp_location_kind;

// How pp_frame_return() returns.
typedef enum {
    // Nothing: the result registers stay as they are.
    PP_RETURN_VOID = 0,
    // The integer or pointer `low`.
    PP_RETURN_INT = 1,
    // 128 bits, or two integers: `low` and `high`.
    PP_RETURN_PAIR = 2,
    // A double, whose bits are `low`.
    PP_RETURN_F64 = 3,
    // A float, whose bits are the lower half of `low`.
    PP_RETURN_F32 = 4,
} pp_return_kind;

// How an argument of pp_frame_replace_call() is passed.
typedef enum {
    // An integer or pointer.
    PP_ARGUMENT_INT = 0,
    // A double, whose bits are the value.
    PP_ARGUMENT_F64 = 1,
} pp_argument_kind;

// What stopped threads do before they execute code again.
typedef enum {
    // Nothing is promised: the engine publishes to them before they are let go.
    PP_RESUMPTION_UNKNOWN = 0,
    // Each executes a serializing instruction before any of the engine's code, such as by
    // pp_serialize().
    PP_RESUMPTION_SERIALIZES = 1,
    // There are no other threads.
    PP_RESUMPTION_ALONE = 2,
} pp_resumption;

// What an operand is.
typedef enum {
    // The constant `value`.
    PP_OPERAND_IMM = 0,
    // The argument of the site with number `value`.
    PP_OPERAND_ARG = 1,
    // The floating-point argument with number `value`, with the C convention.
    PP_OPERAND_FLOAT_ARG = 2,
    // The live value with number `value`: of the record's locations, behind result and arguments.
    PP_OPERAND_LIVE = 3,
    // The location of the record with number `value`.
    PP_OPERAND_LOCATION = 4,
    // The result of the site.
    PP_OPERAND_RESULT = 5,
    // The floating-point result, with the C convention.
    PP_OPERAND_FLOAT_RESULT = 6,
    // A general register that is free at the site.
    PP_OPERAND_TEMP = 7,
    // The register with the DWARF number `value`.
    PP_OPERAND_REG = 8,
} pp_operand_kind;

// As what type of integer memory or an operand is read, and how it fills a register.
typedef enum {
    // 1 byte, extended with zeros.
    PP_U8 = 0,
    // 2 bytes, extended with zeros.
    PP_U16 = 1,
    // 4 bytes, extended with zeros.
    PP_U32 = 2,
    // 8 bytes.
    PP_U64 = 3,
    // 1 byte, extended with its sign.
    PP_I8 = 4,
    // 2 bytes, extended with their sign.
    PP_I16 = 5,
    // 4 bytes, extended with their sign.
    PP_I32 = 6,
    // 8 bytes.
    PP_I64 = 7,
} pp_type;

// What a source is.
typedef enum {
    // All of the operand.
    PP_SOURCE_OPERAND = 0,
    // The low bytes of the operand, as many as the type has.
    PP_SOURCE_PART = 1,
    // The memory at the operand plus the displacement.
    PP_SOURCE_MEMORY = 2,
} pp_source_kind;

// Where a sequence goes.
typedef enum {
    // The site's exit stub for a miss.
    PP_TARGET_MISS = 0,
    // The site's exit stub for a deoptimization.
    PP_TARGET_DEOPT = 1,
    // The end of the site: on with the compiled code.
    PP_TARGET_END = 2,
    // The label with number `value` of the sequence.
    PP_TARGET_LABEL = 3,
    // Code at the address `value`, which is entered by a jump and does not come back. It promises
    // that there is such code as long as the sequence may be executed.
    PP_TARGET_ADDRESS = 4,
} pp_target_kind;

// A condition between a left and a right value.
typedef enum {
    // Equal.
    PP_COND_EQ = 0,
    // Not equal.
    PP_COND_NE = 1,
    // Less, unsigned.
    PP_COND_BELOW = 2,
    // Less or equal, unsigned.
    PP_COND_BELOW_OR_EQUAL = 3,
    // Greater, unsigned.
    PP_COND_ABOVE = 4,
    // Greater or equal, unsigned.
    PP_COND_ABOVE_OR_EQUAL = 5,
    // Less, signed.
    PP_COND_LESS = 6,
    // Less or equal, signed.
    PP_COND_LESS_OR_EQUAL = 7,
    // Greater, signed.
    PP_COND_GREATER = 8,
    // Greater or equal, signed.
    PP_COND_GREATER_OR_EQUAL = 9,
} pp_cond;

// What a called function does when it is done.
typedef enum {
    // It does not come back.
    PP_ON_RETURN_NEVER = 0,
    // It preserves every register but the call's own scratch register and the flags.
    PP_ON_RETURN_PRESERVES_ALL = 1,
    // It follows the platform's C convention.
    PP_ON_RETURN_FOLLOWS_C = 2,
} pp_on_return;

// How pp_sequence_shift() shifts.
typedef enum {
    // To the left; zeros come in.
    PP_SHIFT_LEFT = 0,
    // To the right; zeros come in.
    PP_SHIFT_RIGHT = 1,
    // To the right; copies of the sign come in.
    PP_SHIFT_RIGHT_SIGNED = 2,
} pp_shift;

// What is at a told site before it is patched.
typedef enum {
    // Nops.
    PP_CONTENT_NOPS = 0,
    // One call, and nops behind it.
    PP_CONTENT_CALL = 1,
    // One jump that is always taken, and nops behind it.
    PP_CONTENT_JUMP = 2,
    // The instructions in `instructions`, whole ones.
    PP_CONTENT_INSTRUCTIONS = 3,
} pp_content;

// By what the frames of a module's functions are found.
typedef enum {
    // By the unwind information that came with the code.
    PP_UNWIND_BY_EH_FRAME = 0,
    // By frame pointers; functions save no other registers, so that frames can be left.
    PP_UNWIND_BY_FRAME_POINTERS = 1,
    // By frame pointers; it is not known what else functions save, so that frames can be walked only.
    PP_UNWIND_BY_FRAME_POINTERS_ONLY = 2,
    // By the sizes in the stack map: frames can be walked only.
    PP_UNWIND_BY_STACK_SIZES = 3,
    // By what a flat stack map tells of each function.
    PP_UNWIND_BY_FRAME_RECORDS = 4,
} pp_unwind_by;

// How adopted code is written.
typedef enum {
    // The first that works; the module that is registered live gets the one that it needs.
    PP_STRATEGY_AUTO = 0,
    // The pages are copied into memory that has a second, writable mapping, at the same addresses.
    PP_STRATEGY_REMAP = 1,
    // By /proc/self/mem.
    PP_STRATEGY_PROC_MEM = 2,
    // The pages are writable and not executable while they are written.
    PP_STRATEGY_TOGGLE = 3,
} pp_strategy;

// What a thread that is not executing compiled code may still have to do with it.
typedef enum {
    // Frames of compiled code may be on its stack.
    PP_QUIESCENCE_CHECKPOINT = 0,
    // No frame of compiled code is on its stack.
    PP_QUIESCENCE_QUIESCENT = 1,
} pp_quiescence;

// What a segment holds.
typedef enum {
    // Code, executable.
    PP_SEGMENT_CODE = 0,
    // Data that is only read when it is complete.
    PP_SEGMENT_READ_ONLY = 1,
    // Data that is written.
    PP_SEGMENT_DATA = 2,
} pp_segment_kind;

// What a cache has become.
typedef enum {
    // No entry: every execution goes to the lookup.
    PP_CACHE_UNINITIALIZED = 0,
    // One entry.
    PP_CACHE_MONOMORPHIC = 1,
    // A chain of entries.
    PP_CACHE_POLYMORPHIC = 2,
    // The generic path.
    PP_CACHE_MEGAMORPHIC = 3,
    // The site was invalidated: the cache learns nothing any more.
    PP_CACHE_DEAD = 4,
} pp_cache_state;

// Whether the entries of caches count their hits in the code.
typedef enum {
    // They do not.
    PP_COUNTING_OFF = 0,
    // By a plain addition, which loses counts where several threads hit at once.
    PP_COUNTING_PLAIN = 1,
    // Atomically.
    PP_COUNTING_ATOMIC = 2,
} pp_counting;

// In which order entries are tested.
typedef enum {
    // The last one learnt first.
    PP_ORDER_MOST_RECENT = 0,
    // The one with the most hits first, where they are counted.
    PP_ORDER_MOST_FREQUENT = 1,
} pp_order;

// What becomes of an entry that a lookup has found.
typedef enum {
    // Nothing changes.
    PP_DECISION_IGNORE = 0,
    // It is installed beside the others.
    PP_DECISION_INSTALL = 1,
    // It is installed in place of all others.
    PP_DECISION_REPLACE = 2,
    // The cache becomes megamorphic.
    PP_DECISION_GO_MEGAMORPHIC = 3,
} pp_decision;

// How a pointer is in a value.
typedef enum {
    // The value is the pointer.
    PP_BOXING_PLAIN = 0,
    // The value is the pointer plus `amount`, a tag below its alignment.
    PP_BOXING_TAGGED = 1,
    // The pointer is in the lower `amount` bits of the value.
    PP_BOXING_BOXED = 2,
} pp_boxing;

// What has happened.
typedef enum {
    // A module is registered.
    PP_EVENT_REGISTERED = 1,
    // A module was unregistered.
    PP_EVENT_UNREGISTERED = 2,
    // Out-of-line code of a site is in place at `address`.
    PP_EVENT_PLACED = 3,
    // A site, at `address`, was changed.
    PP_EVENT_CHANGED = 4,
    // What a site held out of line was moved into it.
    PP_EVENT_SETTLED = 5,
    // A change was refused; `message` says why.
    PP_EVENT_REFUSED = 6,
    // Out-of-line code at `address` is reclaimed: no thread is in it.
    PP_EVENT_RECLAIMED = 7,
    // `prepared` changes of a transaction, of `of`, are prepared: told every few thousand of one that is
    // that long. Nothing has been written for it.
    PP_EVENT_PREPARING = 8,
} pp_event_kind;

// A description of code that somebody else has placed.
typedef struct pp_adoption pp_adoption;

// Memory in which no page is ever writable and executable at once. It grows by chunks, and goes with
// the last handle and the last that was placed in it.
typedef struct pp_arena pp_arena;

// The cache of a site.
typedef struct pp_cache pp_cache;

// The inline caches of an engine.
typedef struct pp_caches pp_caches;

// Describes inline caches.
typedef struct pp_caches_builder pp_caches_builder;

// Code in memory with its stack maps, which no module has been made of yet.
typedef struct pp_code pp_code;

// Patches the sites of registered modules.
typedef struct pp_engine pp_engine;

// Describes an engine.
typedef struct pp_engine_builder pp_engine_builder;

// What a cache does for values of some kind. It always applies, until it gets guards.
typedef struct pp_entry pp_entry;

// Why a call was refused or has failed. Null is success.
typedef struct pp_error pp_error;

// A compiled function's frame at a site, in a handler: good until the handler returns, on its thread.
typedef struct pp_frame pp_frame;

// A function of a registered module. It keeps its module's memory.
typedef struct pp_function pp_function;

// A registered module: its functions and sites.
typedef struct pp_module pp_module;

// Segments that are complete. Freeing them unloads them.
typedef struct pp_placed pp_placed;

// Segments with addresses, being filled: the code is not there for others.
typedef struct pp_placement pp_placement;

// A transaction that is assembled and checked, to be looked at and committed.
typedef struct pp_prepared pp_prepared;

// A registration: what is said of code before a module is made of it.
typedef struct pp_registration pp_registration;

// What is to be put into sites: operations in order, in terms of a site's values. Behind the last one
// the code goes on at the end of the site.
typedef struct pp_sequence pp_sequence;

// A site: reserved bytes in loaded code that can be patched. It keeps its module's memory.
typedef struct pp_site pp_site;

// Sites, in ascending address where they are of one module.
typedef struct pp_sites pp_sites;

// Text of the library's.
typedef struct pp_text pp_text;

// A thread that is attached to an engine: for the thread alone that attached itself.
typedef struct pp_thread pp_thread;

// Changes that are made as one: all of them, or none. A change that is refused leaves the
// transaction as it was.
typedef struct pp_transaction pp_transaction;

// A string: UTF-8, not ended by a zero. Null with length 0 is the empty string.
typedef struct {
    // The first byte.
    const char *data;
    // The number of bytes.
    size_t len;
} pp_str;

// The name of a site in an error. `size` comes first, see the head of this file.
typedef struct {
    // The size of this structure, written by the caller.
    size_t size;
    // Of what kind the site is: one of pp_site_kind.
    uint32_t kind;
    // How far it is from the start of its function.
    uint32_t offset;
    // The ID of its record.
    uint64_t id;
    // Its address.
    uint64_t address;
    // The name of its function, or nothing; it is lent as long as the error.
    pp_str function;
} pp_error_place;

// What is done while the world is stopped: to be called with the argument that came with it.
typedef void (*pp_work)(void *argument);

// Stops every other thread, calls the work once, on this thread, and lets them go.
typedef bool (*pp_while_stopped)(pp_work work, void *argument, void *data);

// Frees what a callback was given with it. It is called once, when nothing will call the callback
// any more, on whichever thread that is found. Null where there is nothing to be freed.
typedef void (*pp_finalizer)(void *data);

// How the caller stops its threads. `size` comes first, see the head of this file.
//
// `while_stopped` brings every other thread to a place outside of the engine's code and keeps it
// there, calls `work(argument)` exactly once, on its own thread, lets the threads go and returns
// true; or it calls nothing and returns false, and the change is refused. While the work runs no
// thread has its program counter in code that the engine may patch, in any stub of it, or in a signal
// handler that goes there, and none will go there; return addresses may point there. It may be called
// from any thread that patches, from a handler too, and by two threads at once. It calls no other
// function of this interface.
typedef struct {
    // The size of this structure.
    size_t size;
    // See above.
    pp_while_stopped while_stopped;
    // What it is called with.
    void *data;
    // Frees the data when no engine has the world any more.
    pp_finalizer finalizer;
    // One of pp_resumption, true of every thread that was stopped.
    uint32_t resumption;
} pp_world;

// Called by compiled code that leaves at a site. It answers by one of pp_frame_resume(),
// pp_frame_continue_at(), pp_frame_return() and pp_frame_replace(); the last answer counts, and
// without one the frame is resumed.
typedef void (*pp_handler)(pp_frame *frame, void *data);

// An event. It is lent during the call. `size` comes first, see the head of this file: a library that is
// older than the header says less.
typedef struct {
    // The size of this structure.
    size_t size;
    // One of pp_event_kind.
    uint32_t kind;
    // Of a site that was changed: one of pp_status.
    uint32_t status;
    // Where the site, or the code, is; 0 where there is none.
    uint64_t address;
    // How long it is.
    uint64_t len;
    // The ID of the site.
    uint64_t id;
    // Counts the changes of the site.
    uint64_t generation;
    // The function of the site, what the code is, or why a change was refused.
    pp_str message;
    // How many changes of a transaction are prepared.
    size_t prepared;
    // How many it has.
    size_t of;
} pp_event;

// Is told of an event, on the thread that makes the change, while the engine is locked: it calls no
// function of this interface.
typedef void (*pp_observer)(const pp_event *event, void *data);

// Bytes. Null with length 0 are none.
typedef struct {
    // The first byte.
    const uint8_t *data;
    // The number of bytes.
    size_t len;
} pp_bytes;

// Finds the address of an undefined symbol: writes it and returns true, or returns false. It is
// called only during the call that it is given to, on the same thread, and calls no function of this
// interface.
typedef bool (*pp_symbol_lookup)(pp_str name, uint64_t *address, void *data);

// An object file.
typedef struct {
    // What it is called in errors.
    pp_str name;
    // Its bytes, which are needed during the call only.
    pp_bytes bytes;
} pp_object;

// Says under which ID the calls of a function become sites: writes it and returns true, or returns
// false for functions whose calls stay as they are. As pp_symbol_lookup otherwise.
typedef bool (*pp_call_choice)(pp_str function, uint64_t *id, void *data);

// What is to be loaded. `size` comes first, see the head of this file.
typedef struct {
    // The size of this structure.
    size_t size;
    // Objects, which may refer to each other.
    const pp_object *objects;
    // How many there are.
    size_t object_count;
    // Finds what none of them defines; NULL where there is no such thing.
    pp_symbol_lookup lookup;
    // What that is called with.
    void *lookup_data;
    // Which calls become sites, for pp_engine_retarget(); NULL for none.
    pp_call_choice calls;
    // What that is called with.
    void *calls_data;
} pp_load_options;

// Finds where a section of an object was placed: writes its address and returns true, or returns
// false for one that was not placed. `index` is the section's in the file. It is called only during
// the call that it is given to, on the same thread, and calls no function of this interface.
typedef bool (*pp_section_lookup)(size_t index, pp_str name, uint64_t *address, void *data);

// How a record's site is called, which the stack map does not say. `size` comes first, see the head
// of this file.
typedef struct {
    // The size of this structure.
    size_t size;
    // PP_SITE_PATCHPOINT or PP_SITE_SHADOW.
    uint32_t kind;
    // How many bytes are reserved.
    uint32_t reserved;
    // One of pp_convention.
    uint32_t convention;
    // How many arguments are passed.
    uint32_t args;
    // Whether there is a result: 0 or 1.
    uint32_t has_result;
} pp_shape;

// Reserved bytes at the start of a function. `size` comes first, see the head of this file.
typedef struct {
    // The size of this structure.
    size_t size;
    // The name of the function.
    pp_str function;
    // The ID under which the site is patched.
    uint64_t id;
    // How many bytes are reserved.
    uint32_t reserved;
    // How far into the function they begin.
    uint32_t offset;
    // How many arguments the function takes.
    uint32_t args;
    // Whether it returns an integer or a pointer: 0 or 1.
    uint32_t has_result;
    // 1 for a promise that whenever a thread comes to the offset all is as at the function's entry.
    uint32_t is_promised;
} pp_entry_site;

// A site of which the runtime itself tells. Registers are given by their DWARF numbers. `size` comes
// first, see the head of this file; zeros say nothing, which leaves nothing free.
typedef struct {
    // The size of this structure.
    size_t size;
    // The name of the function.
    pp_str function;
    // How far into the function the site begins.
    uint32_t offset;
    // How many bytes are reserved; of instructions, their length counts.
    uint32_t reserved;
    // One of pp_content.
    uint32_t content;
    // One of pp_convention.
    uint32_t convention;
    // The ID under which it is patched, if `has_id` is 1.
    uint64_t id;
    // 0 or 1.
    uint32_t has_id;
    // With PP_CONVENTION_C: how many arguments.
    uint32_t arg_count;
    // The instructions that are there.
    pp_bytes instructions;
    // With PP_CONVENTION_ANY_REG: the register of each argument.
    const uint32_t *args;
    // How many there are.
    size_t args_len;
    // Registers of values that handlers and sequences can read.
    const uint32_t *values;
    // How many there are.
    size_t values_len;
    // Registers that are looked at behind the site.
    const uint32_t *live;
    // How many there are.
    size_t live_len;
    // Registers that may be changed.
    const uint32_t *free_registers;
    // How many there are.
    size_t free_len;
    // Offsets in the site to which return addresses may point.
    const uint32_t *returns_to;
    // How many there are.
    size_t returns_to_len;
    // Whether it has a result: 0 or 1.
    uint32_t has_result;
    // With PP_CONVENTION_ANY_REG: the register of the result.
    uint32_t result;
    // Whether the flags of arithmetic may be changed: 0 or 1.
    uint32_t free_flags;
    // Whether the stack is as at a call of a C function: 0 or 1.
    uint32_t free_stack;
} pp_told_site;

// A record of a stack map that may become a site. `size` comes first, see the head of this file.
typedef struct {
    // The size of this structure.
    size_t size;
    // The ID of the record.
    uint64_t id;
    // Where its site would begin.
    uint64_t address;
    // The name of its function, lent during the call.
    pp_str function;
    // The bytes from there to the end of the function, lent during the call.
    pp_bytes bytes;
    // How many locations it has.
    uint32_t locations;
} pp_record;

// Tells the shape of a record: writes it and returns true, or returns false for one that is to be no
// site. `shape->size` is set already. It is called only during pp_register(), on the same thread, and
// calls no function of this interface.
typedef bool (*pp_shape_choice)(const pp_record *record, pp_shape *shape, void *data);

// What is known of a site. `size` comes first, see the head of this file.
typedef struct {
    // The size of this structure, written by the caller.
    size_t size;
    // The ID of its record, or the one that it was given. Not unique.
    uint64_t id;
    // The address of its first byte.
    uint64_t address;
    // How many bytes it has.
    uint32_t reserved;
    // How far it is from the start of its function.
    uint32_t offset;
    // One of pp_site_kind.
    uint32_t kind;
    // One of pp_convention.
    uint32_t convention;
    // How many arguments it passes.
    uint32_t args;
    // Whether it has a result: 0 or 1.
    uint32_t has_result;
    // How many locations its record has.
    uint32_t locations;
    // What it holds now: one of pp_status.
    uint32_t status;
    // How many bytes of stubs and exit stubs it has now.
    uint64_t stub_bytes;
    // How many bytes of those have been freed.
    uint64_t reclaimed_bytes;
} pp_site_info;

// A location of a record. `size` comes first, see the head of this file.
typedef struct {
    // The size of this structure, written by the caller.
    size_t size;
    // One of pp_location_kind.
    uint32_t kind;
    // How many bytes the value has.
    uint32_t value_size;
    // The DWARF number of the register.
    uint32_t reg;
    // See pp_location_kind.
    int32_t offset;
} pp_location;

// An operand. The functions pp_arg() and so on, below, make one.
typedef struct {
    // One of pp_operand_kind.
    uint32_t kind;
    // What it says.
    uint64_t value;
} pp_operand;

// A value that an operation reads, or memory that it writes. The functions pp_value_of(), pp_part()
// and pp_at(), below, make one.
typedef struct {
    // One of pp_source_kind.
    uint32_t kind;
    // One of pp_type.
    uint32_t type_;
    // The operand.
    pp_operand operand;
    // The displacement of memory, in bytes.
    int32_t disp;
} pp_source;

// Where a sequence goes. The functions pp_miss() and so on, below, make one.
typedef struct {
    // One of pp_target_kind.
    uint32_t kind;
    // What it says.
    uint64_t value;
} pp_target;

// What a change has done. `size` comes first, see the head of this file.
typedef struct {
    // The size of this structure, written by the caller.
    size_t size;
    // How many sites were written; those that were as asked for already are not.
    uint64_t sites;
    // How many sites of an ID were left as they are, as they have been invalidated.
    uint64_t invalidated;
} pp_receipt;

// What pp_engine_settle() has done. `size` comes first, see the head of this file.
typedef struct {
    // The size of this structure, written by the caller.
    size_t size;
    // How many sites execute their code in place from now on.
    uint64_t settled;
    // How many wait until every attached thread has reported.
    uint64_t waiting;
    // How many of those that were patched since the last call stay in their stubs.
    uint64_t staying;
} pp_settled;

// Figures of an engine. `size` comes first, see the head of this file.
typedef struct {
    // The size of this structure, written by the caller.
    size_t size;
    // Bytes that are reserved for stubs.
    uint64_t stub_bytes_reserved;
    // Bytes of stubs and exit stubs that are in use.
    uint64_t stub_bytes_in_use;
    // Bytes of them that were ever freed.
    uint64_t stub_bytes_reclaimed;
    // How many stubs and exit stubs there are.
    uint64_t stubs;
    // How many retired stubs wait for pp_engine_reclaim() or pp_engine_reclaim_by_signal().
    uint64_t retired;
    // How many modules are registered.
    uint64_t modules;
} pp_stats;

// What is known of a frame. `size` comes first, see the head of this file.
typedef struct {
    // The size of this structure, written by the caller.
    size_t size;
    // Why the handler is called: one of pp_role.
    uint32_t role;
    // How many arguments the site passes.
    uint32_t args;
    // The ID of the site's record.
    uint64_t id;
    // The address of the site's first byte, from which the frame came.
    uint64_t pc;
    // The stack pointer at the site.
    uint64_t stack_pointer;
    // The flags; 0 where only live registers were saved.
    uint64_t flags;
    // How many locations the site's record has.
    uint64_t locations;
    // How many of these are live values, behind the result and the arguments.
    uint64_t live;
} pp_frame_info;

// A value: its bytes, the least significant first.
typedef struct {
    // How many bytes it has, 64 at most.
    uint32_t len;
    // They.
    uint8_t bytes[64];
} pp_value;

// A value that a new frame is to have: see pp_frame_replace_push().
typedef struct {
    // How far from the frame's stack pointer.
    uint32_t offset;
    // 0 for the value, 1 for the callee-saved register `reg` of the frame's caller, 2 for the address
    // to which the frame returns.
    uint32_t what;
    // The DWARF number of the register.
    uint32_t reg;
    // The value.
    uint64_t value;
} pp_frame_slot;

// A register that code finds in a new frame: see pp_frame_replace_push().
typedef struct {
    // The DWARF number of the register.
    uint32_t reg;
    // The value.
    uint64_t value;
} pp_register_value;

// An argument of pp_frame_replace_call().
typedef struct {
    // One of pp_argument_kind.
    uint32_t kind;
    // The value.
    uint64_t value;
} pp_argument;

// What is known of a cache when an entry was found.
typedef struct {
    // The size of this structure.
    size_t size;
    // One of pp_cache_state.
    uint32_t state;
    // How many entries it has.
    uint32_t entries;
    // Misses since the state last changed, this one included.
    uint64_t misses;
    // Misses since the cache was made, this one included.
    uint64_t all_misses;
    // How often entries have been retracted.
    uint64_t retractions;
    // How often it has become megamorphic.
    uint64_t megamorphic;
} pp_history;

// Decides what becomes of an entry: returns one of pp_decision. The cache is locked: it calls no
// function of this interface.
typedef uint32_t (*pp_policy)(const pp_history *history, void *data);

// Figures of a cache. `size` comes first, see the head of this file.
typedef struct {
    // The size of this structure, written by the caller.
    size_t size;
    // How many caches these figures are of.
    uint64_t caches;
    // Hits that were counted in the code, where they are.
    uint64_t hits;
    // Executions that went to the lookup.
    uint64_t misses;
    // Entries that were installed.
    uint64_t installed;
    // Entries that the site has refused.
    uint64_t refused;
    // Entries that were retracted.
    uint64_t retracted;
    // Changes of the state.
    uint64_t transitions;
    // Bytes of stubs and exit stubs that there are now.
    uint64_t stub_bytes;
    // Bytes of them that were freed.
    uint64_t reclaimed;
    // Of one cache: one of pp_cache_state.
    uint32_t state;
    // Of one cache: how many entries it has.
    uint32_t entries;
} pp_cache_stats;

// A pointer to an object, in a value of the site. The function pp_pointer_to(), below, makes a plain
// one.
typedef struct {
    // The value.
    pp_operand value;
    // One of pp_boxing.
    uint32_t boxing;
    // See pp_boxing.
    uint32_t amount;
} pp_pointer;

// What is needed for a segment.
typedef struct {
    // One of pp_segment_kind.
    uint32_t kind;
    // Its length in bytes; may be 0.
    uint64_t len;
    // Its alignment in bytes, a power of two.
    uint64_t align;
} pp_segment_need;

// Where segments may lie. `size` comes first, see the head of this file.
typedef struct {
    // The size of this structure.
    size_t size;
    // 0 for anywhere, 1 for the low 2 GiB, 2 for less than `within` bytes from all of the code.
    uint32_t where_;
    // Where the code begins.
    uint64_t code;
    // How long it is.
    uint64_t code_len;
    // The distance in bytes, 4 GiB at most.
    uint64_t within;
} pp_reach;

// A segment with its place. `size` comes first, see the head of this file.
typedef struct {
    // The size of this structure, written by the caller.
    size_t size;
    // One of pp_segment_kind.
    uint32_t kind;
    // The address at which it is executed or read.
    uint64_t address;
    // Its length in bytes.
    uint64_t len;
} pp_segment;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The version of the library that runs: major, minor and patch, 8 bits each, the major ones highest.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: yes. Signal handlers: yes.
uint32_t pp_version(void);

// The same as text, such as "0.1.0", which is there for ever.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: yes. Signal handlers: yes.
pp_str pp_version_text(void);

// Refuses where the library that runs cannot be used by a program that was compiled with a header of
// that version: call it with PP_VERSION.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: yes. Signal handlers: no.
pp_error *pp_version_check(uint32_t header);

// Of which kind an error is: one of pp_kind. NULL is PP_KIND_NONE; what is no error, or was freed,
// is PP_KIND_MISUSE.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: yes. Signal handlers: no.
uint32_t pp_error_kind(const pp_error *error);

// What an error says, in one sentence with the place, what was needed, what was there and how to
// mend it. The string is lent as long as the error is not freed. It is empty for NULL.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: yes. Signal handlers: no.
pp_str pp_error_message(const pp_error *error);

// Writes the site that an error is about. False, and nothing is written, where it is about none,
// or `place` is null or has no size.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: yes. Signal handlers: no.
bool pp_error_site(const pp_error *error, pp_error_place *place);

// Frees an error. NULL, and what has been freed, is nothing to be freed.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
void pp_error_free(pp_error *error);

// The text, lent as long as the handle is not freed. A zero follows it.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_text_get(const pp_text *text, pp_str *to);

// Frees text.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_text_free(pp_text *text);

// Starts to describe an engine. To be freed by pp_engine_builder_free().
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_engine_builder_new(pp_engine_builder **builder);

// Frees a description; callbacks that no engine was made with are finalized.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_engine_builder_free(pp_engine_builder *builder);

// The world is one of a single thread: while any thread is in a call that patches, no other thread,
// and no signal handler, executes code that the engine may patch; and a thread that executes such
// code after another has patched it has synchronized with that thread in between.
//
// # Safety
// Promises what is said above. Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_engine_builder_world_single_threaded(pp_engine_builder *builder);

// The world is never stopped: only sites of modules that are registered live can be changed.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_engine_builder_world_never_stopped(pp_engine_builder *builder);

// The world is stopped by a real-time signal: each thread that executes code of the engine is
// attached by pp_thread_attach() while it does and while it has frames of such code, executes it on
// its own stack, not on a coroutine's, and nobody else changes what the signal does. 0 as `signal`
// takes the highest real-time signal that nobody handles. A change waits `wait_ms` milliseconds for
// threads that are inside of what it changes, and is refused then; a thread may take `patience_ms`
// to answer.
//
// # Safety
// Promises what is said above. Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_engine_builder_world_signal(pp_engine_builder *builder,
                                         int32_t signal,
                                         uint64_t wait_ms,
                                         uint64_t patience_ms);

// The world is stopped by the caller's own callbacks: see pp_world. Where this fails, `world.data`
// is still the caller's; afterwards its finalizer frees it.
//
// # Safety
// Promises what pp_world says. Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_engine_builder_world_callbacks(pp_engine_builder *builder, const pp_world *world);

// Who is called where code has no answer: sequences go there by the target `miss`. Without an answer
// of its own the code goes on behind the site; the handler sets the result by pp_frame_set_result().
// Where this fails, `data` is still the caller's; afterwards the finalizer frees it.
//
// # Safety
// Promises that the handler can be called with `data` from every thread that executes compiled code,
// from several at once and again while it runs. Threads: any. Handlers: yes. Stopped world: no.
// Signal handlers: no.
pp_error *pp_engine_builder_on_miss(pp_engine_builder *builder,
                                    pp_handler handler,
                                    void *data,
                                    pp_finalizer finalizer);

// As pp_engine_builder_on_miss(), for a handler that only computes the result: where the record says
// what is live just that is saved, which is faster. Its frames show no other registers, and cannot be
// left: the only answer is to resume.
//
// # Safety
// As for pp_engine_builder_on_miss(). Threads: any. Handlers: yes. Stopped world: no. Signal
// handlers: no.
pp_error *pp_engine_builder_on_live_register_miss(pp_engine_builder *builder,
                                                  pp_handler handler,
                                                  void *data,
                                                  pp_finalizer finalizer);

// Who is called from invalidated sites, and from sequences by the target `deopt`. Without an answer
// of its own the code goes on as if nothing had happened. Where this fails, `data` is still the
// caller's; afterwards the finalizer frees it.
//
// # Safety
// As for pp_engine_builder_on_miss(). Threads: any. Handlers: yes. Stopped world: no. Signal
// handlers: no.
pp_error *pp_engine_builder_on_deopt(pp_engine_builder *builder,
                                     pp_handler handler,
                                     void *data,
                                     pp_finalizer finalizer);

// The engine's misses go to these inline caches, in place of a handler of misses. They are a handle
// of their own, which stays the caller's.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_engine_builder_caches(pp_engine_builder *builder, const pp_caches *caches);

// Where loaded code, stubs and exit stubs are placed, where memory of the engine's own does not suit.
// The arena stays the caller's.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_engine_builder_arena(pp_engine_builder *builder,
                                  const pp_arena *arena);

// How many changes the journal keeps, where 1024 do not suit; 0 for none.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_engine_builder_journal(pp_engine_builder *builder, size_t changes);

// How many bytes an image that is loaded may have, where 256 MiB do not suit; at most 1 GiB.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_engine_builder_image_limit(pp_engine_builder *builder, uint64_t bytes);

// Makes the engine. What was said of it goes into it, also where this fails: the builder is as new.
// The engine lives until its last handle is freed; keep one as long as its code is executed.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_engine_build(pp_engine_builder *builder, pp_engine **engine);

// One more handle of the same engine.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_engine_clone(const pp_engine *engine, pp_engine **clone);

// Frees a handle of an engine. With the last one the engine goes, with its stubs: no thread executes
// its code then, or returns to it.
//
// # Safety
// Promises what is said above. Threads: any. Handlers: yes, where it is not the last handle. Stopped
// world: no. Signal handlers: no.
pp_error *pp_engine_free(pp_engine *engine);

// Adds an observer. Where this fails, `data` is still the caller's; afterwards the finalizer frees it.
//
// # Safety
// Promises that the observer can be called with `data` on any thread that makes changes. Threads: any.
// Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_engine_builder_observer(pp_engine_builder *builder,
                                     pp_observer observer,
                                     void *data,
                                     pp_finalizer finalizer);

// Writes the names of functions, stubs and exit stubs into a map for profilers: the file of that name,
// or /tmp/perf-PID.map where `path` is empty.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_engine_builder_perf_map(pp_engine_builder *builder,
                                     pp_str path);

// Writes names and bytes of code into a dump for `perf inject --jit`, in that folder.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_engine_builder_jit_dump(pp_engine_builder *builder, pp_str folder);

// Tells GDB of functions, stubs and exit stubs, with the way to their callers. Refused on big-endian
// PowerPC64.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_engine_builder_gdb(pp_engine_builder *builder);

// Tells the process's unwinder how frames are found in stubs and exit stubs, so that exceptions and
// backtraces go through them.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_engine_builder_unwinder(pp_engine_builder *builder);

// Loads one object file into memory of the engine's. Undefined symbols are looked up by `lookup`,
// which may be NULL. The code is a handle to be freed by pp_code_free(), also when a registration has
// taken what it refers to. Nothing of it is executed.
//
// # Safety
// Promises that `lookup` can be called with `data`, and that what it finds can be used as the object
// does. Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_load(const pp_engine *engine,
                  pp_bytes object,
                  pp_symbol_lookup lookup,
                  void *data,
                  pp_code **code);

// Loads several objects that may refer to each other, and records calls if that is asked for.
//
// # Safety
// As for pp_load(). Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_load_objects(const pp_engine *engine, const pp_load_options *options, pp_code **code);

// The address of a symbol that the objects define and do not hide; 0 if there is none. It may be
// called when the module that is made of the code is released.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_code_symbol(const pp_code *code, pp_str name, uint64_t *address);

// Writes the addresses of the functions that the objects want called before their others, in this
// order, as far as there is room, and how many there are. The engine never calls them: call them when
// the module is released.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_code_constructors(const pp_code *code,
                               uint64_t *addresses,
                               size_t room,
                               size_t *count);

// The same for the functions that the objects want called after all others, in this order: before
// the module is unregistered.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_code_destructors(const pp_code *code, uint64_t *addresses, size_t room, size_t *count);

// Takes these stack maps for the code in place of its own, in its byte order. They are read when the
// code is registered.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_code_set_stack_maps(pp_code *code,
                                 pp_bytes section);

// Frees code, and with it what no registration has taken.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_code_free(pp_code *code);

// Starts to describe code by the bytes of its stack map section, which are copied. No bytes are right
// for code of which no stack map tells: its sites are told by pp_registration_site(). To be freed by
// pp_adoption_free().
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_adoption_new(pp_bytes stack_maps,
                          pp_adoption **adoption);

// Describes code that another linker has placed by the object file that it was: its functions, stack
// maps, unwind information and tables. `lookup` is asked for the address of each section.
//
// # Safety
// Promises that `lookup` can be called with `data`. Threads: any. Handlers: yes. Stopped world: no.
// Signal handlers: no.
pp_error *pp_adoption_from_object(pp_bytes object,
                                  pp_section_lookup lookup,
                                  void *data,
                                  pp_adoption **adoption);

// Adds a function: its name, its address and its length in bytes.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_adoption_function(pp_adoption *adoption, pp_str name, uint64_t address, uint32_t len);

// The function that was added last is called through this pointer: on PowerPC ELFv1, the address of
// its descriptor.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_adoption_called_at(pp_adoption *adoption, uint64_t pointer);

// Writes the addresses of the functions of the stack map, in its order, into it: where the section
// was taken from an object file, which does not know them.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_adoption_function_addresses(pp_adoption *adoption,
                                         const uint64_t *addresses,
                                         size_t count);

// Adds unwind information: the bytes of an .eh_frame section, which are copied, and the address where
// it is.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_adoption_eh_frame(pp_adoption *adoption,
                               uint64_t address,
                               pp_bytes bytes);

// Adds the functions of which the unwind information tells that was added before. They are named by
// their addresses; those that are known already stay as they are.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_adoption_functions_from_eh_frame(pp_adoption *adoption);

// Adds a table about the code, such as a PC section: its name, its address and its bytes, which are
// copied.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_adoption_code_table(pp_adoption *adoption,
                                 pp_str name,
                                 uint64_t address,
                                 pp_bytes bytes);

// The code has not been executed yet, and will not be before its module is released.
//
// # Safety
// Promises what is said above. Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_adoption_not_yet_run(pp_adoption *adoption);

// How many functions are known so far.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_adoption_function_count(const pp_adoption *adoption, size_t *count);

// Takes over the code that was described, to be written by the strategy asked for, one of
// pp_strategy. The description is used up, and still to be freed.
//
// # Safety
// Promises, from now until the module that is made of the code is gone with every handle of it: every
// function's range is mapped, readable and executable and holds that function's code; nobody but this
// library writes to the ranges, or unmaps, moves or protects the pages they lie in; what else lies in
// those pages is code that the same threads execute, or nothing; the memory is not shared with a
// mapping that is writable and executable at once. Threads: any. Handlers: yes. Stopped world: no.
// Signal handlers: no.
pp_error *pp_adopt(const pp_engine *engine,
                   pp_adoption *adoption,
                   uint32_t strategy,
                   pp_code **code);

// Takes over code that was written into memory of an arena, which is written through that. The
// description is used up, and still to be freed. The segments are not kept by the module: `placed` is
// freed after it.
//
// # Safety
// Promises that the memory holds the functions' code, that only this library writes it from now on,
// and that `placed` is not freed before the module that is made of the code is unregistered and gone
// with every handle of it. Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_adopt_placed(const pp_engine *engine,
                          pp_adoption *adoption,
                          const pp_placed *placed,
                          pp_code **code);

// Frees a description.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_adoption_free(pp_adoption *adoption);

// Starts to register code, which is taken from its handle. To be freed by pp_registration_free(),
// also after pp_register().
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_registration_new(const pp_engine *engine,
                              pp_code *code,
                              pp_registration **registration);

// Every record with that ID becomes a site of this shape.
//
// # Safety
// Promises that its sites are called so. Threads: any. Handlers: yes. Stopped world: no. Signal
// handlers: no.
pp_error *pp_registration_shape(pp_registration *registration, uint64_t id, const pp_shape *shape);

// Adds reserved bytes at the start of a function.
//
// # Safety
// Promises that what is told is true. Threads: any. Handlers: yes. Stopped world: no. Signal
// handlers: no.
pp_error *pp_registration_entry(pp_registration *registration, const pp_entry_site *entry);

// Adds a site of which the runtime itself tells.
//
// # Safety
// Promises that what is told is true. Threads: any. Handlers: yes. Stopped world: no. Signal
// handlers: no.
pp_error *pp_registration_site(pp_registration *registration, const pp_told_site *site);

// Makes patchpoints, entry sites and told sites live: they are changed while threads execute them.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_registration_live(pp_registration *registration);

// Handlers will leave or replace frames of this module's functions: registering is refused if that
// cannot be done at every site.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_registration_leavable(pp_registration *registration);

// The LLVM that compiled the code lists all live-outs: callee-saved registers that are not listed
// are free.
//
// # Safety
// Promises what is said above. Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_registration_trust_live_outs(pp_registration *registration);

// By what the frames of the functions are found: one of pp_unwind_by.
//
// # Safety
// Promises that every function of the module keeps its frame so. Threads: any. Handlers: yes. Stopped
// world: no. Signal handlers: no.
pp_error *pp_registration_unwind_by(pp_registration *registration,
                                    uint32_t how);

// Makes a module of the code: every record whose ID was given a shape becomes a site, those for
// which `choice` tells one, and the sites that were added. `choice` may be NULL. Where this fails
// nothing is registered, and the registration has lost its code.
//
// # Safety
// Promises that all that is told of the code is true until the last handle of the module is freed;
// that no thread executes the code before pp_module_release(), unless it was adopted as code that may
// have run; and that what sequences load, store and leave as results, and what handlers answer for
// results and values, is right for the code. Threads: any. Handlers: yes. Stopped world: no. Signal
// handlers: no.
pp_error *pp_register(pp_registration *registration,
                      pp_shape_choice choice,
                      void *data,
                      pp_module **module);

// Frees a registration, and the code that it has not made a module of.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_registration_free(pp_registration *registration);

// Declares that threads may execute the module's code from now on. Into code that has not run nobody
// returns: patches before this have all bytes of a site. There is no way back.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_module_release(const pp_module *module);

// Whether the module is changed while threads execute it.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_module_is_live(const pp_module *module, bool *is_live);

// The function of that name, as a handle to be freed by pp_function_free().
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_module_function(const pp_module *module, pp_str name, pp_function **function);

// How many functions the module has.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_module_function_count(const pp_module *module, size_t *count);

// The function at `index`, in ascending address, as a handle to be freed by pp_function_free().
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_module_function_at(const pp_module *module, size_t index, pp_function **function);

// All sites of the module, as a list to be freed by pp_sites_free().
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_module_sites(const pp_module *module, pp_sites **sites);

// The sites of the module with that ID, as a list to be freed by pp_sites_free().
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_module_sites_with_id(const pp_module *module, uint64_t id, pp_sites **sites);

// The sites of the module that call the function of that name, as a list to be freed by
// pp_sites_free(): those whose calls were recorded when the code was loaded.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_module_calls_of(const pp_module *module, pp_str function, pp_sites **sites);

// Forgets a module, its stubs and exit stubs. The handle stays to be freed. Code that the engine has
// loaded is unloaded when the last handle of the module, a site or a function of it is freed. Adopted
// code stays where it is, with the bytes that it has then: where it is to go on running, restore its
// sites before. Stubs that later patches have replaced are not the module's any more: they stay until
// pp_engine_reclaim() or pp_engine_reclaim_passed().
//
// # Safety
// Promises that no thread executes the module's code or stubs, or returns there, from now on.
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_engine_unregister(const pp_engine *engine,
                               const pp_module *module);

// Frees a handle of a module; the module stays registered.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_module_free(pp_module *module);

// The function's name, lent as long as the handle is not freed.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_function_name(const pp_function *function, pp_str *name);

// The address of the function's first byte and its length, to look at and not to call.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_function_range(const pp_function *function, uint64_t *address, uint64_t *len);

// What a pointer to the function holds, to be called: refused before pp_module_release(). It is good
// as long as the module is registered and its engine is there.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_function_entry(const pp_function *function,
                            uint64_t *entry);

// The sites of the function, as a list to be freed by pp_sites_free().
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_function_sites(const pp_function *function, pp_sites **sites);

// Frees a handle of a function.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_function_free(pp_function *function);

// The sites with that ID in all modules of the engine, as a list to be freed by pp_sites_free().
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_engine_sites(const pp_engine *engine, uint64_t id, pp_sites **sites);

// The site that contains that address; NULL if none does.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_engine_site_at(const pp_engine *engine, uint64_t address, pp_site **site);

// The site one of whose stubs or exit stubs contains that address; NULL if none does. It takes time
// in the number of changed sites.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_engine_site_of_stub(const pp_engine *engine, uint64_t address, pp_site **site);

// The function that contains that address; NULL if none does.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_engine_function_at(const pp_engine *engine, uint64_t address, pp_function **function);

// The module whose code contains that address; NULL if none does.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_engine_module_at(const pp_engine *engine, uint64_t address, pp_module **module);

// What is known of a site.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_site_get_info(const pp_site *site, pp_site_info *info);

// Where the value at `index` of the site's record is.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_site_location(const pp_site *site, size_t index, pp_location *location);

// The bytes that the site holds now: as many as it has, or as there is room for. `len` becomes how
// many it has.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_site_read(const pp_site *site, uint8_t *bytes, size_t room, size_t *len);

// The function in which the site lies, as a handle to be freed by pp_function_free().
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_site_function(const pp_site *site, pp_function **function);

// The module to which the site belongs, as a handle to be freed by pp_module_free().
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_site_module(const pp_site *site, pp_module **module);

// Whether two handles are of the same site.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_site_is_same(const pp_site *one, const pp_site *other, bool *is_same);

// Attaches data to the site, for handlers to find by pp_frame_description(), for as long as the
// module is there. A site has one at most. Where this fails, `data` is still the caller's; afterwards
// the finalizer frees it.
//
// # Safety
// Promises that the data may be looked at by every thread that is in a handler, and freed by any.
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_site_describe(const pp_site *site,
                           void *data,
                           pp_finalizer finalizer);

// What pp_site_describe() has attached; NULL for nothing.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_site_description(const pp_site *site, void **data);

// One more handle of the same site.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_site_clone(const pp_site *site, pp_site **clone);

// Frees a handle of a site; the site stays as it is.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_site_free(pp_site *site);

// How many sites a list has.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_sites_count(const pp_sites *sites, size_t *count);

// The site at `index` of a list, as a handle of its own, to be freed by pp_site_free().
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_sites_at(const pp_sites *sites, size_t index, pp_site **site);

// Frees a list of sites.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_sites_free(pp_sites *sites);

// An empty sequence, which does nothing. To be freed by pp_sequence_free().
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_sequence_new(pp_sequence **sequence);

// The sequence that a text says, such as "guard u32[arg(0)+8] == 0x17 else miss; result =
// u64[arg(0)+24]". README.md has the grammar. To be freed by pp_sequence_free().
//
// # Safety
// Promises of addresses and of bytes that are not decoded, where the text has some, what
// pp_sequence_call(), pp_target and pp_sequence_vouched() promise. Threads: any. Handlers: yes.
// Stopped world: no. Signal handlers: no.
pp_error *pp_sequence_from_text(pp_str text, pp_sequence **sequence);

// The sequence as text, to be freed by pp_text_free().
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_sequence_text(const pp_sequence *sequence, pp_text **text);

// A copy, to be freed by pp_sequence_free().
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_sequence_clone(const pp_sequence *sequence, pp_sequence **clone);

// Adds: go on only if the condition (one of pp_cond) holds between the two values, else to the target.
//
// # Safety
// Promises what pp_target says. Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_sequence_guard(pp_sequence *sequence,
                            uint32_t condition,
                            pp_source left,
                            pp_source right,
                            pp_target target);

// Adds: go to the target if the condition (one of pp_cond) holds between the two values, else on.
//
// # Safety
// Promises what pp_target says. Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_sequence_jump_if(pp_sequence *sequence,
                              uint32_t condition,
                              pp_source left,
                              pp_source right,
                              pp_target target);

// Adds: write a value, or what is in memory, to the result or a register that is free at the site.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_sequence_move(pp_sequence *sequence, pp_operand to, pp_source from);

// Adds: write a value to memory, which is made by pp_at().
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_sequence_store(pp_sequence *sequence, pp_source to, pp_source from);

// Adds: add a value to the result, written before, or to a register that is free at the site.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_sequence_add(pp_sequence *sequence, pp_operand to, pp_source from);

// Adds: clear the bits of `to` that the mask has not.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_sequence_and(pp_sequence *sequence, pp_operand to, uint64_t mask);

// Adds: shift all of `to` by 0 to 63 bits, as one of pp_shift says.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_sequence_shift(pp_sequence *sequence, uint32_t how, pp_operand to, uint8_t by);

// Adds: add a value to memory, which is made by pp_at(), atomically or not.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_sequence_add_to_memory(pp_sequence *sequence,
                                    pp_source to,
                                    pp_source from,
                                    bool atomic);

// Adds: call the function at that address. `on_return` is one of pp_on_return.
//
// # Safety
// Promises, as long as the sequence may be executed, that there is a function which can be called
// there with what the site passes, and which does as `on_return` says. Threads: any. Handlers: yes.
// Stopped world: no. Signal handlers: no.
pp_error *pp_sequence_call(pp_sequence *sequence, uint64_t address, uint32_t on_return);

// Adds: go to the target.
//
// # Safety
// Promises what pp_target says. Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_sequence_jump(pp_sequence *sequence,
                           pp_target target);

// Adds: return from the function, at entry sites.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_sequence_return(pp_sequence *sequence);

// Adds: stop with the exception of an invalid instruction.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_sequence_trap(pp_sequence *sequence);

// Adds bytes as they are: machine code that may be at any address and goes on behind its end. It is
// checked like anything else before it is written.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_sequence_raw(pp_sequence *sequence, pp_bytes bytes);

// Adds bytes that are not decoded, for instructions that the checker does not know.
//
// # Safety
// Promises that the bytes are whole instructions which may be at any address, go on behind their end,
// leave the stack pointer and the processor's modes alone, write no stack below the stack pointer, and
// write no registers but `writes` and the flags of arithmetic. Threads: any. Handlers: yes. Stopped
// world: no. Signal handlers: no.
pp_error *pp_sequence_vouched(pp_sequence *sequence,
                              pp_bytes bytes,
                              const uint32_t *writes,
                              size_t count);

// Adds the position to which branches to that label go.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_sequence_bind(pp_sequence *sequence, uint32_t label);

// The sequence refuses to be put into a stub where the reserved bytes do not suffice.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_sequence_in_place_only(pp_sequence *sequence);

// Frees a sequence. Sites keep what was put into them.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_sequence_free(pp_sequence *sequence);

// Writes the sequence into every valid site with that ID, of all modules: all of them, or none. Those
// that were invalidated stay so, and are counted. `receipt` may be NULL.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_engine_patch(const pp_engine *engine,
                          uint64_t id,
                          const pp_sequence *sequence,
                          pp_receipt *receipt);

// The same for the sites of one module.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_module_patch(const pp_module *module,
                          uint64_t id,
                          const pp_sequence *sequence,
                          pp_receipt *receipt);

// Writes the sequence into one site.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_site_patch(const pp_site *site, const pp_sequence *sequence, pp_receipt *receipt);

// Puts the original bytes back into every valid site with that ID.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_engine_restore(const pp_engine *engine, uint64_t id, pp_receipt *receipt);

// The same for the sites of one module.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_module_restore(const pp_module *module, uint64_t id, pp_receipt *receipt);

// Puts the original bytes back into one site.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_site_restore(const pp_site *site, pp_receipt *receipt);

// Assembles and checks the sequence for every site with that ID, changes nothing, and shows it: of
// each site address, slack and disassembly before and after. The text is to be freed by
// pp_text_free().
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_engine_plan(const pp_engine *engine,
                         uint64_t id,
                         const pp_sequence *sequence,
                         pp_text **text);

// Makes every patchpoint, shadow and told site of the function go to the handler of deoptimizations,
// for good. When it returns no thread begins to execute what a site held.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_engine_invalidate(const pp_engine *engine,
                               const pp_function *function,
                               pp_receipt *receipt);

// Makes one site go to the handler of deoptimizations, for good.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_engine_invalidate_site(const pp_engine *engine,
                                    const pp_site *site,
                                    pp_receipt *receipt);

// Makes the entry sites of the function jump to that address: nobody enters its code any more.
//
// # Safety
// Promises, as long as a thread may enter the function, that code there can be entered in its place.
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_engine_redirect(const pp_engine *engine,
                             const pp_function *function,
                             uint64_t address,
                             pp_receipt *receipt);

// Makes every recorded call of the function of that name, in all modules, go to that address.
//
// # Safety
// Promises, as long as a recorded call may be made, that the function there can be called in its
// place. Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_engine_retarget(const pp_engine *engine,
                             pp_str function,
                             uint64_t address,
                             pp_receipt *receipt);

// Makes every recorded call of the function of that name go where it was linked to.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_engine_restore_calls(const pp_engine *engine, pp_str function, pp_receipt *receipt);

// Puts a sequence into a stub of its own near the site, for sequences of this site to jump to. It
// stays until the module is unregistered.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_engine_publish_stub(const pp_engine *engine,
                                 const pp_site *site,
                                 const pp_sequence *sequence,
                                 uint64_t *address);

// Moves installed code of live sites from stubs into the sites, where it fits. Nothing waits: sites
// that were patched since the last call are settled by the next one after the reports of all attached
// threads. `settled` may be NULL.
//
// # Safety
// Promises that every thread that executes code of live modules is attached by pp_thread_attach(),
// and that what the threads report is true. Threads: any. Handlers: yes. Stopped world: no. Signal
// handlers: no.
pp_error *pp_engine_settle(const pp_engine *engine,
                           pp_settled *settled);

// Frees the stubs of live modules that nothing branches to any more and that every attached thread
// has left since, as it reports. Nothing waits. `count` becomes how many.
//
// # Safety
// As for pp_engine_settle(). Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_engine_reclaim_passed(const pp_engine *engine, size_t *count);

// Frees the stubs that nothing branches to any more but into which a callee could have returned.
//
// # Safety
// Promises that no thread is in such a stub or will return to one, suspended coroutines included.
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_engine_reclaim(const pp_engine *engine, size_t *count);

// The same for an engine whose world is stopped by signal, which asks the attached threads where they
// are, and waits until none is in these stubs or returns there.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_engine_reclaim_by_signal(const pp_engine *engine,
                                      size_t *count);

// Figures of the engine.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_engine_stats(const pp_engine *engine, pp_stats *stats);

// The last changes that were made, one in a line, oldest first: its number, what the site became, the
// site. The text is to be freed by pp_text_free().
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_engine_journal_text(const pp_engine *engine,
                                 pp_text **text);

// Starts a transaction. To be freed by pp_transaction_free(), which changes nothing.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_transaction_new(const pp_engine *engine, pp_transaction **transaction);

// Adds: every valid site with that ID gets the sequence.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_transaction_patch(pp_transaction *transaction,
                               uint64_t id,
                               const pp_sequence *sequence);

// Adds: the site gets the sequence.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_transaction_patch_site(pp_transaction *transaction,
                                    const pp_site *site,
                                    const pp_sequence *sequence);

// Adds: the site gets its original bytes back.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_transaction_restore_site(pp_transaction *transaction, const pp_site *site);

// Adds: every patchpoint, shadow and told site of the function goes to the handler of
// deoptimizations, for good.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_transaction_invalidate(pp_transaction *transaction, const pp_function *function);

// Adds: the site goes to the handler of deoptimizations, for good.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_transaction_invalidate_site(pp_transaction *transaction, const pp_site *site);

// Adds: the entry sites of the function jump to that address.
//
// # Safety
// As for pp_engine_redirect(). Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_transaction_redirect(pp_transaction *transaction,
                                  const pp_function *function,
                                  uint64_t address);

// Adds: every recorded call of the function of that name goes to that address.
//
// # Safety
// As for pp_engine_retarget(). Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_transaction_retarget(pp_transaction *transaction, pp_str function, uint64_t address);

// Adds: every recorded call of the function of that name goes where it was linked to.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_transaction_restore_calls(pp_transaction *transaction, pp_str function);

// No return address points into the sites of the transaction: their return offsets need not be
// kept. It holds for one attempt to prepare or commit.
//
// # Safety
// Promises what is said above. Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_transaction_grace_period(pp_transaction *transaction);

// The return offsets need not be kept: the world, which is stopped by signal, finds out whether a
// thread is in a site or returns there.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_transaction_quiescent(pp_transaction *transaction);

// When the commit returns, no thread begins to execute what the sites held before, also of live
// ones.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_transaction_immediate(pp_transaction *transaction);

// Prepares the changes and makes them: all, or none. The transaction is as new then; where it fails
// it has its changes still. `receipt` may be NULL.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_transaction_commit(pp_transaction *transaction, pp_receipt *receipt);

// Assembles and checks the changes, and changes no site. The transaction is as new then; where it
// fails it has its changes still. What is prepared is to be freed by pp_prepared_free().
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_transaction_prepare(pp_transaction *transaction, pp_prepared **prepared);

// Frees a transaction; what it has not committed is not made.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_transaction_free(pp_transaction *transaction);

// Shows what was prepared: of each site address, slack and disassembly before and after. The text is
// to be freed by pp_text_free().
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_prepared_text(const pp_prepared *prepared,
                           pp_text **text);

// Makes the changes that were prepared: all, or none. It is refused where a site was changed
// meanwhile. `receipt` may be NULL. What was prepared is used up, and still to be freed.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_prepared_commit(pp_prepared *prepared, pp_receipt *receipt);

// Frees what was prepared; what is not committed is not made.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_prepared_free(pp_prepared *prepared);

// Attaches this thread: it may execute code of live modules, and code under a world that is stopped by
// signal. To be freed by pp_thread_free(), on this thread, before it ends.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_thread_attach(const pp_engine *engine,
                           pp_thread **thread);

// Reports that the thread's program counter is not in compiled code, which is true of whatever
// compiled code calls. Call it often, on the back edge of the interpreter's loop, say.
//
// # Safety
// Promises what is said above. Threads: the one that attached itself. Handlers: yes. Stopped world:
// no. Signal handlers: no.
pp_error *pp_thread_checkpoint(const pp_thread *thread);

// Reports that no frame of compiled code is on the thread's stack, nor in a suspended coroutine that
// it may resume.
//
// # Safety
// Promises what is said above. Threads: the one that attached itself. Handlers: no. Stopped world: no.
// Signal handlers: no.
pp_error *pp_thread_quiescent(const pp_thread *thread);

// Before the thread blocks: it executes no compiled code until pp_thread_online(), and nobody waits
// for it. `state`, one of pp_quiescence, says what is on its stack meanwhile.
//
// # Safety
// Promises what is said above. Threads: the one that attached itself. Handlers: yes. Stopped world:
// no. Signal handlers: no.
pp_error *pp_thread_offline(pp_thread *thread, uint32_t state);

// The thread is back after pp_thread_offline(). Where it was not offline nothing happens.
//
// # Safety
// Threads: the one that attached itself. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_thread_online(pp_thread *thread);

// Detaches the thread, which executes no compiled code any more and has no frames of it.
//
// # Safety
// Promises what is said above. Threads: the one that attached itself. Handlers: no. Stopped world: no.
// Signal handlers: no.
pp_error *pp_thread_free(pp_thread *thread);

// Executes an instruction that makes this core forget what it has fetched: before a thread runs code
// that was written while it was stopped, where nobody else takes care of that.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: yes. Signal handlers: yes.
void pp_serialize(void);

// Makes this thread and every other of the process forget what its core has fetched, before it runs
// anything else: for linkers, where new code lies where there was other code, and the threads that may
// run it are not known. By membarrier, else by a signal to each thread, as the engine does it.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_serialize_all(void);

// What is known of the frame.
//
// # Safety
// Threads: the handler's. Handlers: only there. Stopped world: no. Signal handlers: no.
pp_error *pp_frame_get_info(const pp_frame *frame, pp_frame_info *info);

// The site, as a handle to be freed by pp_site_free().
//
// # Safety
// Threads: the handler's. Handlers: only there. Stopped world: no. Signal handlers: no.
pp_error *pp_frame_site(const pp_frame *frame, pp_site **site);

// The engine, as a handle to be freed by pp_engine_free().
//
// # Safety
// Threads: the handler's. Handlers: only there. Stopped world: no. Signal handlers: no.
pp_error *pp_frame_engine(const pp_frame *frame, pp_engine **engine);

// What pp_site_describe() has attached to the site; NULL for nothing.
//
// # Safety
// Threads: the handler's. Handlers: only there. Stopped world: no. Signal handlers: no.
pp_error *pp_frame_description(const pp_frame *frame, void **data);

// The whole of a register, by its DWARF number.
//
// # Safety
// Threads: the handler's. Handlers: only there. Stopped world: no. Signal handlers: no.
pp_error *pp_frame_register(const pp_frame *frame, uint32_t register_, pp_value *value);

// Writes the low bytes of a register; the others stay.
//
// # Safety
// Promises that the code which goes on can go on with the value there. Threads: the handler's.
// Handlers: only there. Stopped world: no. Signal handlers: no.
pp_error *pp_frame_set_register(pp_frame *frame, uint32_t register_, const pp_value *value);

// Sets the flags that code computes with; the others stay.
//
// # Safety
// As for pp_frame_set_register(). Threads: the handler's. Handlers: only there. Stopped world: no.
// Signal handlers: no.
pp_error *pp_frame_set_flags(pp_frame *frame, uint64_t flags);

// Where the value at `index` of the site's record is.
//
// # Safety
// Threads: the handler's. Handlers: only there. Stopped world: no. Signal handlers: no.
pp_error *pp_frame_location(const pp_frame *frame, size_t index, pp_location *location);

// The value of the location at `index` of the site's record. At a patchpoint with anyregcc the
// result, if it has one, and the arguments come first.
//
// # Safety
// Threads: the handler's. Handlers: only there. Stopped world: no. Signal handlers: no.
pp_error *pp_frame_value(const pp_frame *frame, size_t index, pp_value *value);

// Writes the value of the location at `index` of the site's record: a register or a spilled value.
//
// # Safety
// Threads: the handler's. Handlers: only there. Stopped world: no. Signal handlers: no.
pp_error *pp_frame_set_value(pp_frame *frame, size_t index, const pp_value *value);

// The live value at `index`: of the record's locations, behind the result and the arguments.
//
// # Safety
// Threads: the handler's. Handlers: only there. Stopped world: no. Signal handlers: no.
pp_error *pp_frame_live_value(const pp_frame *frame, size_t index, pp_value *value);

// The live value at `index` as a number of 8 bytes or fewer, which are extended with zeros.
//
// # Safety
// Threads: the handler's. Handlers: only there. Stopped world: no. Signal handlers: no.
pp_error *pp_frame_live_u64(const pp_frame *frame, size_t index, uint64_t *value);

// The site's argument at `index`.
//
// # Safety
// Threads: the handler's. Handlers: only there. Stopped world: no. Signal handlers: no.
pp_error *pp_frame_arg(const pp_frame *frame, size_t index, pp_value *value);

// The site's argument at `index` as a number of 8 bytes or fewer, which are extended with zeros.
//
// # Safety
// Threads: the handler's. Handlers: only there. Stopped world: no. Signal handlers: no.
pp_error *pp_frame_arg_u64(const pp_frame *frame, size_t index, uint64_t *value);

// The floating-point argument at `index` among those of its kind, at a site with the C convention:
// the whole register.
//
// # Safety
// Threads: the handler's. Handlers: only there. Stopped world: no. Signal handlers: no.
pp_error *pp_frame_float_arg(const pp_frame *frame, size_t index, pp_value *value);

// Sets the result of the site to an integer or pointer: what the code finds when it goes on.
//
// # Safety
// Threads: the handler's. Handlers: only there. Stopped world: no. Signal handlers: no.
pp_error *pp_frame_set_result(pp_frame *frame, uint64_t value);

// Sets the result of the site to a floating-point number.
//
// # Safety
// Threads: the handler's. Handlers: only there. Stopped world: no. Signal handlers: no.
pp_error *pp_frame_set_float_result(pp_frame *frame, double value);

// Answers: go on as if nothing had happened, behind the site of a miss, or with the instructions
// that were at an invalidated one. What is written to the frame is what the code finds.
//
// # Safety
// Threads: the handler's. Handlers: only there. Stopped world: no. Signal handlers: no.
pp_error *pp_frame_resume(pp_frame *frame);

// Answers: go on at that address, with the registers as they are in the frame when the handler
// returns, and the stack pointer of the site.
//
// # Safety
// Promises that code there can go on with these registers and that stack. Threads: the handler's.
// Handlers: only there. Stopped world: no. Signal handlers: no.
pp_error *pp_frame_continue_at(pp_frame *frame, uint64_t address);

// As pp_frame_continue_at(), with another stack pointer, which is not below the site's.
//
// # Safety
// As for pp_frame_continue_at(), and what lies below the stack pointer is not needed any more.
// Threads: the handler's. Handlers: only there. Stopped world: no. Signal handlers: no.
pp_error *pp_frame_continue_with_stack(pp_frame *frame, uint64_t address, uint64_t stack_pointer);

// Answers: leave the frame. Its caller finds the value returned, and its own callee-saved registers,
// which the function's unwind information tells: compile it with `uwtable`. `kind` is one of
// pp_return_kind.
//
// # Safety
// Threads: the handler's. Handlers: only there. Stopped world: no. Signal handlers: no.
pp_error *pp_frame_return(pp_frame *frame,
                          uint32_t kind,
                          uint64_t low,
                          uint64_t high);

// Answers as pp_frame_return(), with a vector: as many bytes as the value has.
//
// # Safety
// Threads: the handler's. Handlers: only there. Stopped world: no. Signal handlers: no.
pp_error *pp_frame_return_vector(pp_frame *frame, const pp_value *value);

// Begins to put other frames in the place of this one, below its caller's; what was begun before is
// forgotten. It changes nothing before pp_frame_replace() or pp_frame_replace_call() answers so.
//
// # Safety
// Threads: the handler's. Handlers: only there. Stopped world: no. Signal handlers: no.
pp_error *pp_frame_replace_begin(pp_frame *frame);

// Adds a frame of `size` bytes whose code goes on at `next`: where its callee returns to, or for the
// innermost one where the thread goes on. The slots are written to it, and the code finds the values
// in the registers, which are those that functions preserve, or for the innermost frame any.
//
// # Safety
// Promises that code can go on at `next` with this frame. Threads: the handler's. Handlers: only
// there. Stopped world: no. Signal handlers: no.
pp_error *pp_frame_replace_push(pp_frame *frame,
                                uint64_t next,
                                uint32_t size,
                                const pp_frame_slot *slots,
                                size_t slot_count,
                                const pp_register_value *registers,
                                size_t register_count);

// The stack pointer of the innermost frame of the replacement, and where it goes on.
//
// # Safety
// Threads: the handler's. Handlers: only there. Stopped world: no. Signal handlers: no.
pp_error *pp_frame_replace_state(const pp_frame *frame, uint64_t *stack_pointer, uint64_t *next);

// Answers: go on in the innermost of the new frames.
//
// # Safety
// Threads: the handler's. Handlers: only there. Stopped world: no. Signal handlers: no.
pp_error *pp_frame_replace(pp_frame *frame);

// Answers: call a function with the C convention from the innermost of the new frames, or, where none
// was pushed, in the place of the compiled function. Its arguments are integers, pointers and doubles.
//
// # Safety
// Promises that the function can be called so. Threads: the handler's. Handlers: only there. Stopped
// world: no. Signal handlers: no.
pp_error *pp_frame_replace_call(pp_frame *frame,
                                uint64_t function,
                                const pp_argument *arguments,
                                size_t count);

// Starts to describe caches. To be freed by pp_caches_builder_free().
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_caches_builder_new(pp_caches_builder **builder);

// The usual policy with these numbers: the most entries of a chain (4 if nothing is said), the misses
// that are ignored after the first retraction (1; doubles with each further one), and the misses after
// which a megamorphic cache starts again (1024; doubles; 0 for never).
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_caches_builder_chain(pp_caches_builder *builder,
                                  size_t limit,
                                  uint64_t back_off,
                                  uint64_t cool_down);

// A policy of the caller's own. Where this fails, `data` is still the caller's; afterwards the
// finalizer frees it.
//
// # Safety
// Promises that the policy can be called with `data` on any thread that executes compiled code.
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_caches_builder_policy(pp_caches_builder *builder,
                                   pp_policy policy,
                                   void *data,
                                   pp_finalizer finalizer);

// Whether hits are counted: one of pp_counting.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_caches_builder_counting(pp_caches_builder *builder, uint32_t counting);

// In which order entries are tested: one of pp_order.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_caches_builder_order(pp_caches_builder *builder, uint32_t order);

// What a megamorphic site does, in place of going to the lookup.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_caches_builder_megamorphic(pp_caches_builder *builder, const pp_sequence *sequence);

// Lets the lookup see every register, and leave the frame. Without it misses save what is live, which
// is faster.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_caches_builder_whole_frames(pp_caches_builder *builder);

// Makes the caches, whose misses go to this lookup: it sets the result by pp_frame_set_result(), and
// says by pp_frame_learn() what the next execution with such values should do. The description is used
// up, and still to be freed. Where this fails, `data` is still the caller's; afterwards the finalizer
// frees it. To be freed by pp_caches_free().
//
// # Safety
// Promises that the lookup can be called with `data` from every thread that executes compiled code,
// from several at once and again while it runs. Threads: any. Handlers: yes. Stopped world: no. Signal
// handlers: no.
pp_error *pp_caches_build(pp_caches_builder *builder,
                          pp_handler lookup,
                          void *data,
                          pp_finalizer finalizer,
                          pp_caches **caches);

// Frees a description of caches.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_caches_builder_free(pp_caches_builder *builder);

// In the lookup of a cache: what the next execution with such values should do. The entry stays the
// caller's. The last one counts, and none where the lookup answers otherwise than by returning.
//
// # Safety
// Promises that the entry is right for the site. Threads: the handler's. Handlers: only there. Stopped
// world: no. Signal handlers: no.
pp_error *pp_frame_learn(pp_frame *frame,
                         const pp_entry *entry);

// Gives the site a cache, which is empty: every execution goes to the lookup. A site that has one
// keeps it. `cache` may be NULL; what is put there is to be freed by pp_cache_free().
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_caches_attach(const pp_caches *caches,
                           const pp_engine *engine,
                           const pp_site *site,
                           pp_cache **cache);

// Gives every site with that ID a cache; `count` becomes how many there are.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_caches_attach_all(const pp_caches *caches,
                               const pp_engine *engine,
                               uint64_t id,
                               size_t *count);

// The cache of a site, to be freed by pp_cache_free(); NULL if it has none.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_caches_at(const pp_caches *caches, const pp_site *site, pp_cache **cache);

// Takes every entry back that depends on one of these keys, from all caches, in one transaction. When
// it returns, no thread begins to execute one any more. `count` becomes how many caches have lost
// entries.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_caches_retract(const pp_caches *caches,
                            const uint64_t *keys,
                            size_t key_count,
                            size_t *count);

// Empties all caches, megamorphic ones too, in one transaction; `count` becomes how many have lost
// entries.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_caches_reset(const pp_caches *caches, size_t *count);

// Figures of all caches.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_caches_stats(const pp_caches *caches, pp_cache_stats *stats);

// Frees a handle of caches; an engine keeps those it has.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_caches_free(pp_caches *caches);

// Empties one cache of these.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_cache_reset(const pp_caches *caches, const pp_cache *cache);

// Figures of one cache of these.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_cache_get_stats(const pp_caches *caches, const pp_cache *cache, pp_cache_stats *stats);

// Why the last entry was refused that could not be installed, as an error to be freed; NULL if none
// was.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_cache_last_refusal(const pp_cache *cache);

// Frees a handle of a cache; the site keeps it.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_cache_free(pp_cache *cache);

// An entry whose result is the field of that type (one of pp_type) at `disp` in the object. To be
// freed by pp_entry_free().
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_entry_load(pp_pointer from, uint32_t type_, int32_t disp, pp_entry **entry);

// An entry whose result is the field of that type at `disp` in what the pointer at `at` in the object
// points to.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_entry_load_through(pp_pointer pointer,
                                int32_t at,
                                uint32_t type_,
                                int32_t disp,
                                pp_entry **entry);

// An entry that stores a value in the field of that type at `disp` in the object.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_entry_store(pp_pointer to,
                         uint32_t type_,
                         int32_t disp,
                         pp_source value,
                         pp_entry **entry);

// An entry whose result is this number.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_entry_constant(uint64_t value, pp_entry **entry);

// An entry that calls the function at that address with the site's arguments. `on_return` is one of
// pp_on_return.
//
// # Safety
// Promises what pp_sequence_call() promises. Threads: any. Handlers: yes. Stopped world: no. Signal
// handlers: no.
pp_error *pp_entry_call(uint64_t address, uint32_t on_return, pp_entry **entry);

// The entry applies only where the value is this number.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_entry_guard_equal(pp_entry *entry, pp_source value, uint64_t number);

// The entry applies only where the field of that type at `disp` in the object is this number.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_entry_guard_field(pp_entry *entry,
                               pp_pointer pointer,
                               uint32_t type_,
                               int32_t disp,
                               uint64_t number);

// The entry applies only where the field of that type at `disp`, in what the pointer at `at` in the
// object points to, is this number.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_entry_guard_through(pp_entry *entry,
                                 pp_pointer pointer,
                                 int32_t at,
                                 uint32_t type_,
                                 int32_t disp,
                                 uint64_t number);

// The entry applies only where the bits of the value that the mask has are this number.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_entry_guard_masked(pp_entry *entry, pp_operand value, uint64_t mask, uint64_t number);

// The entry applies only where the bits of the value from bit `from` on are this number.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_entry_guard_high_bits(pp_entry *entry,
                                   pp_operand value,
                                   uint8_t from,
                                   uint64_t number);

// The entry is valid only until the key is retracted by pp_caches_retract().
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_entry_depends_on(pp_entry *entry, uint64_t key);

// Frees an entry; caches keep what they have learnt.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_entry_free(pp_entry *entry);

// An empty arena; nothing is mapped before something is placed. A chunk has room for `chunk_len` bytes
// of code; 0 takes 2 MiB. To be freed by pp_arena_free().
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_arena_new(uint64_t chunk_len,
                       pp_arena **arena);

// Finds room for segments, all in one chunk, in this order. `reach` may be NULL for anywhere. To be
// freed by pp_placement_free(), also when it has been finalized.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_arena_place(const pp_arena *arena,
                         const pp_segment_need *needs,
                         size_t count,
                         const pp_reach *reach,
                         pp_placement **placement);

// Unmaps the chunks in which nothing is placed; `bytes` becomes how much address space that was.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_arena_trim(const pp_arena *arena, uint64_t *bytes);

// Frees a handle of an arena.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_arena_free(pp_arena *arena);

// The segment at `index`, in the order in which they were asked for.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_placement_segment(const pp_placement *placement, size_t index, pp_segment *to);

// Writes bytes into a segment.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_placement_fill(pp_placement *placement, uint64_t address, pp_bytes bytes);

// Ends filling: read-only segments become so, and the instruction cache agrees with the code. Where
// other code may have run at these addresses before, call pp_serialize_all() before any thread runs
// this; or each thread that may run it calls pp_serialize() before. What is placed is to be freed by
// pp_placed_free().
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_placement_finalize(pp_placement *placement,
                                pp_placed **placed);

// Frees a placement, and its room if it was not finalized.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_placement_free(pp_placement *placement);

// The segment at `index`, in the order in which they were asked for.
//
// # Safety
// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
pp_error *pp_placed_segment(const pp_placed *placed, size_t index, pp_segment *to);

// Frees what was placed, which unloads it.
//
// # Safety
// Promises that no thread executes it or holds addresses of it, and that every module that was made of
// it is unregistered and gone with every handle of it. Threads: any. Handlers: yes. Stopped world: no.
// Signal handlers: no.
pp_error *pp_placed_free(pp_placed *placed);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* PATCHPOINT_H */

/* What follows makes values of the structures above, and is no part of the library. */

#ifdef __cplusplus
extern "C" {
#endif

/** The string that is there. */
static inline pp_str pp_str_of(const char *data, size_t len) {
    pp_str made;
    made.data = data;
    made.len = len;
    return made;
}

/** The string that a literal is. */
#define PP_STR(literal) pp_str_of("" literal, sizeof(literal) - 1)

/** The bytes that are there. */
static inline pp_bytes pp_bytes_of(const void *data, size_t len) {
    pp_bytes made;
    made.data = (const uint8_t *)data;
    made.len = len;
    return made;
}

/** An operand of that kind. */
static inline pp_operand pp_operand_of(uint32_t kind, uint64_t value) {
    pp_operand made;
    made.kind = kind;
    made.value = value;
    return made;
}

/** A constant. */
static inline pp_operand pp_imm(uint64_t value) { return pp_operand_of(PP_OPERAND_IMM, value); }
/** The argument of the site with that number. */
static inline pp_operand pp_arg(uint32_t n) { return pp_operand_of(PP_OPERAND_ARG, n); }
/** The live value with that number. */
static inline pp_operand pp_live(uint32_t n) { return pp_operand_of(PP_OPERAND_LIVE, n); }
/** The result of the site. */
static inline pp_operand pp_result(void) { return pp_operand_of(PP_OPERAND_RESULT, 0); }
/** A general register that is free at the site. */
static inline pp_operand pp_temp(void) { return pp_operand_of(PP_OPERAND_TEMP, 0); }
/** The register with that DWARF number. */
static inline pp_operand pp_reg(uint32_t number) { return pp_operand_of(PP_OPERAND_REG, number); }

/** A source of that kind and type. */
static inline pp_source pp_source_of(uint32_t kind, uint32_t type, pp_operand operand, int32_t disp) {
    pp_source made;
    made.kind = kind;
    made.type_ = type;
    made.operand = operand;
    made.disp = disp;
    return made;
}

/** All of an operand. */
static inline pp_source pp_value_of(pp_operand operand) {
    return pp_source_of(PP_SOURCE_OPERAND, PP_U64, operand, 0);
}
/** The low bytes of an operand, as that type. */
static inline pp_source pp_part(uint32_t type, pp_operand operand) {
    return pp_source_of(PP_SOURCE_PART, type, operand, 0);
}
/** The memory of that type at the operand plus `disp`. */
static inline pp_source pp_at(uint32_t type, pp_operand base, int32_t disp) {
    return pp_source_of(PP_SOURCE_MEMORY, type, base, disp);
}

/** A target of that kind. */
static inline pp_target pp_target_of(uint32_t kind, uint64_t value) {
    pp_target made;
    made.kind = kind;
    made.value = value;
    return made;
}

/** The exit stub for a miss. */
static inline pp_target pp_miss(void) { return pp_target_of(PP_TARGET_MISS, 0); }
/** The exit stub for a deoptimization. */
static inline pp_target pp_deopt(void) { return pp_target_of(PP_TARGET_DEOPT, 0); }
/** The end of the site. */
static inline pp_target pp_end(void) { return pp_target_of(PP_TARGET_END, 0); }
/** A label of the sequence. */
static inline pp_target pp_label(uint32_t number) { return pp_target_of(PP_TARGET_LABEL, number); }
/** Code at that address: see PP_TARGET_ADDRESS for what that promises. */
static inline pp_target pp_address(uint64_t address) { return pp_target_of(PP_TARGET_ADDRESS, address); }

/** A pointer that is the value. */
static inline pp_pointer pp_pointer_to(pp_operand value) {
    pp_pointer made;
    made.value = value;
    made.boxing = PP_BOXING_PLAIN;
    made.amount = 0;
    return made;
}

#ifdef __cplusplus
}
#endif
