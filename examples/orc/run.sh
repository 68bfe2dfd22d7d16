#!/bin/sh
# Installs what the examples need, builds them and runs them, on Debian 12 with cargo and git.
#
#   ./run.sh              with LLVM 14
#   LLVM=19 ./run.sh      with LLVM 19
#   CHECK=1 ./run.sh      under AddressSanitizer, which also finds leaks; the time of the caches says nothing then
#   PROFILE=dev ./run.sh  with a library that is built without optimization, in less time
set -eu
cd "$(dirname "$0")"
LLVM=${LLVM:-14}
export LLVM
packages="llvm-$LLVM-dev g++ make"
sudo=
[ "$(id -u)" = 0 ] || sudo=sudo
# shellcheck disable=SC2086
if ! dpkg -s $packages >/dev/null 2>&1; then
    $sudo apt-get update
    # shellcheck disable=SC2086
    $sudo apt-get install -y --no-install-recommends $packages
fi
PROFILE=${PROFILE:-release}
export PROFILE
cargo build --profile "$PROFILE" --manifest-path ../../Cargo.toml --lib -p patchpoint-capi
make all
out=target/$LLVM${CHECK:+-check}
"$out/orc"
"$out/language"
"$out/refused"
