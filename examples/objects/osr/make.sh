#!/bin/sh
# Makes the objects of examples/osr.rs for every architecture, with LLVM 19.
set -eu
cd "$(dirname "$0")"
for target in x86_64 aarch64 powerpc64le powerpc64 s390x riscv64; do
    common="-mtriple=$target-unknown-linux-gnu -relocation-model=pic -enable-patchpoint-liveness=false -filetype=obj"
    [ $target != riscv64 ] || common="$common -mattr=+m,+a,+f,+d -target-abi=lp64d"
    mkdir -p $target
    # shellcheck disable=SC2086
    llc-19 $common -O0 -fast-isel=false -global-isel=false baseline.ll -o $target/baseline.o
    # shellcheck disable=SC2086
    llc-19 $common -O2 optimized.ll -o $target/optimized.o
done
