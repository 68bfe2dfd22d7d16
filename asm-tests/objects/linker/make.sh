#!/usr/bin/env bash
# Makes the objects of this folder from their sources, with LLVM 19, each for the triple that its first line says.
set -euo pipefail
cd "$(dirname "$0")"
for source in *.s; do
    triple="$(sed -n '1s/^# triple: //p' "$source")"
    llvm-mc-19 -triple="$triple" -mattr="$(sed -n '2s/^# features: //p' "$source")" -filetype=obj "$source" -o "${source%.s}.o"
    LC_ALL=C sed -i 's/__eh_framX/__eh_frame/g' "${source%.s}.o"
done
