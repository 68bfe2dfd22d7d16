// LLVM's own reader of stack maps, for the comparison: `main FILE`. For each line of its input it reads the map in the
// file once, visits every field, and prints how many nanoseconds that took and the sum of the fields.

#include <cinttypes>
#include <cstdio>
#include <ctime>
#include <vector>

#include <llvm/Object/StackMapParser.h>

using Parser = llvm::StackMapParser<llvm::endianness::little>;

static uint64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t value(const Parser::LocationAccessor &location) {
  switch (location.getKind()) {
  case Parser::LocationKind::Register:
    return location.getDwarfRegNum();
  case Parser::LocationKind::Direct:
  case Parser::LocationKind::Indirect:
    return location.getDwarfRegNum() + (uint64_t)(int64_t)location.getOffset();
  case Parser::LocationKind::Constant:
    return (uint64_t)(int64_t)(int32_t)location.getSmallConstant();
  case Parser::LocationKind::ConstantIndex:
    return location.getConstantIndex();
  }
  return 0;
}

static uint64_t visit(const std::vector<uint8_t> &bytes) {
  Parser parser{llvm::ArrayRef<uint8_t>(bytes)};
  uint64_t sum = 0;
  for (const auto &function : parser.functions())
    sum += function.getFunctionAddress() + function.getStackSize() + function.getRecordCount();
  for (const auto &constant : parser.constants())
    sum += constant.getValue();
  for (const auto &record : parser.records()) {
    sum += record.getID() + record.getInstructionOffset();
    for (const auto &location : record.locations())
      sum += (uint64_t)location.getKind() + location.getSizeInBytes() + value(location);
    for (const auto &live : record.liveouts())
      sum += live.getDwarfRegNum() + live.getSizeInBytes();
  }
  return sum;
}

int main(int argc, char **argv) {
  FILE *file = argc > 1 ? fopen(argv[1], "rb") : NULL;
  if (!file) return 1;
  fseek(file, 0, SEEK_END);
  std::vector<uint8_t> bytes(ftell(file));
  rewind(file);
  if (fread(bytes.data(), 1, bytes.size(), file) != bytes.size()) return 1;
  char line[16];
  while (fgets(line, sizeof line, stdin)) {
    uint64_t start = now();
    uint64_t sum = visit(bytes);
    printf("%" PRIu64 " %" PRIu64 "\n", now() - start, sum);
    fflush(stdout);
  }
}
