#!/usr/bin/env bash
# Makes the objects of this folder from their sources, with LLVM 19.
set -euo pipefail
cd "$(dirname "$0")"
for source in x86_64/*.s aarch64/*.s; do
    llvm-mc-19 -triple="${source%%/*}-unknown-linux-gnu" -filetype=obj "$source" -o "${source%.s}.o"
done
