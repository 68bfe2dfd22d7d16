// C++17 over patchpoint.h: handles that free themselves, strings, and callbacks that are lambdas.
//
// No exceptions: what can be refused returns an `Error`, which is true if there is one. Handles are
// moved and not copied; `get` gives the handle of the C interface, for the many functions that have
// no method here. Callbacks must not throw: the library ends the process where one does.
//
//     patchpoint::Engine engine;
//     auto error = patchpoint::EngineBuilder().neverStopped().onDeopt([](patchpoint::Frame frame) {
//         ...
//     }).build(engine);
//
// What the functions promise and who may call them, patchpoint.h says.
#ifndef PATCHPOINT_PATCHPOINT_HPP
#define PATCHPOINT_PATCHPOINT_HPP

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../patchpoint.h"

namespace patchpoint {

inline pp_str str(std::string_view text) { return {text.data(), text.size()}; }

// Why a call was refused or has failed; false for success.
class [[nodiscard]] Error {
public:
  Error() = default;
  Error(pp_error *error) : error(error) {}
  Error(Error &&other) noexcept : error(std::exchange(other.error, nullptr)) {}
  Error &operator=(Error &&other) noexcept {
    std::swap(error, other.error);
    return *this;
  }
  ~Error() { pp_error_free(error); }

  explicit operator bool() const { return error != nullptr; }
  // One of pp_kind.
  uint32_t kind() const { return pp_error_kind(error); }
  // The place, what was needed, what was there and how to mend it.
  std::string message() const {
    pp_str text = pp_error_message(error);
    return std::string(text.data, text.len);
  }

private:
  pp_error *error = nullptr;
};

// A handle of the C interface, which is freed with this.
template <class T, pp_error *(*free)(T *)> class Handle {
public:
  Handle() = default;
  explicit Handle(T *handle) : handle(handle) {}
  Handle(Handle &&other) noexcept : handle(std::exchange(other.handle, nullptr)) {}
  Handle &operator=(Handle &&other) noexcept {
    std::swap(handle, other.handle);
    return *this;
  }
  ~Handle() { reset(); }

  T *get() const { return handle; }
  explicit operator bool() const { return handle != nullptr; }
  void reset() { Error freed(free(std::exchange(handle, nullptr))); }
  // Where a function is to put another handle.
  T **out() {
    reset();
    return &handle;
  }

private:
  T *handle = nullptr;
};

using Site = Handle<pp_site, pp_site_free>;
using Sites = Handle<pp_sites, pp_sites_free>;

// What a cache does for values of some kind.
class Entry : public Handle<pp_entry, pp_entry_free> {
public:
  // The result is the field of that type, one of pp_type, at `offset` in the object that is the first
  // argument.
  Error load(uint32_t type, int32_t offset) { return pp_entry_load(pp_pointer_to(pp_arg(0)), type, offset, out()); }
  // Only where the field of that type at `offset` in the object is this number.
  Error guard(uint32_t type, int32_t offset, uint64_t number) {
    return pp_entry_guard_field(get(), pp_pointer_to(pp_arg(0)), type, offset, number);
  }
  // Only until the key is retracted.
  Error dependsOn(uint64_t key) { return pp_entry_depends_on(get(), key); }
};

// A frame of compiled code in a handler: good until the handler returns.
class Frame {
public:
  explicit Frame(pp_frame *frame) : frame(frame) {}

  pp_frame *get() const { return frame; }
  Error info(pp_frame_info &info) const {
    info.size = sizeof info;
    return pp_frame_get_info(frame, &info);
  }
  Error argument(size_t index, uint64_t &value) const { return pp_frame_arg_u64(frame, index, &value); }
  Error live(size_t index, uint64_t &value) const { return pp_frame_live_u64(frame, index, &value); }
  Error setResult(uint64_t value) { return pp_frame_set_result(frame, value); }
  Error site(Site &site) const { return pp_frame_site(frame, site.out()); }
  // In the lookup of caches: what the next execution with such values should do.
  Error learn(const Entry &entry) { return pp_frame_learn(frame, entry.get()); }
  // The answers. The last one counts; without one the frame is resumed.
  Error resume() { return pp_frame_resume(frame); }
  Error returnInt(uint64_t value) { return pp_frame_return(frame, PP_RETURN_INT, value, 0); }

private:
  pp_frame *frame;
};

using Handler = std::function<void(Frame)>;

namespace detail {

// A function of C++ as a callback of C: what it is called by, and the data that it is called with.
inline void handle(pp_frame *frame, void *data) { (*static_cast<Handler *>(data))(Frame(frame)); }

template <class F> void drop(void *data) { delete static_cast<F *>(data); }

} // namespace detail

// A function of a registered module.
class Function : public Handle<pp_function, pp_function_free> {
public:
  // Its address, for calls, once its module has been released.
  template <class F> Error entry(F *&function) const {
    uint64_t address = 0;
    Error error = pp_function_entry(get(), &address);
    function = reinterpret_cast<F *>(static_cast<uintptr_t>(address));
    return error;
  }
};

// A registered module.
class Module : public Handle<pp_module, pp_module_free> {
public:
  // Its code may run from now on.
  Error release() { return pp_module_release(get()); }
  Error function(std::string_view name, Function &function) const {
    return pp_module_function(get(), str(name), function.out());
  }
  Error sites(uint64_t id, Sites &sites) const { return pp_module_sites_with_id(get(), id, sites.out()); }
};

// What is to be put into a site, in terms of its values.
class Sequence : public Handle<pp_sequence, pp_sequence_free> {
public:
  // As text, such as "guard u32[arg(0)+8] == 0x17 else miss; result = u64[arg(0)+24]".
  Error parse(std::string_view text) { return pp_sequence_from_text(str(text), out()); }
};

// Memory of an engine's, for code of other JITs too.
class Arena : public Handle<pp_arena, pp_arena_free> {
public:
  Error create() { return pp_arena_new(0, out()); }
};

// Memory that is complete.
using Placed = Handle<pp_placed, pp_placed_free>;

// Memory that is being filled.
class Placement : public Handle<pp_placement, pp_placement_free> {
public:
  // Anywhere, and all within reach of each other.
  Error place(const Arena &arena, const std::vector<pp_segment_need> &needs) {
    return pp_arena_place(arena.get(), needs.data(), needs.size(), nullptr, out());
  }
  Error segment(size_t index, pp_segment &segment) const {
    segment.size = sizeof segment;
    return pp_placement_segment(get(), index, &segment);
  }
  Error fill(uint64_t at, const void *bytes, size_t len) {
    return pp_placement_fill(get(), at, {static_cast<const uint8_t *>(bytes), len});
  }
  Error finalize(Placed &placed) { return pp_placement_finalize(get(), placed.out()); }
};

// Code in memory that no module has been made of yet.
using Code = Handle<pp_code, pp_code_free>;

// A description of code that somebody else has placed.
class Adoption : public Handle<pp_adoption, pp_adoption_free> {
public:
  Error begin(const std::vector<uint8_t> &stackMaps) {
    return pp_adoption_new({stackMaps.data(), stackMaps.size()}, out());
  }
  Error function(std::string_view name, uint64_t address, uint32_t len) {
    return pp_adoption_function(get(), str(name), address, len);
  }
  Error ehFrame(uint64_t address, const std::vector<uint8_t> &bytes) {
    return pp_adoption_eh_frame(get(), address, {bytes.data(), bytes.size()});
  }
  Error notYetRun() { return pp_adoption_not_yet_run(get()); }
};

// Patches the sites of registered modules.
class Engine : public Handle<pp_engine, pp_engine_free> {
public:
  Error load(const void *object, size_t len, Code &code, pp_symbol_lookup lookup = nullptr, void *data = nullptr) {
    return pp_load(get(), {static_cast<const uint8_t *>(object), len}, lookup, data, code.out());
  }
  // One of pp_strategy.
  Error adopt(Adoption &adoption, uint32_t strategy, Code &code) {
    return pp_adopt(get(), adoption.get(), strategy, code.out());
  }
  Error adopt(Adoption &adoption, const pp_placed *placed, Code &code) {
    return pp_adopt_placed(get(), adoption.get(), placed, code.out());
  }
  Error patch(uint64_t id, const Sequence &sequence) { return pp_engine_patch(get(), id, sequence.get(), nullptr); }
  Error restore(uint64_t id) { return pp_engine_restore(get(), id, nullptr); }
  Error invalidate(const Function &function) { return pp_engine_invalidate(get(), function.get(), nullptr); }
  Error settle(pp_settled &settled) {
    settled.size = sizeof settled;
    return pp_engine_settle(get(), &settled);
  }
  Error reclaimPassed() {
    size_t count = 0;
    return pp_engine_reclaim_passed(get(), &count);
  }
  Error stats(pp_stats &stats) const {
    stats.size = sizeof stats;
    return pp_engine_stats(get(), &stats);
  }
  // No thread is in the module's code any more, or will be.
  Error unregister(const Module &module) { return pp_engine_unregister(get(), module.get()); }
};

// What is said of code before a module is made of it.
class Registration : public Handle<pp_registration, pp_registration_free> {
public:
  Error begin(const Engine &engine, Code &code) { return pp_registration_new(engine.get(), code.get(), out()); }
  // Patchpoints with that ID: how many bytes they reserve, and what they pass.
  Error patchpoint(uint64_t id, uint32_t reserved, uint32_t args, bool hasResult,
                   uint32_t convention = PP_CONVENTION_ANY_REG) {
    pp_shape shape = {};
    shape.size = sizeof shape;
    shape.kind = PP_SITE_PATCHPOINT;
    shape.reserved = reserved;
    shape.convention = convention;
    shape.args = args;
    shape.has_result = hasResult;
    return pp_registration_shape(get(), id, &shape);
  }
  // Stackmaps with that ID: how many of the bytes that follow may be overwritten.
  Error shadow(uint64_t id, uint32_t reserved) {
    pp_shape shape = {};
    shape.size = sizeof shape;
    shape.kind = PP_SITE_SHADOW;
    shape.reserved = reserved;
    return pp_registration_shape(get(), id, &shape);
  }
  // Handlers will leave frames: what cannot be left is refused.
  Error leavable() { return pp_registration_leavable(get()); }
  // They are changed while threads execute them.
  Error live() { return pp_registration_live(get()); }
  Error finish(Module &module) { return pp_register(get(), nullptr, nullptr, module.out()); }
};

// Inline caches, which learn from misses.
class Caches : public Handle<pp_caches, pp_caches_free> {
public:
  // A lookup that computes the result and says by `learn` what the next execution should do.
  Error create(Handler lookup) {
    Handle<pp_caches_builder, pp_caches_builder_free> builder;
    if (Error error = pp_caches_builder_new(builder.out()))
      return error;
    return create(builder.get(), std::move(lookup));
  }
  // The same with a policy and the rest as the builder of the C interface has been told.
  Error create(pp_caches_builder *builder, Handler lookup) {
    auto *data = new Handler(std::move(lookup));
    Error error = pp_caches_build(builder, detail::handle, data, detail::drop<Handler>, out());
    if (error)
      delete data;
    return error;
  }
  Error attach(const Engine &engine, const Site &site) {
    return pp_caches_attach(get(), engine.get(), site.get(), nullptr);
  }
  Error attachAll(const Engine &engine, uint64_t id) {
    size_t count = 0;
    return pp_caches_attach_all(get(), engine.get(), id, &count);
  }
  Error retract(const std::vector<uint64_t> &keys) {
    size_t count = 0;
    return pp_caches_retract(get(), keys.data(), keys.size(), &count);
  }
  Error stats(pp_cache_stats &stats) const {
    stats.size = sizeof stats;
    return pp_caches_stats(get(), &stats);
  }
};

// A thread that executes code of live modules, by the thread itself: it reports where it is, so that
// nobody waits for it in vain, and is to be detached by it before it ends.
class Thread : public Handle<pp_thread, pp_thread_free> {
public:
  Error attach(const Engine &engine) { return pp_thread_attach(engine.get(), out()); }
  // It is not in compiled code, but may have frames of it.
  Error checkpoint() { return pp_thread_checkpoint(get()); }
  // It has no frame of compiled code.
  Error quiescent() { return pp_thread_quiescent(get()); }
};

// Describes an engine. The first thing that is refused is what `build` returns.
class EngineBuilder {
public:
  EngineBuilder() { note(pp_engine_builder_new(builder.out())); }

  EngineBuilder &singleThreaded() { return note(pp_engine_builder_world_single_threaded(builder.get())); }
  EngineBuilder &neverStopped() { return note(pp_engine_builder_world_never_stopped(builder.get())); }
  EngineBuilder &arena(const Arena &arena) { return note(pp_engine_builder_arena(builder.get(), arena.get())); }
  EngineBuilder &caches(const Caches &caches) { return note(pp_engine_builder_caches(builder.get(), caches.get())); }
  EngineBuilder &onMiss(Handler handler) { return with(pp_engine_builder_on_miss, std::move(handler)); }
  EngineBuilder &onDeopt(Handler handler) { return with(pp_engine_builder_on_deopt, std::move(handler)); }
  Error build(Engine &engine) {
    if (first)
      return std::move(first);
    return pp_engine_build(builder.get(), engine.out());
  }

private:
  EngineBuilder &note(pp_error *error) {
    Error noted(error);
    if (!first)
      first = std::move(noted);
    return *this;
  }

  template <class F> EngineBuilder &with(F function, Handler handler) {
    auto *data = new Handler(std::move(handler));
    pp_error *error = function(builder.get(), detail::handle, data, detail::drop<Handler>);
    if (error)
      delete data;
    return note(error);
  }

  Handle<pp_engine_builder, pp_engine_builder_free> builder;
  Error first;
};

} // namespace patchpoint

#endif // PATCHPOINT_PATCHPOINT_HPP
