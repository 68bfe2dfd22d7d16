// A small language after LLVM's Kaleidoscope, with objects, and inline caches at its property reads.
//
//     def walk(o, n) sum i < n, o = o.next in o.x * 3 + o.y
//
// is: go n times along `next`, and sum up what is behind `in`. Everything is a 64-bit number or an
// object. Which properties an object has, and where, its *shape* says, as in JavaScript engines; a
// read has to look that up. The program compiles the same text twice: one version calls the runtime
// for each read, in the other each read is a patchpoint that learns. Then it measures both.

#include <cctype>
#include <chrono>
#include <map>
#include <vector>

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>

#include "jit.hpp"

using namespace llvm;

// Objects and their shapes. Properties have numbers, in the order in which the text names them.
struct Shape {
  std::vector<std::pair<uint64_t, uint32_t>> offsets; // A property, and where it is, in bytes.
};

static std::vector<Shape> shapes;

struct Object {
  uint32_t shape;
  uint64_t values[3];
};

static uint32_t offsetIn(const Object *object, uint64_t property) {
  for (auto &[known, offset] : shapes[object->shape].offsets)
    if (known == property)
      return offset;
  std::fprintf(stderr, "there is no such property\n");
  std::exit(1);
}

// What code without caches calls at each read. Few properties: no lookup is quicker.
static uint64_t readProperty(const Object *object, uint64_t property) {
  return *reinterpret_cast<const uint64_t *>(reinterpret_cast<const char *>(object) + offsetIn(object, property));
}

// How many bytes a read reserves.
constexpr uint32_t RESERVED = 48;

// Reads the text, and makes code as it goes: there is no tree.
class Compiler {
public:
  Compiler(LLVMContext &context, bool caches)
      : caches(caches), builder(context), module(std::make_unique<Module>("language", context)) {}

  std::unique_ptr<Module> compile(const std::string &source, std::map<std::string, uint64_t> &properties) {
    text = source;
    at = 0;
    numbers = &properties;
    while (next() != "")
      define();
    return std::move(module);
  }

private:
  // The token that is next: a word, a number or a sign. `take` goes on behind it.
  std::string next() {
    while (at < text.size() && isspace(text[at]))
      ++at;
    size_t end = at;
    while (end < text.size() && isalnum(text[end]))
      ++end;
    return text.substr(at, end == at && at < text.size() ? 1 : end - at);
  }

  std::string take(const char *expected = nullptr) {
    auto token = next();
    if (expected && token != expected) {
      std::fprintf(stderr, "`%s` expected, and not `%s`\n", expected, token.c_str());
      std::exit(1);
    }
    at += token.size();
    return token;
  }

  bool takes(const char *token) { return next() == token && !take().empty(); }

  // def NAME(NAME, ...) EXPRESSION
  void define() {
    take("def");
    auto name = take();
    std::vector<std::string> parameters;
    for (take("("); !takes(")"); takes(","))
      parameters.push_back(take());
    std::vector<Type *> words(parameters.size(), builder.getInt64Ty());
    auto *type = FunctionType::get(builder.getInt64Ty(), words, false);
    auto *function = Function::Create(type, Function::ExternalLinkage, name, *module);
    variables.clear();
    for (size_t index = 0; index < parameters.size(); ++index)
      variables[parameters[index]] = function->getArg(index);
    builder.SetInsertPoint(BasicBlock::Create(builder.getContext(), "", function));
    builder.CreateRet(expression());
    verifyFunction(*function, &errs());
  }

  // sum NAME < EXPRESSION [, NAME = EXPRESSION] in EXPRESSION; or a sum of products
  Value *expression() {
    if (takes("sum"))
      return loop();
    auto *value = product();
    while (next() == "+" || next() == "-")
      value = take() == "+" ? builder.CreateAdd(value, product()) : builder.CreateSub(value, product());
    return value;
  }

  Value *product() {
    auto *value = read();
    while (takes("*"))
      value = builder.CreateMul(value, read());
    return value;
  }

  Value *read() {
    Value *value;
    if (takes("(")) {
      value = expression();
      take(")");
    } else if (isdigit(next()[0])) {
      value = builder.getInt64(std::stoull(take()));
    } else {
      value = variables.at(take());
    }
    while (takes("."))
      value = property(value, numbers->emplace(take(), numbers->size()).first->second);
    return value;
  }

  Value *loop() {
    auto counter = take();
    take("<");
    auto *count = expression(), *zero = static_cast<Value *>(builder.getInt64(0));
    auto carried = takes(",") ? take() : "";
    auto *before = builder.GetInsertBlock(), *body = BasicBlock::Create(builder.getContext(), "", before->getParent());
    builder.CreateBr(body);
    builder.SetInsertPoint(body);
    auto phi = [&](Value *first) {
      auto *phi = builder.CreatePHI(builder.getInt64Ty(), 2);
      phi->addIncoming(first, before);
      return phi;
    };
    auto outer = variables;
    auto *index = phi(zero), *sum = phi(zero), *object = phi(carried.empty() ? zero : variables.at(carried));
    variables[counter] = index;
    if (!carried.empty())
      variables[carried] = object;
    Value *nextObject = object;
    if (!carried.empty()) {
      take("=");
      nextObject = expression();
    }
    take("in");
    auto *nextSum = builder.CreateAdd(sum, expression());
    auto *nextIndex = builder.CreateAdd(index, builder.getInt64(1));
    auto *end = builder.GetInsertBlock(), *done = BasicBlock::Create(builder.getContext(), "", before->getParent());
    index->addIncoming(nextIndex, end);
    sum->addIncoming(nextSum, end);
    object->addIncoming(nextObject, end);
    builder.CreateCondBr(builder.CreateICmpULT(nextIndex, count), body, done);
    builder.SetInsertPoint(done);
    variables = outer;
    return nextSum;
  }

  // A read of a property: a patchpoint whose ID is the property, or a call of the runtime.
  Value *property(Value *object, uint64_t number) {
    auto *word = builder.getInt64Ty();
    if (caches) {
      auto *half = builder.getInt32Ty();
      auto *pointer = PointerType::get(builder.getInt8Ty(), 0);
      auto *type = FunctionType::get(word, {word, half, pointer, half}, true);
      auto patchpoint = module->getOrInsertFunction("llvm.experimental.patchpoint.i64", type);
      auto *value = builder.CreateCall(patchpoint, {builder.getInt64(number), builder.getInt32(RESERVED),
                                                    ConstantPointerNull::get(pointer), builder.getInt32(1), object});
      value->setCallingConv(CallingConv::AnyReg); // The object and the value are in registers of LLVM's choice.
      return value;
    }
    auto *type = FunctionType::get(word, {word, word}, false);
    auto *address = builder.getInt64(reinterpret_cast<uint64_t>(&readProperty));
    auto *function = builder.CreateIntToPtr(address, PointerType::get(type, 0));
    return builder.CreateCall(type, function, {object, builder.getInt64(number)});
  }

  bool caches;
  IRBuilder<> builder;
  std::unique_ptr<Module> module;
  std::string text;
  size_t at = 0;
  std::map<std::string, uint64_t> *numbers = nullptr;
  std::map<std::string, Value *> variables;
};

static patchpoint::Engine engine;

// A read whose object none of the site's entries is for: the site's ID is the property. Where it was
// found is the result, and is learnt for the shape.
static void lookUp(patchpoint::Frame miss) {
  pp_frame_info info;
  uint64_t address;
  check(miss.info(info));
  check(miss.argument(0, address));
  auto *object = reinterpret_cast<const Object *>(address);
  check(miss.setResult(readProperty(object, info.id)));
  patchpoint::Entry entry;
  check(entry.load(PP_U64, offsetIn(object, info.id)));
  check(entry.guard(PP_U32, offsetof(Object, shape), object->shape));
  check(miss.learn(entry));
}

using Walk = uint64_t(const Object *, uint64_t);

// Compiles the text, and gives the function `walk`.
static Walk *compile(orc::LLJIT &jit, const char *text, bool caches, std::map<std::string, uint64_t> &properties) {
  auto context = std::make_unique<LLVMContext>();
#if LLVM_VERSION_MAJOR < 15
  context->enableOpaquePointers();
#endif
  auto module = Compiler(*context, caches).compile(text, properties);
  check(jit.addIRModule(orc::ThreadSafeModule(std::move(module), std::move(context))));
  return function<Walk>(jit, "walk");
}

// Nanoseconds of a read: the best of some tries.
static double measure(Walk *walk, const Object *first, uint64_t &result) {
  constexpr uint64_t ROUNDS = 2000000, READS = 3;
  double best = 1e9;
  for (int tries = 0; tries < 5; ++tries) {
    auto start = std::chrono::steady_clock::now();
    result = walk(first, ROUNDS);
    std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count() / (ROUNDS * READS));
  }
  return best;
}

int main() {
  const char *text = "def walk(o, n) sum i < n, o = o.next in o.x * 3 + o.y";
  startLLVM();
  std::map<std::string, uint64_t> properties;
  patchpoint::Arena arena;
  patchpoint::Caches caches;
  check(arena.create());
  check(caches.create(lookUp));
  check(patchpoint::EngineBuilder().singleThreaded().arena(arena).caches(caches).build(engine));
  patchpoint::orc::MemoryManager memory(arena);
  auto describe = [&](const patchpoint::orc::Emitted &, patchpoint::Registration &registration) {
    for (auto &[name, number] : properties)
      check(registration.patchpoint(number, RESERVED, 1, true));
    return patchpoint::Error();
  };
  auto registered = [&](patchpoint::Module &) {
    for (auto &[name, number] : properties)
      check(caches.attachAll(engine, number));
    return patchpoint::Error();
  };
  auto cachedJit = makeJit(engine, &memory, describe, registered), plainJit = makeJit(engine, &memory, describe, registered);
  Walk *cached = compile(*cachedJit, text, true, properties), *plain = compile(*plainJit, text, false, properties);

  // Shapes in which the properties are at different offsets, and rings of objects of some of them.
  uint32_t numbers[] = {(uint32_t)properties["x"], (uint32_t)properties["y"], (uint32_t)properties["next"]};
  for (uint32_t turn = 0; turn < 4; ++turn)
    shapes.push_back({{{numbers[turn % 3], 8}, {numbers[(turn + 1) % 3], 16}, {numbers[(turn + 2) % 3], 24}}});
  std::printf("%s\n%8s %14s %14s %8s\n", text, "shapes", "lookups, ns", "caches, ns", "ratio");
  bool isRight = true;
  for (uint32_t many : {1, 2, 4}) {
    std::vector<Object> ring(64);
    auto set = [&](Object &object, const char *name, uint64_t value) {
      object.values[offsetIn(&object, properties[name]) / 8 - 1] = value;
    };
    for (size_t at = 0; at < ring.size(); ++at) {
      ring[at].shape = at % many;
      set(ring[at], "x", at);
      set(ring[at], "y", 2 * at);
      set(ring[at], "next", reinterpret_cast<uint64_t>(&ring[(at + 1) % ring.size()]));
    }
    uint64_t one, other;
    double lookups = measure(plain, ring.data(), one), hits = measure(cached, ring.data(), other);
    std::printf("%8u %14.2f %14.2f %7.1fx%s\n", many, lookups, hits, lookups / hits, one == other ? "" : "  WRONG");
    isRight &= one == other;
  }
  pp_cache_stats stats;
  check(caches.stats(stats));
  std::printf("%llu misses, %llu entries\n", (unsigned long long)stats.misses, (unsigned long long)stats.installed);
  return !isRight;
}
