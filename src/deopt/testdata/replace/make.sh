#!/bin/sh
# Makes the objects of replace.ll, with LLVM 19.
set -eu
cd "$(dirname "$0")"
work=$(mktemp)
trap 'rm -f "$work"' EXIT
for target in x86_64 aarch64 powerpc64le powerpc64 powerpc64-elfv2 s390x riscv64; do
    triple=$target-unknown-linux-gnu
    # musl has ELFv2 in either order of bytes.
    [ $target != powerpc64-elfv2 ] || triple=powerpc64-unknown-linux-musl
    flags=
    [ $target != riscv64 ] || flags="-mattr=+m,+a,+f,+d -target-abi=lp64d"
    sed "s/; $target: //" replace.ll >"$work"
    # shellcheck disable=SC2086
    llc-19 -O2 -mtriple=$triple $flags -relocation-model=pic \
        -enable-patchpoint-liveness=false -filetype=obj "$work" -o $target.o
done
