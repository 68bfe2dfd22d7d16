#!/usr/bin/env bash
# Makes the objects of this folder, and what llvm-readobj says of them.
# Needs llc and llvm-readobj of LLVM 14 and 19, and lld 19.
set -euo pipefail
cd "$(dirname "$0")"
rm -f -- *.o *.so *.dll *.dylib *.exe *.txt

# compile NAME VERSION TRIPLE [OPTION]...
compile() {
  local name=$1 version=$2 triple=$3
  shift 3
  [ "$version" = 14 ] && set -- -opaque-pointers "$@"
  "llc-$version" -O2 -relocation-model=pic -mtriple="$triple" -filetype=obj "$@" sites.ll -o "$name-$version.o"
}

for version in 14 19; do
  compile x86_64 $version x86_64-linux-gnu
  compile aarch64 $version aarch64-linux-gnu
  compile powerpc64 $version powerpc64-linux-gnu
  compile powerpc64le $version powerpc64le-linux-gnu
  compile powerpc64-elfv2 $version powerpc64-linux-musl -target-abi=elfv2
  compile s390x $version s390x-linux-gnu
  compile macho-x86_64 $version x86_64-apple-darwin
  compile macho-arm64 $version arm64-apple-darwin
done
# LLVM 14 writes no stack maps into COFF and has no patchpoints on RISC-V.
compile coff-x86_64 19 x86_64-pc-windows-msvc
compile coff-aarch64 19 aarch64-pc-windows-msvc
compile aarch64_be 19 aarch64_be-linux-gnu
compile x32 19 x86_64-linux-gnux32
compile riscv64 19 riscv64-linux-gnu -mattr=+m,+d
compile riscv64c 19 riscv64-linux-gnu -mattr=+m,+d,+c
# With linker relaxation the offsets of records are left to relocations.
compile riscv64r 19 riscv64-linux-gnu -mattr=+m,+d,+c,+relax

for target in x86_64-linux-gnu aarch64-linux-gnu powerpc64le-linux-gnu "s390x-linux-gnu -mcpu=z13"; do
  # shellcheck disable=SC2086
  llc-19 -O2 -relocation-model=pic -mtriple=$target -filetype=obj vector.ll -o "vector-${target%%-*}.o"
done

# An object without a stack map.
echo 'nop' | llvm-mc-19 -triple=x86_64-linux-gnu -filetype=obj -o empty-x86_64.o -

# Linked: several maps in one section, no relocations left, and RISC-V's offsets filled in.
link() { ld.lld-19 -shared -z notext --build-id=none "$@"; }
ld.lld-19 -r x86_64-19.o vector-x86_64.o -o joined-x86_64.o
link x86_64-19.o vector-x86_64.o -o linked-x86_64.so
link aarch64-19.o -o linked-aarch64.so
link riscv64c-19.o -o linked-riscv64.so
link powerpc64le-19.o -o linked-powerpc64le.so
link powerpc64-19.o -o linked-powerpc64.so
link powerpc64-elfv2-19.o -o linked-powerpc64-elfv2.so
link -soname libget.so.1 x86_64-14.o -o named-x86_64.so
lld-link-19 -dll -noentry -force -Brepro -out:linked-coff.dll coff-x86_64-19.o \
  -export:get -export:call_c -export:values -export:twice -export:dynamic 2> /dev/null
rm -f linked-coff.lib
ld64.lld-19 -arch x86_64 -platform_version macos 11 11 -dylib -undefined dynamic_lookup -no_uuid \
  -install_name libget.dylib macho-x86_64-19.o -o linked-macho.dylib

# Both versions print the same.
for file in *.o *.so *.dll *.dylib; do
  llvm-readobj-19 --stackmap "$file" > "$file.txt"
  llvm-readobj-14 --stackmap "$file" | cmp - "$file.txt"
done

# A linked file without any symbol.
ld.lld-19 -e get --unresolved-symbols=ignore-all -s --build-id=none x86_64-19.o -o stripped-x86_64.exe

# A map of version 1, which no llc of today writes and no llvm-readobj of today reads.
llvm-mc-19 -triple=x86_64-linux-gnu -filetype=obj -o old-x86_64.o - <<'END'
.section .llvm_stackmaps,"a",@progbits
.incbin "../../../fuzz/corpus/stackmap/hand-v1-little"
END
