#!/usr/bin/env bash
# Makes the objects of the folders below anew: C and C++ files with constructors and destructors. Needs clang 19 and gcc, also
# for AArch64 and PowerPC.
#
#   ARCH-COMPILER-FLAGS/{first,second,third}.o   from src/; `ctors` has them in sections `.ctors` and `.dtors`
#   ARCH-COMPILER-FLAGS/expected.txt             for x86-64: what they note, in the order in which the program that the
#                                                system's linker makes of the files calls them
set -euo pipefail
cd "$(dirname "$0")"
rm -rf -- */*.o */expected.txt
common=(-fno-exceptions -fno-stack-protector -fno-ident -g0)
cpp=(-std=c++17 -fno-rtti -fno-threadsafe-statics)
set_of() { # folder, C compiler, C++ compiler and flags..
    local folder=$1 c=$2 cc=$3 file
    shift 3
    mkdir -p "$folder"
    "$c" "$@" "${common[@]}" -c src/first.c -o "$folder/first.o"
    for file in second third; do
        "$cc" "$@" "${common[@]}" "${cpp[@]}" -c "src/$file.cc" -o "$folder/$file.o"
    done
}
for level in 0 2; do
    set_of x86_64-gcc-O$level gcc g++ -fcf-protection=none -O$level -fpic
    set_of x86_64-clang-O$level clang-19 clang++-19 -O$level -fpic
done
set_of x86_64-clang-O2-ctors clang-19 clang++-19 -O2 -fpic -fno-use-init-array
for arch in aarch64 powerpc64 powerpc64le s390x riscv64; do
    set_of $arch-clang-O2 clang-19 clang++-19 --target=$arch-linux-gnu -O2 -fpic
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/main.c" <<'C'
#include <stdio.h>
long run(void);
void note(long n) { printf("%ld\n", n); }
int main(void) { note(1000000 + run()); }
C
for folder in x86_64-*; do
    gcc -O1 "$work/main.c" "$folder"/*.o -o "$work/main"
    "$work/main" >"$folder/expected.txt"
done
