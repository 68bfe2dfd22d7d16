#!/usr/bin/env bash
# Makes the objects anew, with clang 19 and gcc 12: COMPILER.TARGET.OPTIMIZATION.o.
set -euo pipefail
cd "$(dirname "$0")"
for target in x86_64 aarch64 powerpc64 powerpc64le s390x riscv64; do
    for opt in O0 O2; do
        clang-19 --target="$target-unknown-linux-gnu" -"$opt" -fPIC -ffreestanding -c calls.c -o "clang.$target.$opt.o"
    done
    clang-19 --target="$target-unknown-linux-gnu" -O2 -fPIC -fsemantic-interposition -c inside.c -o "inside.$target.o"
done
for opt in O0 O2; do
    gcc -"$opt" -fpie -c calls.c -o "gcc.x86_64.$opt.o"
done
