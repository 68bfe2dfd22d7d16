#!/usr/bin/env bash
# Compiles the program for x86-64 with clang 19, without and with optimization and position-independent code. Tests compile it with the
# machine's own compiler as well.
set -euo pipefail
cd "$(dirname "$0")"
for level in 0 2; do
    for relocation in no-pic PIC; do
        folder=clang19-O$level-$relocation
        mkdir -p "$folder"
        for source in *.c; do
            clang-19 --target=x86_64-linux-gnu -O$level -f$relocation -c "$source" -o "$folder/${source%.c}.o"
        done
    done
done
