// patchpoint for LLVM's ORC, of LLVM 14 and 19: code that JITLink links is registered with an engine
// before it runs, and unregistered before its memory is freed. C++17, header only.
//
// Problem: JITLink drops sections that nothing refers to, and nothing refers to a stack map. What it
// places is executable only at the end of a link, its addresses are known only to a plugin, and a
// resource tracker may remove or hand over the code at any time. Approach: a plugin keeps the stack
// map by a symbol, copies it when its relocations have been applied, and hands it over with the
// functions and the unwind information when the code is in place and nobody can have called it.
//
//     patchpoint::orc::MemoryManager memory(arena);
//     auto jit = llvm::orc::LLJITBuilder().setObjectLinkingLayerCreator(
//         [&](llvm::orc::ExecutionSession &session, const llvm::Triple &) {
//             auto layer = std::make_unique<llvm::orc::ObjectLinkingLayer>(session, memory);
//             layer->addPlugin(std::make_unique<patchpoint::orc::Plugin>(engine, &memory, describe));
//             return layer;
//         }).create();
//
// Memory. With `MemoryManager` the code lies in the engine's own memory, which is patched through a
// second mapping. With another memory manager it lies where that has put it, and its pages are
// remapped: copied, and mapped again at their addresses, so that they can be patched.
//
// Threads. Links may run on any thread. Whoever removes resources promises, as ORC has it, that no
// thread is in the code or calls it any more.
#ifndef PATCHPOINT_ORC_HPP
#define PATCHPOINT_ORC_HPP

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <llvm/Config/llvm-config.h>
#include <llvm/ExecutionEngine/JITLink/JITLink.h>
#include <llvm/ExecutionEngine/JITLink/JITLinkMemoryManager.h>
#include <llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h>
#include <llvm/ExecutionEngine/Orc/Shared/AllocationActions.h>
#include <llvm/Support/Error.h>

#include "patchpoint.hpp"

namespace patchpoint::orc {

// An error of the engine's, as LLVM passes errors on. It is lost but for its message.
inline llvm::Error llvmError(Error error) {
  if (!error)
    return llvm::Error::success();
  return llvm::createStringError(llvm::inconvertibleErrorCode(), "%s", error.message().c_str());
}

// A function of a graph that has been linked.
struct Function {
  std::string name;
  uint64_t address;
  uint64_t size;
};

// What a link has placed.
struct Emitted {
  std::vector<uint8_t> stackMaps;
  std::vector<Function> functions;
  uint64_t ehFrameAddress = 0;
  std::vector<uint8_t> ehFrame;
};

namespace detail {

// Where LLVM puts its stack maps, in ELF and in Mach-O.
inline llvm::jitlink::Section *stackMaps(llvm::jitlink::LinkGraph &graph) {
  if (auto *section = graph.findSectionByName(".llvm_stackmaps"))
    return section;
  return graph.findSectionByName("__LLVM_STACKMAPS,__llvm_stackmaps");
}

inline llvm::jitlink::Section *ehFrame(llvm::jitlink::LinkGraph &graph) {
  if (auto *section = graph.findSectionByName(".eh_frame"))
    return section;
  return graph.findSectionByName("__TEXT,__eh_frame");
}

// The bytes of a section, its relocations applied. Between its blocks there are zeros.
inline std::vector<uint8_t> bytesOf(const llvm::jitlink::Section &section) {
  llvm::jitlink::SectionRange range(section);
  std::vector<uint8_t> bytes(range.getSize());
  for (auto *block : section.blocks())
    if (!block->isZeroFill() && block->getSize() != 0)
      std::memcpy(bytes.data() + (block->getAddress() - range.getStart()), block->getContent().data(),
                  block->getSize());
  return bytes;
}

template <class Prot> bool may(Prot prot, Prot what) {
  return (static_cast<unsigned>(prot) & static_cast<unsigned>(what)) != 0;
}

inline bool isExecutable(const llvm::jitlink::Section &section) {
  auto prot = section.getMemProt();
  return may(prot, decltype(prot)::Exec);
}

inline std::vector<Function> functionsOf(llvm::jitlink::LinkGraph &graph) {
  std::vector<Function> functions;
  for (auto *symbol : graph.defined_symbols())
    if (symbol->hasName() && symbol->getSize() != 0 && isExecutable(symbol->getBlock().getSection())) {
      auto name = symbol->getName();
#if LLVM_VERSION_MAJOR >= 20
      functions.push_back({(*name).str(), symbol->getAddress().getValue(), symbol->getSize()});
#else
      functions.push_back({name.str(), symbol->getAddress().getValue(), symbol->getSize()});
#endif
    }
  return functions;
}

} // namespace detail

// Memory of an engine's for JITLink. Code is written through a second mapping, and no page of it is
// ever writable where it is executed. It must outlive the linking layer that uses it.
class MemoryManager : public llvm::jitlink::JITLinkMemoryManager {
public:
  explicit MemoryManager(Arena &arena) : arena(arena) {}

  // Does something with the memory in which that address lies. False if it is not of this.
  template <class F> bool with(uint64_t address, F &&what) {
    std::lock_guard<std::mutex> lock(mutex);
    auto found = byStart.upper_bound(address);
    if (found == byStart.begin())
      return false;
    auto &[end, placed] = std::prev(found)->second;
    if (address >= end)
      return false;
    what(placed);
    return true;
  }

  using JITLinkMemoryManager::allocate;
  using JITLinkMemoryManager::deallocate;

  void allocate(const llvm::jitlink::JITLinkDylib *, llvm::jitlink::LinkGraph &graph,
                OnAllocatedFunction onAllocated) override {
    auto allocation = std::make_unique<InFlight>(*this, graph);
    if (auto error = allocation->place())
      return onAllocated(std::move(error));
    onAllocated(std::move(allocation));
  }

  void deallocate(std::vector<FinalizedAlloc> allocations, OnDeallocatedFunction onDeallocated) override {
    llvm::Error errors = llvm::Error::success();
    for (auto &allocation : allocations) {
      auto *finalized = allocation.release().toPtr<Finalized *>();
      errors = llvm::joinErrors(std::move(errors), llvm::orc::shared::runDeallocActions(finalized->actions));
      forget(finalized);
    }
    onDeallocated(std::move(errors));
  }

private:
  // What is left of a link: its memory, and what is to be done before that is freed.
  struct Finalized {
    Placed placed;
    std::vector<std::pair<uint64_t, uint64_t>> ranges;
    std::vector<llvm::orc::shared::WrapperFunctionCall> actions;
  };

  // LLVM 14 does not deallocate what a plugin has refused: that goes with this.
  Finalized *note(std::unique_ptr<Finalized> finalized) {
    std::lock_guard<std::mutex> lock(mutex);
    for (auto &[start, end] : finalized->ranges)
      byStart[start] = {end, finalized->placed.get()};
    auto *noted = finalized.get();
    all[noted] = std::move(finalized);
    return noted;
  }

  void forget(Finalized *finalized) {
    std::lock_guard<std::mutex> lock(mutex);
    for (auto &[start, end] : finalized->ranges)
      byStart.erase(start);
    all.erase(finalized);
  }

  // Memory between its allocation and the end of the link. JITLink writes into buffers.
  class InFlight : public InFlightAlloc {
  public:
    InFlight(MemoryManager &manager, llvm::jitlink::LinkGraph &graph)
        : manager(manager), graph(graph), layout(graph) {}

    llvm::Error place() {
      std::vector<pp_segment_need> needs;
      for (auto &[group, segment] : layout.segments()) {
        using Prot = decltype(group.getMemProt());
        auto prot = group.getMemProt();
        bool code = detail::may(prot, Prot::Exec), data = detail::may(prot, Prot::Write);
        if (code && data)
          return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                         "a section is writable and executable: patchpoint has no such memory");
        auto kind = code ? PP_SEGMENT_CODE : data ? PP_SEGMENT_DATA : PP_SEGMENT_READ_ONLY;
        needs.push_back({kind, segment.ContentSize + segment.ZeroFillSize, segment.Alignment.value()});
      }
      if (auto error = placement.place(manager.arena, needs))
        return llvmError(std::move(error));
      for (auto &[group, segment] : layout.segments()) {
        pp_segment placed;
        if (auto error = placement.segment(buffers.size(), placed))
          return llvmError(std::move(error));
        buffers.emplace_back(segment.ContentSize + segment.ZeroFillSize);
        addresses.push_back(placed.address);
        segment.WorkingMem = buffers.back().data();
        segment.Addr = llvm::orc::ExecutorAddr(placed.address);
      }
      return layout.apply();
    }

    void finalize(OnFinalizedFunction onFinalized) override {
      auto finalized = std::make_unique<Finalized>();
      // The layout's own addresses are behind what it has laid out by now.
      for (size_t index = 0; index < buffers.size(); ++index) {
        auto &buffer = buffers[index];
        auto start = addresses[index];
        if (auto error = placement.fill(start, buffer.data(), buffer.size()))
          return onFinalized(llvmError(std::move(error)));
        if (!buffer.empty())
          finalized->ranges.emplace_back(start, start + buffer.size());
      }
      if (auto error = placement.finalize(finalized->placed))
        return onFinalized(llvmError(std::move(error)));
      // Where new code lies there may have been other code, which a thread has executed.
      if (Error error = pp_serialize_all())
        return onFinalized(llvmError(std::move(error)));
      auto actions = llvm::orc::shared::runFinalizeActions(graph.allocActions());
      if (!actions)
        return onFinalized(actions.takeError());
      finalized->actions = std::move(*actions);
      auto *noted = manager.note(std::move(finalized));
      onFinalized(FinalizedAlloc(llvm::orc::ExecutorAddr::fromPtr(noted)));
    }

    void abandon(OnAbandonedFunction onAbandoned) override {
      placement = Placement();
      onAbandoned(llvm::Error::success());
    }

  private:
    MemoryManager &manager;
    llvm::jitlink::LinkGraph &graph;
    llvm::jitlink::BasicLayout layout;
    std::vector<std::vector<char>> buffers;
    std::vector<uint64_t> addresses;
    Placement placement;
  };

  Arena &arena;
  std::mutex mutex;
  std::map<Finalized *, std::unique_ptr<Finalized>> all;
  // By the start of each segment: where it ends, and the memory of the engine's in which it is.
  std::map<uint64_t, std::pair<uint64_t, pp_placed *>> byStart;
};

// Registers what is linked, and unregisters it with its resources.
class Plugin : public llvm::orc::ObjectLinkingLayer::Plugin {
public:
  // Says what is known of the sites: shapes, entries, whether they are live.
  using Describe = std::function<Error(const Emitted &, Registration &)>;
  // Is given each module when it is registered and has not run.
  using Registered = std::function<Error(Module &)>;

  // Without a memory manager of this header's the code is remapped where another one has put it.
  Plugin(Engine &engine, MemoryManager *memory, Describe describe, Registered registered = nullptr)
      : engine(engine), memory(memory), describe(std::move(describe)), registered(std::move(registered)) {}

  void modifyPassConfig(llvm::orc::MaterializationResponsibility &responsibility, llvm::jitlink::LinkGraph &graph,
                        llvm::jitlink::PassConfiguration &config) override {
    if (!detail::stackMaps(graph))
      return;
    config.PrePrunePasses.push_back([this](llvm::jitlink::LinkGraph &graph) { return keep(graph); });
    config.PostFixupPasses.push_back([this, &responsibility](llvm::jitlink::LinkGraph &graph) {
      Emitted emitted;
      emitted.stackMaps = detail::bytesOf(*detail::stackMaps(graph));
      emitted.functions = detail::functionsOf(graph);
      if (auto *frames = detail::ehFrame(graph)) {
        emitted.ehFrame = detail::bytesOf(*frames);
        emitted.ehFrameAddress = llvm::jitlink::SectionRange(*frames).getStart().getValue();
      }
      std::lock_guard<std::mutex> lock(mutex);
      linking[&responsibility] = std::move(emitted);
      return llvm::Error::success();
    });
  }

  llvm::Error notifyEmitted(llvm::orc::MaterializationResponsibility &responsibility) override {
    Emitted emitted;
    {
      std::lock_guard<std::mutex> lock(mutex);
      auto found = linking.find(&responsibility);
      if (found == linking.end())
        return llvm::Error::success();
      emitted = std::move(found->second);
      linking.erase(found);
    }
    Module module;
    if (auto error = registerCode(emitted, module))
      return llvmError(std::move(error));
    auto error = responsibility.withResourceKeyDo([&](llvm::orc::ResourceKey key) {
      std::lock_guard<std::mutex> lock(mutex);
      modules[key].push_back(std::move(module));
    });
    // The tracker is gone already, and with it whoever would have called the code.
    if (error && module)
      return llvm::joinErrors(std::move(error), llvmError(engine.unregister(module)));
    return error;
  }

  llvm::Error notifyFailed(llvm::orc::MaterializationResponsibility &responsibility) override {
    std::lock_guard<std::mutex> lock(mutex);
    linking.erase(&responsibility);
    return llvm::Error::success();
  }

#if LLVM_VERSION_MAJOR < 16
  llvm::Error notifyRemovingResources(llvm::orc::ResourceKey key) override { return remove(key); }
  void notifyTransferringResources(llvm::orc::ResourceKey to, llvm::orc::ResourceKey from) override {
    transfer(to, from);
  }
#else
  llvm::Error notifyRemovingResources(llvm::orc::JITDylib &, llvm::orc::ResourceKey key) override {
    return remove(key);
  }
  void notifyTransferringResources(llvm::orc::JITDylib &, llvm::orc::ResourceKey to,
                                   llvm::orc::ResourceKey from) override {
    transfer(to, from);
  }
#endif

private:
  // Keeps the stack maps, to which nothing refers. They keep the functions that they are about.
  llvm::Error keep(llvm::jitlink::LinkGraph &graph) {
    if (auto *section = detail::stackMaps(graph))
      for (auto *block : section->blocks())
        graph.addAnonymousSymbol(*block, 0, block->getSize(), false, true);
    return llvm::Error::success();
  }

  // Registers code that is in place and that nobody knows yet.
  Error registerCode(const Emitted &emitted, Module &module) {
    Adoption adoption;
    Code code;
    if (auto error = adoption.begin(emitted.stackMaps))
      return error;
    for (auto &function : emitted.functions)
      if (auto error = adoption.function(function.name, function.address, static_cast<uint32_t>(function.size)))
        return error;
    if (!emitted.ehFrame.empty())
      if (auto error = adoption.ehFrame(emitted.ehFrameAddress, emitted.ehFrame))
        return error;
    if (auto error = adoption.notYetRun())
      return error;
    Error refused;
    bool isPlaced = memory && !emitted.functions.empty() &&
                    memory->with(emitted.functions.front().address, [&](pp_placed *placed) {
                      refused = engine.adopt(adoption, placed, code);
                    });
    if (!isPlaced)
      refused = engine.adopt(adoption, PP_STRATEGY_REMAP, code);
    if (refused)
      return refused;
    Registration registration;
    if (auto error = registration.begin(engine, code))
      return error;
    if (auto error = describe(emitted, registration))
      return error;
    if (auto error = registration.finish(module))
      return error;
    if (registered)
      refused = registered(module);
    if (!refused)
      refused = module.release();
    if (refused) {
      // Nobody has executed it. What is told is why it was refused.
      Error undone = engine.unregister(module);
      module.reset();
    }
    return refused;
  }

  // ORC frees the memory next, so nobody is in the code.
  llvm::Error remove(llvm::orc::ResourceKey key) {
    std::vector<Module> removed;
    {
      std::lock_guard<std::mutex> lock(mutex);
      auto found = modules.find(key);
      if (found == modules.end())
        return llvm::Error::success();
      removed = std::move(found->second);
      modules.erase(found);
    }
    llvm::Error errors = llvm::Error::success();
    for (auto &module : removed)
      errors = llvm::joinErrors(std::move(errors), llvmError(engine.unregister(module)));
    return errors;
  }

  void transfer(llvm::orc::ResourceKey to, llvm::orc::ResourceKey from) {
    std::lock_guard<std::mutex> lock(mutex);
    auto found = modules.find(from);
    if (found == modules.end())
      return;
    auto moved = std::move(found->second);
    modules.erase(found);
    auto &all = modules[to];
    std::move(moved.begin(), moved.end(), std::back_inserter(all));
  }

  Engine &engine;
  MemoryManager *memory;
  Describe describe;
  Registered registered;
  std::mutex mutex;
  std::map<llvm::orc::MaterializationResponsibility *, Emitted> linking;
  std::map<llvm::orc::ResourceKey, std::vector<Module>> modules;
};

} // namespace patchpoint::orc

#endif // PATCHPOINT_ORC_HPP
