#!/usr/bin/env bash
# Compiles, links and runs the C programs of the guide, with gcc and clang where it is there, against the crate patchpoint-capi.
# Each block that is marked as C and has a `main` is a program; what it prints has to be in its chapter.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --quiet --release -p patchpoint-capi
library=$PWD/${CARGO_TARGET_DIR:-target}/release/libpatchpoint_c.a

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp examples/objects/inline_cache.o "$work"

programs=0
for page in guide/src/*.md; do
    awk -v base="$work/$(basename "$page" .md)" '
        /^```c$/ { file = base "." ++number ".c"; next }
        /^```/ { file = "" }
        file { print >file }
    ' "$page"
    for source in "$work/$(basename "$page" .md)".*.c; do
        grep -qs '^int main' "$source" || continue
        for compiler in gcc clang; do
            command -v $compiler >/dev/null || continue
            $compiler -std=c11 -O1 -Wall -Wextra -Werror -pedantic -I crates/capi/include "$source" "$library" \
                -lpthread -ldl -lm -o "$work/program"
            printed=$(cd "$work" && ./program)
            grep -qF "$printed" "$page" || { echo "$page does not say what its program prints: $printed" >&2; exit 1; }
        done
        programs=$((programs + 1))
        echo "$page: $printed"
    done
done
[ $programs -gt 0 ] || { echo "the guide has no program in C" >&2; exit 1; }
