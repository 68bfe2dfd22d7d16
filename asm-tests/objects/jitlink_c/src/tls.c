/* Thread-local storage: of its own and of others. */
#include <errno.h>
__thread int own = 3;
extern __thread int theirs;
static __thread char buffer[40];
int bump(void) { return ++own; }
int read_theirs(void) { return theirs + buffer[own % 40]; }
void fail(void) { errno = EINVAL; }
