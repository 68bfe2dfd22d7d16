#!/bin/sh
# Makes the objects of walk.ll with LLVM 19: ARCH.o, and with frame pointers or a back chain ARCH.chain.o.
set -eu
cd "$(dirname "$0")"
work=$(mktemp)
trap 'rm -f "$work"' EXIT
for target in x86_64 aarch64 powerpc64le powerpc64 powerpc64-elfv2 s390x riscv64; do
    triple=$target-unknown-linux-gnu
    # musl has ELFv2 in either order of bytes.
    [ $target != powerpc64-elfv2 ] || triple=powerpc64-unknown-linux-musl
    common="-O2 -mtriple=$triple -relocation-model=pic -enable-patchpoint-liveness=false -filetype=obj"
    [ $target != riscv64 ] || common="$common -mattr=+m,+a,+f,+d -target-abi=lp64d"
    # shellcheck disable=SC2086
    llc-19 $common walk.ll -o $target.o
    sed 's/uwtable/nounwind "frame-pointer"="all" "backchain"/' walk.ll >"$work"
    # shellcheck disable=SC2086
    llc-19 $common "$work" -o $target.chain.o
done
