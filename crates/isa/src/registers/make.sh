#!/usr/bin/env bash
# Makes the lists of this folder: LLVM 19's name for each DWARF number from 0 to 160 and from 1200 to 1231, one
# a line. Needs llvm-mc and llvm-dwarfdump of LLVM 19.
set -euo pipefail
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
{
  echo 'f: .cfi_startproc'
  for number in $(seq 0 160) $(seq 1200 1231); do echo ".cfi_same_value $number"; done
  echo '.cfi_endproc'
} > "$work/frame.s"
for arch in x86_64 aarch64 powerpc64le s390x riscv64; do
  llvm-mc-19 -triple=$arch-linux-gnu -filetype=obj "$work/frame.s" -o "$work/frame.o"
  llvm-dwarfdump-19 --eh-frame "$work/frame.o" 2> /dev/null |
    sed -n 's/.*DW_CFA_same_value: *//p' > $arch.txt
done
