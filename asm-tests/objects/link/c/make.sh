#!/usr/bin/env bash
# Makes the objects of the folders below anew: a C program of three files, to be linked together. Needs clang 19 and GNU
# compilers: gcc, gcc-aarch64-linux-gnu, gcc-powerpc64le-linux-gnu, gcc-powerpc64-linux-gnu, gcc-s390x-linux-gnu,
# gcc-riscv64-linux-gnu.
#
#   ARCH-COMPILER-FLAGS/{first,second,third}.o   from src/; `functions` is -ffunction-sections -fdata-sections
#   expected.txt                                 what run(0) to run(9) return, one after the other, where outside(x) is
#                                                x + 1: by the program that gcc and its linker make of the files
set -euo pipefail
cd "$(dirname "$0")"
rm -rf -- */*.o
files=(first second third)
common=(-fcommon -fno-builtin -fno-stack-protector -fno-ident -g0 -Isrc)
set_of() { # folder, compiler and flags..
    local folder=$1 file
    shift
    mkdir -p "$folder"
    for file in "${files[@]}"; do
        "$@" "${common[@]}" -c "src/$file.c" -o "$folder/$file.o"
    done
}
gnu=(-fcf-protection=none -fno-tree-loop-distribute-patterns)
split=(-ffunction-sections -fdata-sections)
set_of x86_64-gcc-O0 gcc "${gnu[@]}" -O0 -fpic
set_of x86_64-gcc-O2 gcc "${gnu[@]}" -O2 -fpic
set_of x86_64-gcc-O2-static gcc "${gnu[@]}" -O2 -fno-pic -fno-pie
set_of x86_64-gcc-O2-functions gcc "${gnu[@]}" -O2 -fpic "${split[@]}"
set_of x86_64-clang-O0 clang-19 -O0 -fpic
set_of x86_64-clang-O2 clang-19 -O2 -fpic
set_of x86_64-clang-O2-static clang-19 -O2 -fno-pic -fno-pie
set_of x86_64-clang-O2-functions clang-19 -O2 -fpic "${split[@]}"
for arch in aarch64 powerpc64le powerpc64 s390x riscv64; do
    abi=(-fno-tree-loop-distribute-patterns)
    # gcc for RISC-V shortens by relaxation, which we leave undone.
    [ $arch = riscv64 ] && abi+=(-mno-relax)
    set_of $arch-gcc-O0 $arch-linux-gnu-gcc "${abi[@]}" -O0 -fpic
    set_of $arch-gcc-O2 $arch-linux-gnu-gcc "${abi[@]}" -O2 -fpic
    set_of $arch-gcc-O2-functions $arch-linux-gnu-gcc "${abi[@]}" -O2 -fpic "${split[@]}"
done
set_of aarch64-clang-O2 clang-19 --target=aarch64-linux-gnu -O2 -fpic
set_of riscv64-clang-O2 clang-19 --target=riscv64-linux-gnu -O2 -fpic
# Big-endian ELFv2, of which the GNU compiler for powerpc64-linux-gnu makes none that refers to nothing of its own library.
set_of powerpc64_elfv2-clang-O0 clang-19 --target=powerpc64-linux-musl -O0 -fpic
set_of powerpc64_elfv2-clang-O2 clang-19 --target=powerpc64-linux-musl -O2 -fpic
set_of powerpc64_elfv2-clang-O2-functions clang-19 --target=powerpc64-linux-musl -O2 -fpic "${split[@]}"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/main.c" <<'C'
#include <stdio.h>
long run(long);
long outside(long x) { return x + 1; }
int main(void) { for (long i = 0; i < 10; i++) printf("%ld\n", run(i)); }
C
gcc -O1 "${common[@]}" "$work/main.c" src/*.c -o "$work/main"
"$work/main" >expected.txt
