#!/bin/sh
# Installs what the example needs, builds it and runs it, on Debian 12 with cargo and git. LLVM=19 ./run.sh takes LLVM 19.
set -eu
cd "$(dirname "$0")"
llvm=${LLVM:-14}
packages="llvm-$llvm-dev gcc libc6-dev"
sudo=
[ "$(id -u)" = 0 ] || sudo=sudo
# shellcheck disable=SC2086
if ! dpkg -s $packages >/dev/null 2>&1; then
    $sudo apt-get update
    # shellcheck disable=SC2086
    $sudo apt-get install -y --no-install-recommends $packages
fi
cargo run --release --no-default-features --features "llvm$llvm"
# The program of the guide, whose IR has pointers without types.
[ "$llvm" = 14 ] || cargo run --release --no-default-features --features "llvm$llvm" --bin first
