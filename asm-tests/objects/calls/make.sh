#!/usr/bin/env bash
# Makes the objects anew, with clang 19 and gcc 12: COMPILER.TARGET.OPTIMIZATION.o.
set -euo pipefail
cd "$(dirname "$0")"
for target in x86_64 aarch64 powerpc64 powerpc64le powerpc64-elfv2 s390x riscv64; do
    triple=$target-unknown-linux-gnu
    # musl has ELFv2 in either order of bytes.
    [ $target = powerpc64-elfv2 ] && triple=powerpc64-unknown-linux-musl
    for opt in O0 O2; do
        clang-19 --target="$triple" -"$opt" -fPIC -ffreestanding -c calls.c -o "clang.$target.$opt.o"
    done
    clang-19 --target="$triple" -O2 -fPIC -fsemantic-interposition -c inside.c -o "inside.$target.o"
done
for opt in O0 O2; do
    gcc -"$opt" -fpie -c calls.c -o "gcc.x86_64.$opt.o"
done
