#!/usr/bin/env bash
# Makes the object of this folder anew. Needs llc 19.
set -euo pipefail
cd "$(dirname "$0")"
llc-19 -mtriple=x86_64-unknown-linux-gnu -relocation-model=pic -filetype=obj -O2 \
    -enable-patchpoint-liveness=false traps.ll -o traps.o
