#!/usr/bin/env bash
# Compiles the blocks of the guide in C and C++, links and runs those that are programs: with gcc, and clang where it is there.
# What a program prints has to be in its chapter. Installs what it needs on Debian 12.
#
#   guide/c.sh              with LLVM 14
#   LLVM=19 guide/c.sh      with LLVM 19
#   PROFILE=dev guide/c.sh  with a library that is built without optimization, in less time
set -euo pipefail
cd "$(dirname "$0")/.."

llvm=${LLVM:-14}
profile=${PROFILE:-release}
packages=(gcc g++ libc6-dev "llvm-$llvm-dev")
sudo=
[ "$(id -u)" = 0 ] || sudo=sudo
if ! dpkg -s "${packages[@]}" >/dev/null 2>&1; then
    $sudo apt-get update
    $sudo apt-get install -y --no-install-recommends "${packages[@]}"
fi
cargo build --quiet --profile "$profile" --lib -p patchpoint-capi
folder=$profile
[ "$profile" != dev ] || folder=debug
library=${CARGO_TARGET_DIR:-$PWD/target}/$folder/libpatchpoint_c.a
read -ra headers <<<"-I crates/capi/include -isystem $("llvm-config-$llvm" --includedir)"
read -ra link <<<"$("llvm-config-$llvm" --ldflags) -lLLVM-$llvm"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp examples/objects/inline_cache.o "$work"

# Each block into a file of its own. What has no `main` are statements, which are put into a function.
blocks() {
    awk -v base="$2" '
        match($0, /^ *```(c|cpp)$/) { file = base "." ++number "." substr($0, index($0, "c")); next }
        /^ *```/ { file = "" }
        file { print >file }
    ' "$1"
}
compile() {
    local file=$1 compiler=$2 flags=(-O1 -Wall -Wextra -Werror "${headers[@]}") libraries=("$library")
    if [[ $file = *.cpp ]]; then
        compiler=${compiler/gcc/g++}
        compiler=${compiler/clang/clang++}
        flags+=(-std=c++17)
        libraries+=("${link[@]}")
    else
        flags+=(-std=c11 -pedantic)
    fi
    if grep -q '^int main' "$file"; then
        "$compiler" "${flags[@]}" "$file" "${libraries[@]}" -lpthread -ldl -lm -o "$work/program"
    else
        printf '#include <stddef.h>\n#include <llvm-c/Support.h>\nvoid block(void);\nvoid block(void) {\n' >"$work/block.c"
        cat "$file" - <<<'}' >>"$work/block.c"
        "$compiler" "${flags[@]}" -fsyntax-only "$work/block.c"
    fi
}

compilers=(gcc)
for clang in clang "clang-$llvm"; do
    ! command -v "$clang" >/dev/null || { compilers+=("$clang"); break; }
done
count=0
for page in guide/src/*.md; do
    blocks "$page" "$work/$(basename "$page" .md)"
    for source in "$work/$(basename "$page" .md)".*.c*; do
        [ -e "$source" ] || continue
        for compiler in "${compilers[@]}"; do
            compile "$source" "$compiler"
            grep -q '^int main' "$source" || continue
            printed=$(cd "$work" && ./program)
            grep -qF "$printed" "$page" || { echo "$page does not say what its program prints: $printed" >&2; exit 1; }
            echo "$page, by $compiler: $printed"
        done
        count=$((count + 1))
    done
done
echo "$count blocks"
[ $count -ge 3 ] || { echo "the guide has lost blocks in C and C++" >&2; exit 1; }
