#!/bin/sh
# Makes the objects of roots.ll, with LLVM 19.
set -eu
cd "$(dirname "$0")"
for target in x86_64 aarch64 riscv64; do
    flags=
    [ $target != riscv64 ] || flags="-mattr=+m,+a,+f,+d -target-abi=lp64d"
    # shellcheck disable=SC2086
    llc-19 -O2 -mtriple=$target-unknown-linux-gnu $flags -relocation-model=pic \
        -enable-patchpoint-liveness=false -filetype=obj roots.ll -o $target.o
done
