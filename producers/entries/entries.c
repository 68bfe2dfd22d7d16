/* Functions of this program that compilers leave nops in: see build.rs, which says VARIANT and the
   flags. Each adds something of its own. */
#include <stdint.h>

#define NAME2(variant, number) variant##_##number
#define NAME(variant, number) NAME2(variant, number)
#define ADDING(number) \
    uint64_t NAME(VARIANT, number)(uint64_t x) { return x + 0x1000 + number; }

ADDING(0)
ADDING(1)
ADDING(2)
ADDING(3)
