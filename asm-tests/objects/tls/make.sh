#!/usr/bin/env bash
# Makes the objects of the folders below anew: thread-local variables. Needs clang 19, gcc, and gcc for AArch64.
#
#   emulated/ARCH-clang-FLAGS/{define,use}.o   from src/, with emulated thread-local storage
#   native/ARCH-COMPILER-MODEL/{define,use}.o  from src/, with that of ELF, in each of its four models
set -euo pipefail
cd "$(dirname "$0")"
rm -rf -- emulated native
common=(-fno-stack-protector -fno-ident -g0)
set_of() { # folder, compiler and flags..
    local folder=$1 file
    shift
    mkdir -p "$folder"
    for file in define use; do
        "$@" "${common[@]}" -c "src/$file.c" -o "$folder/$file.o"
    done
}
for level in 0 2; do
    set_of emulated/x86_64-clang-O$level clang-19 -femulated-tls -O$level -fpic
done
set_of emulated/x86_64-clang-O2-static clang-19 -femulated-tls -O2 -fno-pic -fno-pie
for model in global-dynamic local-dynamic initial-exec local-exec; do
    set_of native/x86_64-gcc-$model gcc -O2 -fpic -ftls-model=$model
    set_of native/aarch64-gcc-$model aarch64-linux-gnu-gcc -O2 -fpic -ftls-model=$model
    for arch in x86_64 aarch64 powerpc64 powerpc64le s390x riscv64; do
        set_of native/$arch-clang-$model clang-19 --target=$arch-linux-gnu -O2 -fpic -ftls-model=$model
    done
done
for arch in aarch64 powerpc64 powerpc64le s390x riscv64; do
    set_of emulated/$arch-clang-O2 clang-19 --target=$arch-linux-gnu -femulated-tls -O2 -fpic
done
