#!/usr/bin/env bash
# Makes the objects of the folders below anew: code that only linking tells from that of the folders beside this one.
# Needs llc 19.
#
#   riscv64/      with linker relaxation, functions aligned to 16 bytes: distances are relocations, and nops are too many
#   powerpc64le/  for POWER10: prefixed instructions and calls without a TOC pointer
set -euo pipefail
cd "$(dirname "$0")"
mkdir -p riscv64 powerpc64le
rm -f -- */*.o
for name in calls relocs unwind; do
    for level in 0 2; do
        llc-19 -mtriple=riscv64-unknown-linux-gnu -target-abi=lp64d -mattr=+m,+a,+f,+d,+c,+relax -align-all-functions=4 \
            -relocation-model=pic -O$level -filetype=obj <(sed -E '/patchpoint/s/ptr @\w+/ptr null/' ../ir/$name.ll) \
            -o riscv64/$name.llc19.O$level.o
        llc-19 -mtriple=powerpc64le-unknown-linux-gnu -mcpu=pwr10 -relocation-model=pic -O$level -filetype=obj \
            <(sed -E '/patchpoint/s/i32 [0-9]+, ptr @\w+/i32 40, ptr null/' ../ir/$name.ll) -o powerpc64le/$name.llc19.O$level.o
    done
done
