#!/usr/bin/env bash
# Makes the objects of this folder anew: make.sh [ARCH...], by default all. Needs llc 19.
set -euo pipefail
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The source as an architecture compiles it. On the other architectures the lengths are those of `objects/make.sh`, and:
# - LLVM for AArch64 and RISC-V calls numbers only: the test puts the address of the function in the place of this one.
# - LLVM for RISC-V does not save ra for a patchpoint.
# - CFI would count as bytes of a shadow on AArch64; without it there is none.
# - Not every architecture has "patchable-function-entry".
# - Other prologues: what ends at a multiple of 16 has another length.
adapt() { # arch, nop
    [ "$1" != x86_64 ] || { cat traps.ll; return; }
    ARCH=$1 NOP=$(($2)) perl -pe '
        my ($arch, $nop) = @ENV{"ARCH", "NOP"};
        my %last = (aarch64 => 56, riscv64 => 56, powerpc64le => 52, powerpc64 => 60, s390x => 54);
        s/(\.stackmap\(i64 -?\d+, i32 )(\d+)/$1 . 4 * int(($2 + 3) \/ 4)/e;
        s/(\.patchpoint\.\w+\(i64 -?\d+, i32 )(\d+)/$1 . 8 * int(($2 + 3) \/ 4)/e;
        s/(\(i64 9, i32 )\d+/$1$last{$arch}/;
        s/ptr \@(callee|step),/ptr inttoptr (i64 20015998343869 to ptr),/ if $arch =~ /^(aarch64|riscv64)$/;
        s/^(define i64 \@(calls|recurses).*)/$1\n  call void asm sideeffect "", "~{x1}"()/ if $arch eq "riscv64";
        s/uwtable/nounwind align 16/;
        s/ "patchable-function-entry"="16"/ prologue [4 x i32] [i32 $nop, i32 $nop, i32 $nop, i32 $nop]/;
    ' <traps.ll
}

nop() {
    case $1 in
    aarch64) echo 0xd503201f ;;
    powerpc64*) echo 0x60000000 ;;
    s390x) echo 0x47000000 ;;
    riscv64) echo 0x00000013 ;;
    esac
}

[ $# -gt 0 ] || set -- x86_64 aarch64 powerpc64le powerpc64 s390x riscv64
for arch in "$@"; do
    flags=("-mtriple=$arch-unknown-linux-gnu")
    [ "$arch" != riscv64 ] || flags+=(-mattr=+m,+a,+f,+d -target-abi=lp64d)
    adapt "$arch" "$(nop "$arch")" >"$work/traps.ll"
    llc-19 "${flags[@]}" -relocation-model=pic -filetype=obj -O2 \
        -enable-patchpoint-liveness=false "$work/traps.ll" -o "traps.$arch.o"
done
