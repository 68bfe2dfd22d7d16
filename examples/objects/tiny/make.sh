#!/bin/sh
# Makes the objects of the examples tiny_language and differential for every architecture, with LLVM 19.
set -eu
cd "$(dirname "$0")"
for target in x86_64 aarch64 powerpc64le powerpc64 s390x riscv64; do
    common="-mtriple=$target-unknown-linux-gnu -relocation-model=pic -enable-patchpoint-liveness=false -filetype=obj"
    [ $target != riscv64 ] || common="$common -mattr=+m,+a,+f,+d -target-abi=lp64d"
    # Bytes reserved for patchpoints and shadows, and at the entry: there bytes on x86-64, instructions elsewhere.
    # LLVM leaves none on SystemZ, and on PowerPC64 a sled of XRay's. `compiled.rs` has the same lengths.
    site=48 shadow=16 entry=4
    case $target in
    x86_64) shadow=8 entry=16 ;;
    powerpc64* | s390x) entry= ;;
    esac
    mkdir -p $target
    for source in *.ll; do
        sed "s/SITE/$site/; s/SHADOW/$shadow/" $source |
            if [ -n "$entry" ]; then sed "s/\"ENTRY\"/\"$entry\"/"; else sed 's/ "patchable-function-entry"="ENTRY"//'; fi |
            # shellcheck disable=SC2086
            llc-19 $common -O2 - -o $target/${source%.ll}.o
    done
done
