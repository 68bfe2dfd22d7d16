#include "inline.h"
extern "C" void *where_second() { return (void *)twice; }
extern "C" int second(int a) { Shape shape; return twice(a) * 100 + larger(a, 5) + shape.area(); }
