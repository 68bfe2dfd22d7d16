#!/usr/bin/env bash
# Makes the objects of this folder anew. Needs clang, llc, llvm-mc, obj2yaml and yaml2obj 19. The IR is that of ../ir, the C program that
# of ../macho.
set -euo pipefail
cd "$(dirname "$0")"
triple=x86_64-pc-windows-msvc
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# No assembler writes relocations that count from a number behind the field, so their types are changed: by their offsets.
llvm-mc-19 -triple "$triple" -filetype=obj src/relocations.s -o "$work/r.o"
obj2yaml-19 "$work/r.o" | perl -pe '
    $at = $1 if /VirtualAddress:\s+(\d+)/;
    $code = $1 eq ".text" if /- Name:\s+(\S+)/;
    BEGIN { %number = (54 => 1, 62 => 2, 90 => 3, 70 => 4, 80 => 5) }
    s/(IMAGE_REL_AMD64_REL32)$/$1_$number{$at}/ if $code && $number{$at};
' | yaml2obj-19 -o x86_64/relocations.o
llvm-mc-19 -triple "$triple" -filetype=obj src/weak.s -o x86_64/weak.o

for level in 0 2; do
    for model in small large; do
        clang-19 -target "$triple" -O$level -mcmodel=$model -ffreestanding -fasynchronous-unwind-tables -c ../macho/src/program.c \
            -o "x86_64/program.O$level.$model.o"
    done
    clang-19 -target "$triple" -O$level -ffreestanding -fasynchronous-unwind-tables -g -gcodeview -ffunction-sections -fdata-sections -fcommon \
        -c ../macho/src/program.c -o "x86_64/debug.O$level.o"
    clang-19 -target "$triple" -O$level -c src/imports.c -o "x86_64/imports.O$level.o"
    for source in first second; do
        clang-19 -target "$triple" -O$level -fno-rtti -fno-inline -fno-threadsafe-statics -c "src/$source.cpp" \
            -o "x86_64/$source.O$level.o"
    done
    for source in property anyreg_mixed c_args repeat shadow relocs unwind; do
        llc-19 -mtriple="$triple" -filetype=obj -O$level -enable-patchpoint-liveness=false "../ir/$source.ll" \
            -o "x86_64/$source.O$level.o"
    done
done


