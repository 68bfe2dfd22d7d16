#!/usr/bin/env bash
# Makes the objects of this folder anew. Needs clang, llc and llvm-mc 19. The IR is that of ../ir; what a test knows of its sites
# is in tests/macho.rs.
set -euo pipefail
cd "$(dirname "$0")"
for arch in x86_64 arm64; do
    triple=$arch-apple-macosx11
    llvm-mc-19 -triple "$triple" -filetype=obj "src/relocations.$arch.s" -o "$arch/relocations.o"
    llvm-mc-19 -triple "$triple" -filetype=obj "src/pairs.$arch.s" -o "$arch/pairs.o"
    for level in 0 2; do
        # Without PIC, arm64 refers to data directly where it can; on x86-64 macOS has no other code.
        # Without -fcommon: llvm-jitlink 19 takes a common symbol for what is at address 0.
        for model in pic no-pic; do
            clang-19 -target "$triple" -O$level -f$model -ffreestanding -fexceptions -fasynchronous-unwind-tables \
                -femit-dwarf-unwind=always -c src/program.c -o "$arch/program.O$level.$model.o"
        done
        clang-19 -target "$triple" -O$level -g -ffreestanding -c src/program.c -o "$arch/debug.O$level.o"
        for source in property anyreg_mixed c_args repeat unwind; do
            # The pass for live-outs crashes on calls; shadows do not assemble on arm64.
            llc-19 -mtriple="$triple" -filetype=obj -O$level -emit-dwarf-unwind=always \
                -enable-patchpoint-liveness=false "../ir/$source.ll" -o "$arch/$source.O$level.o"
        done
    done
done
