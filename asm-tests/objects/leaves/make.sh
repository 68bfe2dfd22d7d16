#!/usr/bin/env bash
# Makes leaves.ARCH.o from leaves.ll: make.sh [ARCH...], by default all. Needs llc 19.
set -euo pipefail
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

nop() {
    case $1 in
    # In the order of memory: nopl 0(%rax).
    x86_64) echo 0x00401f0f ;;
    aarch64) echo 0xd503201f ;;
    powerpc64*) echo 0x60000000 ;;
    s390x) echo 0x47000000 ;;
    riscv64) echo 0x00000013 ;;
    esac
}

[ $# -gt 0 ] || set -- x86_64 aarch64 powerpc64le powerpc64 s390x riscv64
for arch in "$@"; do
    flags=("-mtriple=$arch-unknown-linux-gnu")
    [ "$arch" != riscv64 ] || flags+=(-mattr=+m,+a,+f,+d -target-abi=lp64d)
    sed "s/NOP/$(($(nop "$arch")))/g" leaves.ll >"$work/leaves.ll"
    llc-19 "${flags[@]}" -relocation-model=pic -filetype=obj -O2 \
        -enable-patchpoint-liveness=false "$work/leaves.ll" -o "leaves.$arch.o"
done
