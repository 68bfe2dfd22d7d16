#!/bin/sh
# Compiles sites.ll for every architecture.
set -eu
cd "$(dirname "$0")"
for arch in x86_64 aarch64 powerpc64 powerpc64le s390x riscv64; do
    features=
    [ "$arch" = riscv64 ] && features=-mattr=+m,+a,+d
    llc-19 -O2 -mtriple=$arch-unknown-linux-gnu -relocation-model=pic $features -filetype=obj sites.ll -o $arch.o
done
