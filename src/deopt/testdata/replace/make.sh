#!/bin/sh
# Makes the objects of replace.ll, with LLVM 19.
set -eu
cd "$(dirname "$0")"
work=$(mktemp)
trap 'rm -f "$work"' EXIT
for target in x86_64 aarch64 powerpc64le powerpc64 s390x riscv64; do
    flags=
    [ $target != riscv64 ] || flags="-mattr=+m,+a,+f,+d -target-abi=lp64d"
    sed "s/; $target: //" replace.ll >"$work"
    # shellcheck disable=SC2086
    llc-19 -O2 -mtriple=$target-unknown-linux-gnu $flags -relocation-model=pic \
        -enable-patchpoint-liveness=false -filetype=obj "$work" -o $target.o
done
