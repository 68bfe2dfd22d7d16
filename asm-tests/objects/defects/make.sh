#!/usr/bin/env bash
# Makes the objects of this folder anew, NAME.ARCH.o from NAME.ll. Needs llc 19. What each shows is in its source.
set -euo pipefail
cd "$(dirname "$0")"
rm -f ./*.o

make() { # source, name and architecture, flags..
    local source=$1 object=$2
    shift 2
    llc-19 "$@" -filetype=obj -O2 "$source" -o "$object.o"
}
riscv="-mtriple=riscv64-unknown-linux-gnu -target-abi=lp64d -mattr=+m,+a,+f,+d"

make cfi.ll cfi.aarch64 -mtriple=aarch64-unknown-linux-gnu
# shellcheck disable=SC2086
make compressed.ll compressed.riscv64c $riscv,+c
sed s/LENGTH/28/ tight.ll | make - tight.powerpc64le -mtriple=powerpc64le-unknown-linux-gnu
elf_v2="-mtriple=powerpc64-unknown-linux-musl -target-abi=elfv2"
# shellcheck disable=SC2086
sed s/LENGTH/28/ tight.ll | make - tight.powerpc64-elfv2 $elf_v2
# shellcheck disable=SC2086
for name in fence short; do make $name.ll $name.powerpc64-elfv2 $elf_v2; done
sed s/LENGTH/36/ tight.ll | make - tight.powerpc64 -mtriple=powerpc64-unknown-linux-gnu
for arch in aarch64 powerpc64le powerpc64 s390x x86_64; do make fence.ll fence.$arch -mtriple=$arch-unknown-linux-gnu; done
# shellcheck disable=SC2086
make fence.ll fence.riscv64 $riscv
# shellcheck disable=SC2086
make fence.ll fence.riscv64c $riscv,+c
# shellcheck disable=SC2086
make link.ll link.riscv64 $riscv
make scalable.ll scalable.aarch64 -mtriple=aarch64-unknown-linux-gnu -mattr=+sve
# shellcheck disable=SC2086
make scalable.ll scalable.riscv64 $riscv,+v
make symbol.ll symbol.aarch64 -mtriple=aarch64-unknown-linux-gnu
for arch in aarch64 powerpc64le powerpc64 s390x; do make short.ll short.$arch -mtriple=$arch-unknown-linux-gnu; done
