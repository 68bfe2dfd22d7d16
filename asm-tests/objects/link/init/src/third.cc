#include "inline.h"

extern "C" long third(void) { return shared.n; }
