// Functions that XRay patches, for the comparison: `main THREADS`. Reads one letter a line from its input, does the
// batch that it names, and prints how many nanoseconds it took. Its threads execute patched code during batches only.

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <pthread.h>
#include <xray/xray_interface.h>

enum { SINGLES = 16 };

static std::atomic<int> working;
static std::atomic<unsigned long> calls;

// 512 functions of two sleds each.
#define F(n) __attribute__((xray_always_instrument, noinline)) uint64_t f##n(uint64_t x) { return x * 3 + 0##n; }
#define F8(n) F(n##0) F(n##1) F(n##2) F(n##3) F(n##4) F(n##5) F(n##6) F(n##7)
#define F64(n) F8(n##0) F8(n##1) F8(n##2) F8(n##3) F8(n##4) F8(n##5) F8(n##6) F8(n##7)
F64(0) F64(1) F64(2) F64(3) F64(4) F64(5) F64(6) F64(7)

__attribute__((xray_never_instrument)) static void handler(int32_t, XRayEntryType) {}

__attribute__((xray_never_instrument)) static uint64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

__attribute__((xray_never_instrument)) static void *execute(void *) {
  uint64_t x = 0;
  for (;;) {
    if (!working.load(std::memory_order_relaxed)) {
      struct timespec t = {0, 1000000};
      nanosleep(&t, NULL);
      continue;
    }
    // Not those that single batches patch.
    x = f777(x);
    calls.fetch_add(1, std::memory_order_relaxed);
  }
}

__attribute__((xray_never_instrument)) static void check(enum XRayPatchingStatus status) {
  if (status != XRayPatchingStatus::SUCCESS) {
    fprintf(stderr, "xray: %d\n", status);
    exit(1);
  }
}

__attribute__((xray_never_instrument)) int main(int argc, char **argv) {
  int threads = argc > 1 ? atoi(argv[1]) : 0;
  for (int i = 0; i < threads; i++) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, execute, NULL)) return 1;
  }
  __xray_set_handler(handler);
  char line[16];
  int on = 0;
  while (fgets(line, sizeof line, stdin)) {
    unsigned long before = calls.load();
    working.store(1);
    while (threads && calls.load() == before) {
    }
    uint64_t start = now();
    if (line[0] == 's') {
      for (int i = 0; i < SINGLES; i++) {
        check(i % 2 ? __xray_unpatch_function(1) : __xray_patch_function(1));
      }
    } else {
      on = !on;
      check(on ? __xray_patch() : __xray_unpatch());
    }
    uint64_t took = now() - start;
    working.store(0);
    printf("%llu\n", (unsigned long long)took);
    fflush(stdout);
  }
  return 0;
}
