#!/bin/sh
# Installs what the tests of this folder need, on Debian 12: LLVM 14 as a shared library, clang and gcc.
set -eu
packages="llvm-14-dev clang-14 gcc libc6-dev"
# shellcheck disable=SC2086
if ! dpkg -s $packages >/dev/null 2>&1; then
    apt-get update
    # shellcheck disable=SC2086
    apt-get install -y --no-install-recommends $packages
fi
