#!/usr/bin/env bash
# Makes the objects of the folders below anew: symbols of every kind. Needs clang 19, gcc, and gcc for AArch64.
#
#   ARCH-COMPILER-FLAGS/{define,use}.o, with indirect.o where there are indirect functions   from src/
set -euo pipefail
cd "$(dirname "$0")"
rm -rf -- */*.o
common=(-fno-stack-protector -fno-ident -g0 -fpic)
set_of() { # folder, files, compiler and flags..
    local folder=$1 files=$2 file
    shift 2
    mkdir -p "$folder"
    for file in $files; do
        "$@" "${common[@]}" -c "src/$file.c" -o "$folder/$file.o"
    done
}
for level in 0 2; do
    set_of x86_64-gcc-O$level "define use indirect" gcc -fcf-protection=none -O$level
    set_of x86_64-clang-O$level "define use indirect" clang-19 -O$level
    set_of aarch64-gcc-O$level "define use indirect" aarch64-linux-gnu-gcc -O$level
done
for arch in powerpc64 powerpc64le s390x riscv64; do
    set_of $arch-clang-O2 "define use" clang-19 --target=$arch-linux-gnu -O2
done
