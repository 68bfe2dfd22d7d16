#!/usr/bin/env bash
# Makes the objects of the folders below anew: two C++ files, and two of IR, that share inline functions. Needs clang 19, llc 19
# and g++.
#
#   ARCH-COMPILER-FLAGS/{first,second}.o   from src/*.cc
#   sites-ARCH/{one,two}.o                 from src/sites.ll: each with a caller of that name
#   expected.txt                           what run(0) to run(9) return, one after the other, where outside(x) is x + 1: by
#                                          the program that g++ and its linker make of the files
set -euo pipefail
cd "$(dirname "$0")"
rm -rf -- */*.o
common=(-std=c++17 -fasynchronous-unwind-tables -fno-rtti -fno-threadsafe-statics -fno-stack-protector -fno-ident -g0 -Isrc)
set_of() { # folder, compiler and flags..
    local folder=$1 file
    shift
    mkdir -p "$folder"
    for file in first second; do
        "$@" "${common[@]}" -c "src/$file.cc" -o "$folder/$file.o"
    done
}
for level in 0 2; do
    set_of x86_64-gcc-O$level g++ -fcf-protection=none -O$level -fpic
    set_of x86_64-clang-O$level clang++-19 -O$level -fpic
    for arch in aarch64 powerpc64le powerpc64 s390x riscv64; do
        set_of $arch-clang-O$level clang++-19 --target=$arch-linux-gnu -O$level -fpic
    done
done
set_of x86_64-clang-O2-static clang++-19 -O2 -fno-pic -fno-pie
for arch in x86_64 aarch64 powerpc64le s390x riscv64; do
    flags=()
    [ $arch = riscv64 ] && flags=(-mattr=+m,+a,+f,+d -target-abi=lp64d)
    mkdir -p sites-$arch
    for name in one two; do
        llc-19 -mtriple=$arch-unknown-linux-gnu "${flags[@]}" -relocation-model=pic -O2 -enable-patchpoint-liveness=false \
            -filetype=obj <(sed "s/@NAME/@$name/" src/sites.ll) -o sites-$arch/$name.o
    done
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/main.cc" <<'CC'
#include <stdio.h>
extern "C" long run(long);
extern "C" long outside(long x) { return x + 1; }
int main() { for (long i = 0; i < 10; i++) printf("%ld\n", run(i)); }
CC
g++ -O1 "${common[@]}" "$work/main.cc" src/*.cc -o "$work/main"
"$work/main" >expected.txt
