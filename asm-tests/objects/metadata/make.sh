#!/usr/bin/env bash
# Makes the objects anew, with LLVM 19: pc_sections.TARGET.o, marked.TARGET.o with instructions that become sites, covered.x86_64.o with what clang's sanitizers list, and roots.x86_64.o with statepoints.
set -euo pipefail
cd "$(dirname "$0")"
for target in x86_64 aarch64 powerpc64le powerpc64 powerpc64-elfv2 s390x riscv64; do
    triple=$target-unknown-linux-gnu
    [ $target = powerpc64-elfv2 ] && triple=powerpc64-unknown-linux-musl
    llc-19 -mtriple="$triple" -relocation-model=static -filetype=obj pc_sections.ll -o "pc_sections.$target.o"
    llc-19 -mtriple="$triple" -O2 -filetype=obj marked.ll -o "marked.$target.o"
done
# Addresses of pointer size.
llc-19 -mtriple=x86_64-unknown-linux-gnu -relocation-model=static -code-model=large -filetype=obj pc_sections.ll -o pc_sections.x86_64-large.o
clang-19 --target=x86_64-unknown-linux-gnu -O1 -c -ffreestanding \
    -fexperimental-sanitize-metadata=covered,atomics,uar covered.c -o covered.x86_64.o
# Without the constructors that hand the tables to a sanitizer's runtime.
llvm-objcopy-19 -R .init_array.2 -R .fini_array.2 covered.x86_64.o
llc-19 -mtriple=x86_64-unknown-linux-gnu -O2 -filetype=obj roots.ll -o roots.x86_64.o
# Flat stack maps, little and big endian, and a GC map: by hand, for no compiler writes them.
assemble() { llvm-mc-19 -triple="$1-unknown-linux-gnu" -filetype=obj - -o "$2"; }
for dialect in 0 1; do
    name=$([ $dialect = 0 ] && echo proposal || echo fork)
    {
        printf '%s\n' ".set DIALECT, $dialect" ".set FRAME_POINTER, 6" ".set STACK_POINTER, 7" ".set KEPT, 3"
        printf '%s\n' ".macro nops" ".byte 0x0f, 0x1f, 0x44, 0, 8" ".endm" ".macro leave" "ret" ".endm"
        cat flat.s
    } | assemble x86_64 "flat-$name.x86_64.o"
    {
        printf '%s\n' ".set DIALECT, $dialect" ".set FRAME_POINTER, 11" ".set STACK_POINTER, 15" ".set KEPT, 10"
        printf '%s\n' ".macro nops" "brcl 0, 0" ".endm" ".macro leave" "br %r14" ".endm"
        cat flat.s
    } | assemble s390x "flat-$name.s390x.o"
done
assemble x86_64 gc_map.x86_64.o <gc_map.s
# Tables of a linked file.
ld.lld-19 -N -e plain --unresolved-symbols=ignore-all --build-id=none covered.x86_64.o gc_map.x86_64.o -o linked.x86_64.exe
