#!/usr/bin/env bash
# Makes the objects of this folder anew from src/: COMPILER-LEVEL/NAME.ARCH.o, with g++ 12 and clang++ 19.
set -euo pipefail
cd "$(dirname "$0")"
flags=(-c -g0 -fPIC -fexceptions -fno-ident -fno-stack-protector)
rm -rf gcc-* clang-*
for level in O0 O2; do
    mkdir -p "gcc-$level" "clang-$level"
    for source in src/*.c src/*.cpp; do
        name=$(basename "${source%.*}")
        gcc-12 "${flags[@]}" "-$level" "$source" -o "gcc-$level/$name.x86_64.o"
        for arch in x86_64 aarch64; do
            clang-19 "--target=$arch-linux-gnu" "${flags[@]}" "-$level" "$source" -o "clang-$level/$name.$arch.o"
        done
    done
done
