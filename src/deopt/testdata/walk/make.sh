#!/bin/sh
# Makes the objects of walk.ll with LLVM 19: ARCH.o, and with frame pointers or a back chain ARCH.chain.o.
set -eu
cd "$(dirname "$0")"
work=$(mktemp)
trap 'rm -f "$work"' EXIT
for target in x86_64 aarch64 powerpc64le powerpc64 s390x riscv64; do
    common="-O2 -mtriple=$target-unknown-linux-gnu -relocation-model=pic -enable-patchpoint-liveness=false -filetype=obj"
    [ $target != riscv64 ] || common="$common -mattr=+m,+a,+f,+d -target-abi=lp64d"
    # shellcheck disable=SC2086
    llc-19 $common walk.ll -o $target.o
    sed 's/uwtable/nounwind "frame-pointer"="all" "backchain"/' walk.ll >"$work"
    # shellcheck disable=SC2086
    llc-19 $common "$work" -o $target.chain.o
done
