/* Static data of every kind: initialized, zero, constant, large, with addresses and distances in it. */
#include <stdint.h>

static int counter = 7;
static int zeros[1000];
int visible = 42;
int visible_zeros[16];
const int primes[] = {2, 3, 5, 7, 11, 13, 17, 19, 23, 29};
static const uint64_t masks[] = {0xff, 0xffff, 0xffffffff, UINT64_MAX};
__attribute__((visibility("hidden"))) int hidden = 9;
__attribute__((aligned(64))) char aligned[64] = "aligned to a line of the cache";
int *inner = &zeros[500];
const char *const message = "a message";
uintptr_t numbers[3] = {(uintptr_t)&visible, (uintptr_t)&primes[4], (uintptr_t)"text"};
static short narrow = -2;
static unsigned char bytes[7] = {1, 2, 3, 4, 5, 6, 7};
extern int elsewhere[];
extern const int elsewhere_constant;

int next(void) { return ++counter; }
int prime(unsigned i) { return i < 10 ? primes[i] : 0; }
void set(unsigned i, int value) { zeros[i % 1000] = value; visible_zeros[i & 15] = value; }
int get(unsigned i) { return zeros[i % 1000] + hidden + narrow + bytes[i % 7]; }
uint64_t masked(uint64_t value, unsigned width) { return value & masks[width & 3]; }
int *pointer(int which) { return which ? inner : &visible; }
int remote(int i) { return elsewhere[i] + elsewhere_constant; }
int *remote_pointer(void) { return &elsewhere[3]; }
char line(int i) { return aligned[i & 63] + message[i & 7]; }
uintptr_t number(int i) { static int last; last = i; return numbers[i % 3] + last; }
