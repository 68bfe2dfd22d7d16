#!/usr/bin/env bash
# Makes the objects anew, with LLVM 19: pc_sections.TARGET.o, marked.TARGET.o with instructions that become sites, covered.x86_64.o with what clang's sanitizers list, and roots.x86_64.o with statepoints.
set -euo pipefail
cd "$(dirname "$0")"
for target in x86_64 aarch64 powerpc64le powerpc64 s390x riscv64; do
    llc-19 -mtriple="$target-unknown-linux-gnu" -relocation-model=static -filetype=obj pc_sections.ll -o "pc_sections.$target.o"
    llc-19 -mtriple="$target-unknown-linux-gnu" -O2 -filetype=obj marked.ll -o "marked.$target.o"
done
# Addresses of pointer size.
llc-19 -mtriple=x86_64-unknown-linux-gnu -relocation-model=static -code-model=large -filetype=obj pc_sections.ll -o pc_sections.x86_64-large.o
clang-19 --target=x86_64-unknown-linux-gnu -O1 -c -ffreestanding \
    -fexperimental-sanitize-metadata=covered,atomics,uar covered.c -o covered.x86_64.o
# Without the constructors that hand the tables to a sanitizer's runtime.
llvm-objcopy-19 -R .init_array.2 -R .fini_array.2 covered.x86_64.o
llc-19 -mtriple=x86_64-unknown-linux-gnu -O2 -filetype=obj roots.ll -o roots.x86_64.o
