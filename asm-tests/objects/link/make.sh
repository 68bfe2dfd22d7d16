#!/usr/bin/env bash
# Makes the objects of the folders below anew: code that only linking tells from that of the folders beside this one.
# Needs llc 19.
#
#   riscv64/      with linker relaxation, functions aligned to 16 bytes: distances are relocations, and nops are too many
#   powerpc64le/  for POWER10: prefixed instructions and calls without a TOC pointer
#   powerpc64-elfv2/  the same, big endian
#   functions/    of every architecture, each function in a section of its own
set -euo pipefail
cd "$(dirname "$0")"
mkdir -p riscv64 powerpc64le powerpc64-elfv2 functions
rm -f -- riscv64/*.o powerpc64le/*.o powerpc64-elfv2/*.o functions/*.o
for name in calls relocs unwind; do
    for level in 0 2; do
        llc-19 -mtriple=riscv64-unknown-linux-gnu -target-abi=lp64d -mattr=+m,+a,+f,+d,+c,+relax -align-all-functions=4 \
            -relocation-model=pic -O$level -filetype=obj <(sed -E '/patchpoint/s/ptr @\w+/ptr null/' ../ir/$name.ll) \
            -o riscv64/$name.llc19.O$level.o
        for power in powerpc64le:powerpc64le-unknown-linux-gnu powerpc64-elfv2:powerpc64-unknown-linux-musl; do
            llc-19 -mtriple=${power#*:} -mcpu=pwr10 -target-abi=elfv2 -relocation-model=pic -O$level -filetype=obj \
                <(sed -E '/patchpoint/s/i32 [0-9]+, ptr @\w+/i32 40, ptr null/' ../ir/$name.ll) -o ${power%:*}/$name.llc19.O$level.o
        done
    done
done
for arch in x86_64 aarch64 powerpc64le powerpc64 powerpc64-elfv2 s390x riscv64; do
    flags=() triple=$arch-unknown-linux-gnu
    [ $arch = powerpc64-elfv2 ] && triple=powerpc64-unknown-linux-musl
    [ $arch = riscv64 ] && flags=(-mattr=+m,+a,+f,+d -target-abi=lp64d)
    for name in calls unwind property; do
        # Long enough for every architecture's call; where a call to a symbol is not possible, there is none.
        perl -pe 's/(patchpoint\.\w+\(i64 -?\d+, i32 )\d+, ptr @\w+/${1}64, ptr null/; s/(patchpoint\.\w+\(i64 -?\d+, i32 )\d+/${1}64/' \
            ../ir/$name.ll >"functions/$name.ll"
        llc-19 -mtriple=$triple "${flags[@]}" -relocation-model=pic -O2 -enable-patchpoint-liveness=false \
            -function-sections -data-sections -filetype=obj "functions/$name.ll" -o functions/$name.$arch.o
        rm "functions/$name.ll"
    done
done
