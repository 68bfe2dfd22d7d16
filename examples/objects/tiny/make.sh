#!/bin/sh
# Makes the objects of the examples tiny_language and differential for every architecture, with LLVM 19.
set -eu
cd "$(dirname "$0")"
for target in x86_64 aarch64 powerpc64le powerpc64 s390x riscv64; do
    common="-mtriple=$target-unknown-linux-gnu -relocation-model=pic -filetype=obj"
    # LLVM does not save ra for a patchpoint; it does for assembly that writes it, and only the list of live-outs tells.
    saves=
    case $target in
    riscv64)
        common="$common -mattr=+m,+a,+f,+d -target-abi=lp64d -enable-patchpoint-liveness=true"
        # Behind the label of the first block, if it has one.
        writes='  call void asm sideeffect "", "~{x1}"()'
        saves="/^define/{n; /:\$/s/\$/\\n$writes/; t; s/^/$writes\\n/}"
        ;;
    *) common="$common -enable-patchpoint-liveness=false" ;;
    esac
    # Bytes reserved for patchpoints and shadows, and at the entry: there bytes on x86-64, instructions on the others.
    # LLVM leaves none on SystemZ, and on PowerPC64 a sled of XRay's. `compiled.rs` has the same lengths.
    site=48 shadow=16 entry=4
    case $target in
    x86_64) shadow=8 entry=16 ;;
    powerpc64* | s390x) entry= ;;
    esac
    mkdir -p $target
    for source in *.ll; do
        sed "$saves" $source | sed "s/SITE/$site/; s/SHADOW/$shadow/" |
            if [ -n "$entry" ]; then sed "s/\"ENTRY\"/\"$entry\"/"; else sed 's/ "patchable-function-entry"="ENTRY"//'; fi |
            # shellcheck disable=SC2086
            llc-19 $common -O2 - -o $target/${source%.ll}.o
    done
done
