// Code of an LLJIT, patched: an inline cache that learns, a loop that is left in the middle, and a
// function that is patched 100,000 times by one thread while another calls it a million times.
//
// The header patchpoint/orc.hpp does the work at the border: its plugin sees each object that ORC
// links, keeps the stack map, and registers the code before anybody can run it. What is left to the
// runtime is here: to say what its sites are, to answer misses, and to patch. Read `main` first.

#include <atomic>
#include <thread>
#include <llvm/IRReader/IRReader.h>
#include <llvm/Support/SourceMgr.h>

#include "jit.hpp"

// A patchpoint reserves bytes for a sequence; the convention anyregcc leaves its argument and result
// in registers of LLVM's choice. A stackmap emits nothing: what follows it may be overwritten when the
// function is to be left there, and the values behind its first two arguments can be read then.
static const char *IR = R"(
declare i64 @llvm.experimental.patchpoint.i64(i64, i32, ptr, i32, ...)
declare void @llvm.experimental.stackmap(i64, i32, ...)

; sum += objects[index]->property, for each of `count` objects
define i64 @sum(ptr %objects, i64 %count) {
entry:
  br label %loop
loop:
  %index = phi i64 [ 0, %entry ], [ %index.next, %loop ]
  %sum = phi i64 [ 0, %entry ], [ %sum.next, %loop ]
  %at = getelementptr i64, ptr %objects, i64 %index
  %object = load i64, ptr %at
  %value = call anyregcc i64 (i64, i32, ptr, i32, ...)
    @llvm.experimental.patchpoint.i64(i64 78, i32 32, ptr null, i32 1, i64 %object)
  %sum.next = add i64 %sum, %value
  call void (i64, i32, ...)
    @llvm.experimental.stackmap(i64 90, i32 24, ptr %objects, i64 %count, i64 %index, i64 %sum.next)
  %index.next = add i64 %index, 1
  %more = icmp ult i64 %index.next, %count
  br i1 %more, label %loop, label %done
done:
  ret i64 %sum.next
}

; One read, which the last part of the story patches.
define i64 @get(ptr %object) {
  %value = call anyregcc i64 (i64, i32, ptr, i32, ...)
    @llvm.experimental.patchpoint.i64(i64 79, i32 32, ptr null, i32 1, ptr %object)
  ret i64 %value
}
)";
enum Id : uint64_t { READ = 78, GET = 79, LOOP = 90 };

// An object: its shape says where the property is. Shape 0 has none, and computes it.
struct Object {
  uint64_t shape;
  uint64_t words[2];

  uint64_t property() const { return shape == 0 ? words[0] * words[1] : words[shape % 2]; }
  int32_t offset() const { return static_cast<int32_t>(8 + 8 * (shape % 2)); }
};

static patchpoint::Engine engine;
static int misses = 0, left = 0, failures = 0;

static void expect(const char *what, uint64_t found, uint64_t right) {
  failures += found != right;
  std::printf("  %-38s %9llu%s\n", what, (unsigned long long)found, found == right ? "" : "  is WRONG");
}

// No entry of the cache is for this object. What is found is the result, and becomes an entry: the
// next object of that shape does not come here.
static void lookUp(patchpoint::Frame miss) {
  ++misses;
  uint64_t address;
  check(miss.argument(0, address));
  auto *object = reinterpret_cast<const Object *>(address);
  check(miss.setResult(object->property()));
  if (object->shape != 0) {
    patchpoint::Entry entry;
    check(entry.load(PP_U64, object->offset()));
    check(entry.guard(PP_U64, offsetof(Object, shape), object->shape));
    return check(miss.learn(entry));
  }
  // No entry can serve it. Give the function up: its loop goes on to its next site, and to `leave`.
  patchpoint::Site site;
  patchpoint::Function function;
  check(miss.site(site));
  check(pp_site_function(site.get(), function.out()));
  check(engine.invalidate(function));
}

// A site of the function that was given up. At the stackmap all that the loop needs is known: the
// rest is done here, as an interpreter would, and the caller of `sum` gets the result.
static void leave(patchpoint::Frame frame) {
  pp_frame_info info;
  check(frame.info(info));
  if (info.id != LOOP)
    return; // The code goes on; the stackmap follows.
  uint64_t objects, count, index, sum;
  check(frame.live(0, objects));
  check(frame.live(1, count));
  check(frame.live(2, index));
  check(frame.live(3, sum));
  std::printf("  left after object %d of %d\n", (int)index, (int)count);
  for (uint64_t at = index + 1; at < count; ++at)
    sum += reinterpret_cast<const Object *const *>(objects)[at]->property();
  check(frame.returnInt(sum));
  ++left;
}
using Sum = uint64_t(const Object *const *, uint64_t);
using Get = uint64_t(const Object *);

// Calls `sum` with objects of these shapes in turn.
static void call(Sum *sum, const char *what, const std::vector<uint64_t> &shapes) {
  std::vector<Object> objects;
  std::vector<const Object *> list;
  for (uint64_t at = 0; at < 1000; ++at)
    objects.push_back({shapes[at % shapes.size()], {at, 3 * at}});
  uint64_t right = 0;
  for (auto &object : objects) {
    list.push_back(&object);
    right += object.property();
  }
  int before = misses;
  expect(what, sum(list.data(), list.size()), right);
  std::printf("    %d misses of %zu reads\n", misses - before, list.size());
}

// One thread calls `get` a million times while this one patches it 100,000 times. Patch number n makes
// it return n. The number of a patch is announced before it is made and confirmed behind it: a call has
// to return a number between the one that was confirmed before it and the one announced behind it.
static void live(Get *get) {
  constexpr uint64_t CALLS = 1000000, PATCHES = 100000;
  std::atomic<uint64_t> announced{1}, confirmed{1}, calls{0}, wrong{0};
  auto patch = [](uint64_t number) {
    patchpoint::Sequence sequence;
    check(sequence.parse("result = " + std::to_string(number)));
    check(engine.patch(GET, sequence));
  };
  patch(1);
  std::thread reader([&] {
    patchpoint::Thread thread;
    check(thread.attach(engine));
    Object object{1, {0, 0}};
    while (calls < CALLS || announced < PATCHES) {
      uint64_t from = confirmed, found = get(&object), to = announced;
      wrong += found < from || found > to;
      ++calls;
      check(thread.quiescent()); // It is in no code of the engine's here.
    }
  });
  for (uint64_t number = 2; number <= PATCHES; ++number) {
    announced = number;
    patch(number);
    confirmed = number;
    if (number % 64 == 0)
      check(engine.reclaimPassed()); // Stubs in which no thread can be any more are freed.
  }
  reader.join();
  std::printf("  %llu calls, %llu patches\n", (unsigned long long)calls, (unsigned long long)announced);
  expect("wrong results", wrong, 0);
}

// The story, with code in memory of the engine's, or where LLVM has put it.
static void story(patchpoint::Arena &arena, patchpoint::Caches &caches, bool remapped) {
  patchpoint::orc::MemoryManager memory(arena);
  auto describe = [](const patchpoint::orc::Emitted &, patchpoint::Registration &registration) -> patchpoint::Error {
    // How many bytes are reserved and what is passed no stack map says: the runtime does, by IDs.
    check(registration.patchpoint(READ, 32, 1, true));
    check(registration.patchpoint(GET, 32, 1, true));
    check(registration.shadow(LOOP, 24));
    check(registration.leavable()); // `leave` leaves frames: what cannot be left is refused now.
    return registration.live();     // Threads may execute the code while it is patched.
  };
  // It has not run yet: the time to give its reads their caches.
  auto registered = [&](patchpoint::Module &) { return caches.attachAll(engine, READ); };
  auto jit = makeJit(engine, remapped ? nullptr : &memory, describe, registered);

  auto context = std::make_unique<llvm::LLVMContext>();
#if LLVM_VERSION_MAJOR < 15
  context->enableOpaquePointers();
#endif
  llvm::SMDiagnostic diagnostic;
  auto module = llvm::parseIR(llvm::MemoryBufferRef(IR, "IR"), diagnostic, *context);
  auto tracker = jit->getMainJITDylib().createResourceTracker();
  check(jit->addIRModule(tracker, llvm::orc::ThreadSafeModule(std::move(module), std::move(context))));
  auto *sum = function<Sum>(*jit, "sum"); // It is compiled, linked and registered now.
  call(sum, "one shape, for the first time", {1});
  call(sum, "once more", {1});
  call(sum, "a second shape", {1, 2});
  call(sum, "once more", {1, 2});
  call(sum, "an object that no cache can serve", {1, 2, 1, 2, 0});
  live(function<Get>(*jit, "get"));

  // Who has the code may hand it to another tracker. No thread is in it any more when that is
  // removed: the plugin unregisters it, and its memory is freed.
  auto other = jit->getMainJITDylib().createResourceTracker();
  tracker->transferTo(*other);
  check(other->remove());
  size_t freed; // Nor is a thread in any stub that is not used any more, or returns to one.
  check(pp_engine_reclaim(engine.get(), &freed));
  pp_stats stats;
  check(engine.stats(stats));
  expect("modules that are left", stats.modules, 0);
  expect("bytes of stubs that are left", stats.stub_bytes_in_use, 0);
}

int main() {
  startLLVM();
  patchpoint::Arena arena;
  check(arena.create());
  for (bool remapped : {false, true}) {
    std::printf(remapped ? "code in LLVM's memory, remapped:\n" : "code in memory of the engine's:\n");
    patchpoint::Caches caches;
    check(caches.create(lookUp));
    check(patchpoint::EngineBuilder().neverStopped().arena(arena).caches(caches).onDeopt(leave).build(engine));
    story(arena, caches, remapped);
    engine.reset();
  }
  failures += left != 2;
  std::printf(failures ? "SOMETHING IS WRONG\n" : "all results are right\n");
  return failures != 0;
}
