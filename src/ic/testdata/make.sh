#!/bin/sh
# Compiles sites.ll for every architecture.
set -eu
cd "$(dirname "$0")"
for arch in x86_64 aarch64 powerpc64 powerpc64le powerpc64-elfv2 s390x riscv64; do
    triple=$arch-unknown-linux-gnu
    # musl has ELFv2 in either order of bytes.
    [ $arch != powerpc64-elfv2 ] || triple=powerpc64-unknown-linux-musl
    features=
    [ "$arch" = riscv64 ] && features=-mattr=+m,+a,+d
    llc-19 -O2 -mtriple=$triple -relocation-model=pic $features -filetype=obj sites.ll -o $arch.o
done
