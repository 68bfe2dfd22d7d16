#!/usr/bin/env bash
# Makes the objects of the folders below anew: C++ files with guards of basic blocks (SanitizerCoverage), which are found between
# where their sections begin and where they end. Needs clang 19, ld.lld 19, gcc, and GNU ld for every architecture.
#
#   ARCH-COMPILER-FLAGS/{count,first,second}.o   from src/; `functions` has each function in a section of its own
#   ARCH-COMPILER-FLAGS/guards.txt               how many guards GNU ld leaves
#   ARCH-COMPILER-FLAGS/expected.txt             for x86-64: the number of each guard that is passed, and what the program returns,
#                                                as the system's linker links it; that of LLVM makes the same of it
set -euo pipefail
cd "$(dirname "$0")"
rm -rf -- */*.o */*.txt
common=(-fno-exceptions -fno-stack-protector -fno-ident -g0 -fpic)
set_of() { # folder, flags..
    local folder=$1 file
    shift
    mkdir -p "$folder"
    clang-19 "$@" "${common[@]}" -c src/count.c -o "$folder/count.o"
    # What both have is in a group, of which one is kept, as is the constructor.
    for file in first second; do
        clang++-19 "$@" "${common[@]}" -fsanitize-coverage=trace-pc-guard -c "src/$file.cc" -o "$folder/$file.o"
    done
}
for level in 0 2; do
    set_of x86_64-clang-O$level -O$level
done
set_of x86_64-clang-O2-functions -O2 -ffunction-sections -fdata-sections
for arch in aarch64 powerpc64 powerpc64le s390x riscv64; do
    set_of $arch-clang-O2 --target=$arch-linux-gnu -O2
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/main.c" <<'C'
#include <stdio.h>
long run(void);
void note(long n) { printf("%ld\n", n); }
int main(void) { note(run()); }
C
for folder in *-clang-*; do
    "${folder%%-*}-linux-gnu-ld" -shared "$folder"/*.o -o "$work/shared"
    size=$(llvm-readelf-19 -SW "$work/shared" | sed -nE 's/.* __sancov_guards +\w+ +\w+ +\w+ +(\w+) .*/\1/p')
    echo $((0x$size / 4)) >"$folder/guards.txt"
done
for folder in x86_64-*; do
    gcc -O1 "$work/main.c" "$folder"/*.o -o "$work/main"
    "$work/main" >"$folder/expected.txt"
    gcc -O1 -c "$work/main.c" -o "$work/main.o"
    clang-19 -fuse-ld=lld-19 "$work/main.o" "$folder"/*.o -o "$work/main"
    "$work/main" | cmp - "$folder/expected.txt"
done
