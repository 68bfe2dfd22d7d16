#!/usr/bin/env bash
# The C interface, misused through its own header under AddressSanitizer: every function with nulls, wrong
# sizes and handles of other kinds or freed ones, from two threads. Then the test programs, with a look for leaks.
#
#     crates/capi/fuzz.sh [SECONDS] [FIRST_SEED]
#
# Rust's memory comes from malloc, which the sanitizer replaces, and C's accesses are all checked. Needs clang
# (CLANG says which) with its sanitizers.
set -euo pipefail
cd "$(dirname "$0")"

seconds=${1:-60}
seed=${2:-1}
clang=${CLANG:-$(command -v clang-14 || command -v clang || true)}
[ -n "$clang" ] || { echo "skipped: there is no clang"; exit 0; }
cargo=${CARGO:-cargo}
target=${CARGO_TARGET_DIR:-../../target}/capi-fuzz
mkdir -p "$target"
target=$(cd "$target" && pwd)
object=$(pwd)/../../examples/objects/inline_cache.o

# The calls, of the header; and the library.
PATCHPOINT_FUZZ_CALLS=$target "$cargo" test -q -p patchpoint-capi --test fuzz calls_are_written >"$target/calls.out"
"$cargo" build -q -p patchpoint-capi --lib
library=$(cd ../../target/debug && pwd)/libpatchpoint_c.a

build() {
    "$clang" -std=gnu99 -g -O1 -fsanitize=address -fno-omit-frame-pointer -Wall -Wextra -Werror -pthread \
        -Iinclude "-I$target" -o "$target/$1" "tests/c/$1.c" "$library" -ldl -lm
}

build fuzz
cd "$target"
runs=0
end=$((SECONDS + seconds))
while [ $SECONDS -lt $end ]; do
    # What is never freed is the fuzzer's doing.
    if ! ASAN_OPTIONS=detect_leaks=0:abort_on_error=0 timeout 300 ./fuzz "$object" "$seed" 50000 >fuzz.out 2>fuzz.err; then
        echo "seed $seed fails:"
        tail -n 60 fuzz.out fuzz.err
        exit 1
    fi
    runs=$((runs + 1))
    seed=$((seed + 1))
done
printf '%d runs, the last: ' "$runs"
cat fuzz.out

cd - >/dev/null
# One of them reads a second object.
"$clang" -c -O2 -fPIC -o "$target/calls.o" tests/c/calls.c
for program in cache frames code adopted threads; do
    build "$program"
    objects=("$object")
    [ "$program" != adopted ] || objects+=("$target/calls.o")
    (cd "$target" && ASAN_OPTIONS=detect_leaks=1 "./$program" "${objects[@]}" >"$program.out" 2>"$program.err") ||
        { echo "$program fails:"; tail -n 60 "$target/$program.err"; exit 1; }
    echo "$program: nothing found"
done
