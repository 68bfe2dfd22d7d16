#!/usr/bin/env bash
# Makes objects anew: make.sh [FOLDER...], by default all of them. Needs LLVM 14 and 19 (llc, llvm-mc, llvm-readobj).
#
#   ir/NAME.ll                            the sources, for every architecture
#   FOLDER/NAME.llc{14,19}.O{0,2}.o       the object, and VARIANT (relocation-code model) of the sources that say so
#   FOLDER/NAME.ref.o                     the same functions with every patchpoint replaced by what its site is patched
#                                         to (first argument + ID), so that expected results come from LLVM
#   x86_64/OBJECT.readobj.txt             what llvm-readobj --stackmap prints for it
#   FOLDER/missing.txt                    what this version of llc could not compile: it crashes or does not end
set -euo pipefail
cd "$(dirname "$0")"
folders=(x86_64 aarch64 powerpc64le powerpc64 powerpc64-elfv2 s390x riscv64 riscv64c)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# What llc is told for a folder.
target() { # folder
    case $1 in
    x86_64 | aarch64 | powerpc64le | powerpc64 | s390x) echo "-mtriple=$1-unknown-linux-gnu" ;;
    powerpc64-elfv2) echo "-mtriple=powerpc64-unknown-linux-musl -target-abi=elfv2" ;;
    riscv64) echo "-mtriple=riscv64-unknown-linux-gnu -mattr=+m,+a,+f,+d -target-abi=lp64d" ;;
    riscv64c) echo "-mtriple=riscv64-unknown-linux-gnu -mattr=+m,+a,+f,+d,+c -target-abi=lp64d" ;;
    *) echo "unknown folder $1" >&2; exit 2 ;;
    esac
}

# The versions that have stack maps there.
versions() { case $1 in riscv64*) echo 19 ;; *) echo 14 19 ;; esac }

# The relocation and code models of a source that has variants.
variants() { # folder, those of x86-64
    [ -z "$2" ] && return
    case $1 in
    x86_64) echo "$2" ;;
    powerpc64*) echo static-small pic-small pic-medium pic-large ;;
    aarch64) echo static-large pic-tiny pic-small ;;
    s390x) echo pic-small ;;
    riscv64*) echo pic-small static-medium pic-medium ;;
    esac
}

# The source as a folder compiles it. On the other architectures, instructions have at least two bytes and sequences are
# longer: shadows are rounded up to 4 bytes, and patchpoints are twice as long. `asm_tests::Source` does the same.
# Functions for features of x86-64 are left out, and AArch64 has nops where the source has a symbol as target (LLVM emits garbage for it).
adapt() { # folder, source
    [ "$1" = x86_64 ] && { cat "$2"; return; }
    perl -pe '
        s/(\.stackmap\(i64 -?\d+, i32 )(\d+)/$1 . 4 * int(($2 + 3) \/ 4)/e;
        s/(\.patchpoint\.\w+\(i64 -?\d+, i32 )(\d+)/$1 . 8 * int(($2 + 3) \/ 4)/e;
        $_ = "" if /^define .*"target-features"/ .. /^}/;
        s/(\.patchpoint\.\w+\(i64 -?\d+, i32 \d+, ptr )@\w+/$1null/ if "'"$1"'" =~ /^(aarch64|riscv64c?)$/;
        s/, <\d+ x \w+> %\w+//g if /\.(patchpoint|stackmap)/ && "'"$1"'" =~ /^(powerpc64(-elfv2)?|s390x|riscv64c?)$/;
    ' <"$2"
}

# Compiles, and says whether that worked. Release builds of llc end in a loop where they cannot pad.
compile() { # folder, version, source, object, flags..
    local folder=$1 version=$2 source=$3 object=$4 pointers=()
    shift 4
    [ "$version" = 14 ] && pointers=(-opaque-pointers)
    # shellcheck disable=SC2046
    (timeout 5 "llc-$version" "${pointers[@]}" $(target "$folder") -filetype=obj "$@" "$source" -o "$object") \
        2>"$work/log" || { rm -f "$object"; return 1; }
}

# Compiles an object with a stack map.
object() { # folder, version, source, object, flags..
    local folder=$1 version=$2 object=$4
    if ! compile "$@"; then
        [ "$folder" = x86_64 ] && { echo "$object: llc failed"; head -5 "$work/log"; exit 1; }
        basename "$object" >>"$folder/missing.txt"
        return 0
    fi
    if [ "$folder" = x86_64 ] && "llvm-readobj-$version" --sections "$object" | grep llvm_stackmaps >/dev/null; then
        (cd "$folder" && "llvm-readobj-$version" --stackmap "$(basename "$object")") >"${object%.o}.readobj.txt"
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

# What a line of the source's head says.
says() { sed -n "s/^; $2: \([^(]*\).*/\1/p" "$1"; }

# Compiles one source for one folder.
make_source() { # folder, source
    local folder=$1 name flags only version level variant relocation code
    name=$(basename "$2" .ll)
    adapt "$folder" "$2" >"$work/$name.ll"
    flags=$(says "$2" llc)
    only=$(says "$2" only)
    for version in $(versions "$folder"); do
        [ -n "$only" ] && [ "$only" != "$version" ] && continue
        for level in $(says "$2" levels | grep . || echo 0 2); do
            local base=$folder/$name.llc$version.O$level
            # shellcheck disable=SC2086
            object "$folder" "$version" "$work/$name.ll" "$base.o" -O"$level" $flags
            for variant in $(variants "$folder" "$(says "$2" variants)"); do
                IFS=- read -r relocation code <<<"$variant"
                # shellcheck disable=SC2086
                object "$folder" "$version" "$work/$name.ll" "$base.$variant.o" -O"$level" \
                    ${flags/-relocation-model=pic/} -relocation-model="$relocation" -code-model="$code"
            done
        done
    done
    model "$work/$name.ll" >"$work/$name.ref.ll"
    compile "$folder" 19 "$work/$name.ref.ll" "$folder/$name.ref.o" -O1 -relocation-model=pic ||
        { echo "$folder/$name.ref.o: llc failed"; head -5 "$work/log"; exit 1; }
}

make_folder() { # folder
    local folder=$1 source
    mkdir -p "$folder"
    rm -f "$folder"/*.o "$folder"/*.readobj.txt "$folder/missing.txt"
    for source in ir/*.ll; do
        case $folder/$source in x86_64/* | */random_[1-4].ll) ;; */random_*.ll) continue ;; esac
        make_source "$folder" "$source"
    done
    [ "$folder" = x86_64 ] || return 0
    for source in x86_64/asm/*.s; do
        llvm-mc-19 -triple=x86_64-unknown-linux-gnu -filetype=obj "$source" -o "${source%.s}.o"
    done
    # Two objects in one, as a build system's partial link leaves them: two stack maps in one section.
    (cd x86_64 && ld.lld-19 -r property.llc19.O2.o repeat.llc14.O2.o -o asm/partial.o)
}

[ $# -eq 0 ] || folders=("$@")
for folder in "${folders[@]}"; do make_folder "$folder"; done
