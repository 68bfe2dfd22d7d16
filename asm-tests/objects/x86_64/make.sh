#!/usr/bin/env bash
# Makes the objects and llvm-readobj's texts of this folder anew. Needs llc, llvm-mc, llvm-readobj 14 and 19.
#
#   NAME.llc{14,19}.O{0,2}.o     the object; .large, .static, .pic variants of the sources that say "; variants:"
#   NAME.ref.o                   the same functions with every patchpoint replaced by what its site is patched
#                                to (first argument + ID), so that expected results come from LLVM, not from a table
#   OBJECT.readobj.txt           what llvm-readobj --stackmap prints for it
set -euo pipefail
cd "$(dirname "$0")"
rm -f ./*.o ./*.readobj.txt
triple=-mtriple=x86_64-unknown-linux-gnu

compile() { # version, source, object, flags..
    local version=$1 source=$2 object=$3
    shift 3
    local pointers=()
    [ "$version" = 14 ] && pointers=(-opaque-pointers)
    "llc-$version" "${pointers[@]}" $triple -filetype=obj "$@" "$source" -o "$object" 2>/tmp/llc.$$ ||
        { echo "$object: llc failed"; head -5 /tmp/llc.$$; rm -f "$object"; exit 1; }
    rm -f /tmp/llc.$$
    case $object in *.ref.o) return ;; esac
    if "llvm-readobj-$version" --sections "$object" | grep llvm_stackmaps >/dev/null; then
        "llvm-readobj-$version" --stackmap "$object" >"${object%.o}.readobj.txt"
    fi
}

model() { # source
    sed -E \
        -e '/^declare .*@llvm\.experimental\./d' \
        -e '/call .*@llvm\.experimental\.stackmap/d' \
        -e '/call .*@llvm\.experimental\.patchpoint\.void/d' \
        -e 's/call .*@llvm\.experimental\.patchpoint\.i64\(i64 (-?[0-9]+), i32 [0-9]+, ptr (null|@[a-z0-9_]+|inttoptr \([^)]*\)), i32 0[,)].*/call i64 @model.none(i64 \1)/' \
        -e 's/(call|invoke) .*@llvm\.experimental\.patchpoint\.i64\(i64 (-?[0-9]+), i32 [0-9]+, ptr (null|@[a-z0-9_]+|inttoptr \([^)]*\)), i32 [0-9]+, (i64|ptr) ([^,)]+).*\)( to label.*)?$/\1 i64 @model.\4(i64 \2, \4 \5)\6/' \
        "$1"
    cat <<'IR'
define internal i64 @model.none(i64 %id) { ret i64 %id }
define internal i64 @model.i64(i64 %id, i64 %arg) {
  %r = add i64 %id, %arg
  ret i64 %r
}
define internal i64 @model.ptr(i64 %id, ptr %arg) {
  %v = ptrtoint ptr %arg to i64
  %r = add i64 %id, %v
  ret i64 %r
}
IR
}

for source in *.ll; do
    name=${source%.ll}
    flags=$(sed -n 's|^; llc: \([^(]*\).*|\1|p' "$source")
    only=$(sed -n 's/^; only: //p' "$source")
    levels=$(sed -n "s/^; levels: //p" "$source")
    variants=$(sed -n 's/^; variants: //p' "$source")
    for version in 14 19; do
        [ -n "$only" ] && [ "$only" != $version ] && continue
        for level in ${levels:-0 2}; do
            base=$name.llc$version.O$level
            compile $version "$source" "$base.o" -O$level $flags
            for variant in $variants; do
                IFS=- read -r relocation code <<<"$variant"
                compile $version "$source" "$base.$variant.o" -O$level ${flags/-relocation-model=pic/} \
                    -relocation-model="$relocation" -code-model="$code"
            done
        done
    done
    model "$source" >"/tmp/$name.ref.ll"
    compile 19 "/tmp/$name.ref.ll" "$name.ref.o" -O1 -relocation-model=pic
    rm "/tmp/$name.ref.ll"
done

for source in asm/*.s; do
    llvm-mc-19 -triple=x86_64-unknown-linux-gnu -filetype=obj "$source" -o "${source%.s}.o"
done
# Two objects in one, as a build system's partial link leaves them: two stack maps in one section.
ld.lld-19 -r property.llc19.O2.o repeat.llc14.O2.o -o asm/partial.o
