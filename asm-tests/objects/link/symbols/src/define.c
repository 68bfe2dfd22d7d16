// Symbols of every binding and visibility that C and its assembler have.
__attribute__((visibility("default"))) long by_default(void) { return 1; }
__attribute__((visibility("protected"))) long by_protected(void) { return 20; }
__attribute__((visibility("hidden"))) long by_hidden(void) { return 300; }
__attribute__((visibility("internal"))) long by_internal(void) { return 4000; }
__attribute__((weak)) long by_weak(void) { return 50000; }
__attribute__((weak)) long overridden(void) { return -1; }

// An absolute symbol, one that is the only one of its name in a process, and names with versions.
__asm__(".globl absolute\n.set absolute, 0x1234\n"
        ".data\n.globl unique\n.type unique, %gnu_unique_object\n.size unique, 8\n.balign 8\nunique: .8byte 600000\n"
        ".text\n");
extern long unique;
long unique_value(void) { return unique; }

long versioned_old(void) { return 7; }
long versioned_new(void) { return 8; }
__asm__(".symver versioned_old, versioned@V1\n.symver versioned_new, versioned@@V2\n");
