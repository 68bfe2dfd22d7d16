// What both examples need of LLVM: an LLJIT whose code patchpoint knows of and may patch.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/TargetSelect.h>
#include <patchpoint/orc.hpp>

// Ends the program with what went wrong: an example has nobody to hand an error to.
inline void check(llvm::Error error) {
  if (error) {
    std::fprintf(stderr, "LLVM: %s\n", llvm::toString(std::move(error)).c_str());
    std::exit(1);
  }
}

template <class T> T check(llvm::Expected<T> value) {
  check(value.takeError());
  return std::move(*value);
}

inline void check(patchpoint::Error error) {
  if (error) {
    std::fprintf(stderr, "patchpoint: %s\n", error.message().c_str());
    std::exit(1);
  }
}

// To be called once, before LLVM is used.
inline void startLLVM() {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  llvm::InitializeNativeTargetAsmParser();
  // This pass of LLVM's, which is on by default, crashes at many a patchpoint. patchpoint does not
  // need what it finds out.
  const char *arguments[] = {"example", "-enable-patchpoint-liveness=false"};
  llvm::cl::ParseCommandLineOptions(2, arguments);
}

// An LLJIT whose linking layer has the plugin. Its code lies in the arena if there is one, and
// otherwise where LLVM puts it.
inline std::unique_ptr<llvm::orc::LLJIT> makeJit(patchpoint::Engine &engine, patchpoint::orc::MemoryManager *memory,
                                                 patchpoint::orc::Plugin::Describe describe,
                                                 patchpoint::orc::Plugin::Registered registered) {
  using namespace llvm;
  auto machine = check(orc::JITTargetMachineBuilder::detectHost());
  machine.setRelocationModel(Reloc::PIC_);
  machine.setCodeModel(CodeModel::Small);
  auto makeLayer = [&engine, memory, describe, registered](orc::ExecutionSession &session, const Triple &) {
    std::unique_ptr<orc::ObjectLinkingLayer> layer;
    if (memory)
      layer = std::make_unique<orc::ObjectLinkingLayer>(
          session, *memory);
    else
      layer = std::make_unique<orc::ObjectLinkingLayer>(session);
    layer->addPlugin(std::make_unique<patchpoint::orc::Plugin>(engine, memory, describe, registered));
    return Expected<std::unique_ptr<orc::ObjectLayer>>(std::move(layer));
  };
  return check(orc::LLJITBuilder()
                   .setJITTargetMachineBuilder(std::move(machine))
                   .setObjectLinkingLayerCreator(makeLayer)
                   .create());
}

// A function of the JIT's, compiled and registered.
template <class F> F *function(llvm::orc::LLJIT &jit, const char *name) {
#if LLVM_VERSION_MAJOR < 15
  return reinterpret_cast<F *>(check(jit.lookup(name)).getAddress());
#else
  return check(jit.lookup(name)).toPtr<F *>();
#endif
}
