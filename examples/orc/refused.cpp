// What becomes of links that fail, in patchpoint/orc.hpp: a test, and no example. Each is an error of
// the look-up, leaves no module, and none of its memory is left when the JIT and its memory are gone.

#include <llvm/IRReader/IRReader.h>
#include <llvm/Support/SourceMgr.h>
#include "jit.hpp"

static const char *IR[] = {
    // Its site is told to be longer than its function.
    R"(declare i64 @llvm.experimental.patchpoint.i64(i64, i32, ptr, i32, ...)
       define i64 @f(i64 %x) {
         %v = call anyregcc i64 (i64, i32, ptr, i32, ...)
           @llvm.experimental.patchpoint.i64(i64 7, i32 16, ptr null, i32 1, i64 %x)
         ret i64 %v
       })",
    // It calls what nobody has.
    R"(declare i64 @missing(i64)
       declare i64 @llvm.experimental.patchpoint.i64(i64, i32, ptr, i32, ...)
       define i64 @f(i64 %x) {
         %v = call anyregcc i64 (i64, i32, ptr, i32, ...)
           @llvm.experimental.patchpoint.i64(i64 8, i32 16, ptr null, i32 1, i64 %x)
         %w = call i64 @missing(i64 %v)
         ret i64 %w
       })",
    // It has no sites, and is none of the engine's business.
    R"(define i64 @f(i64 %x) {
         %w = add i64 %x, 1
         ret i64 %w
       })",
    // It is right.
    R"(declare i64 @llvm.experimental.patchpoint.i64(i64, i32, ptr, i32, ...)
       define i64 @f(i64 %x) {
         %v = call anyregcc i64 (i64, i32, ptr, i32, ...)
           @llvm.experimental.patchpoint.i64(i64 8, i32 16, ptr null, i32 1, i64 %x)
         ret i64 %v
       })",
};

// What is expected of each: whether it is found, and how many modules there are then.
static const struct {
  bool isFound;
  uint64_t modules;
} RIGHT[] = {{false, 0}, {false, 0}, {true, 0}, {true, 1}};

int main() {
  startLLVM();
  int failures = 0;
  for (bool remapped : {false, true})
    for (int at = 0; at < 4; ++at) {
      patchpoint::Engine engine;
      patchpoint::Arena arena;
      check(arena.create());
      check(patchpoint::EngineBuilder().neverStopped().arena(arena).onMiss([](patchpoint::Frame) {}).build(engine));
      pp_stats before, after;
      bool isFound;
      {
        patchpoint::orc::MemoryManager memory(arena);
        auto describe = [](const patchpoint::orc::Emitted &, patchpoint::Registration &registration) {
          check(registration.patchpoint(7, 64, 1, true));
          check(registration.patchpoint(8, 16, 1, true));
          return registration.live();
        };
        auto jit = makeJit(engine, remapped ? nullptr : &memory, describe, nullptr);
        jit->getExecutionSession().setErrorReporter([](llvm::Error error) { llvm::consumeError(std::move(error)); });
        auto context = std::make_unique<llvm::LLVMContext>();
#if LLVM_VERSION_MAJOR < 15
        context->enableOpaquePointers();
#endif
        llvm::SMDiagnostic diagnostic;
        auto module = llvm::parseIR(llvm::MemoryBufferRef(IR[at], "IR"), diagnostic, *context);
        check(jit->addIRModule(llvm::orc::ThreadSafeModule(std::move(module), std::move(context))));
        auto found = jit->lookup("f");
        isFound = static_cast<bool>(found);
        if (!isFound)
          llvm::consumeError(found.takeError());
        check(engine.stats(before));
      }
      // The JIT has removed what was left, and then the memory went.
      check(engine.stats(after));
      engine.reset();
      uint64_t trimmed;
      check(pp_arena_trim(arena.get(), &trimmed));
      bool isRight = isFound == RIGHT[at].isFound && before.modules == RIGHT[at].modules && after.modules == 0 &&
                     (remapped || trimmed != 0);
      failures += !isRight;
      std::printf("link %d%s: %s\n", at, remapped ? ", remapped" : "", isRight ? "as expected" : "WRONG");
    }
  return failures != 0;
}
