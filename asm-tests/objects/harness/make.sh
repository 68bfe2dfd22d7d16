#!/usr/bin/env bash
# Makes the objects of the folders below anew: two C files to be tested, and harnesses for them. Needs clang 19, gcc, and gcc
# for AArch64.
#
#   ARCH-COMPILER-FLAGS/*.o   from src/; `functions` is -ffunction-sections -fdata-sections
set -euo pipefail
cd "$(dirname "$0")"
rm -rf -- */*.o
common=(-ffreestanding -fno-stack-protector -fno-ident -g0)
split=(-ffunction-sections -fdata-sections)
set_of() { # folder, compiler and flags..
    local folder=$1 file
    shift
    mkdir -p "$folder"
    for file in parser blocks mocks local variable clash; do
        "$@" "${common[@]}" -c "src/$file.c" -o "$folder/$file.o"
    done
}
for level in 0 2; do
    set_of x86_64-gcc-O$level gcc -fcf-protection=none -O$level -fpic
    set_of x86_64-gcc-O$level-functions gcc -fcf-protection=none -O$level -fpic "${split[@]}"
    set_of x86_64-clang-O$level clang-19 -O$level -fpic
    set_of x86_64-clang-O$level-functions clang-19 -O$level -fpic "${split[@]}"
done
set_of x86_64-gcc-O2-static gcc -fcf-protection=none -O2 -fno-pic -fno-pie
set_of aarch64-gcc-O2 aarch64-linux-gnu-gcc -O2 -fpic
set_of aarch64-gcc-O2-functions aarch64-linux-gnu-gcc -O2 -fpic "${split[@]}"
for arch in aarch64 powerpc64 powerpc64le s390x riscv64; do
    set_of $arch-clang-O2 clang-19 --target=$arch-linux-gnu -O2 -fpic
    set_of $arch-clang-O2-functions clang-19 --target=$arch-linux-gnu -O2 -fpic "${split[@]}"
done
