#!/usr/bin/env bash
# The public API of each library, compared with its list in release/api: api.sh [--write] [CRATE...]. A difference is printed, and
# the exit status is 1; --write makes the lists anew.
#
# cargo-public-api is taken from the path, else from target/tools, where it is installed the first time (some minutes). What it
# reads is made by the compiler that is there, which is told to do so (RUSTC_BOOTSTRAP). The lists are of the standard features
# and of those that docs.rs shows, without what is implemented for everything.
set -euo pipefail
cd "$(dirname "$0")/.."

# It has to know the form in which the compiler writes: this one knows that of Rust 1.95.
version=0.52.0
tools=$PWD/target/tools
PATH=$PATH:$tools/bin
command -v cargo-public-api >/dev/null ||
    cargo install --quiet --locked --root "$tools" "cargo-public-api@$version"

write=false
if [ "${1-}" = --write ]; then
    write=true
    shift
fi

# A folder of its own: what is compiled with RUSTC_BOOTSTRAP is not mixed with the rest.
export CARGO_TARGET_DIR=target/api RUSTC_BOOTSTRAP=1
mkdir -p release/api
wrong=0
for manifest in Cargo.toml crates/*/Cargo.toml; do
    name=$(sed -n '/^\[package\]/,/^\[/s/^name = "\(.*\)"/\1/p' "$manifest")
    [ -e "$(dirname "$manifest")/src/lib.rs" ] && ! grep -q '^publish = false' "$manifest" || continue
    [ $# -eq 0 ] || [[ " $* " = *" $name "* ]] || continue
    features=$(sed -n '/^\[package.metadata.docs.rs\]/,/^$/s/^features = \[\(.*\)\]/\1/p' "$manifest" | tr -d '" ')
    cargo rustdoc --quiet -p "$name" --lib --features "$features" --target x86_64-unknown-linux-gnu -- \
        -Zunstable-options --output-format json
    library=$(sed -n '/^\[lib\]/,/^$/s/^name = "\(.*\)"/\1/p' "$manifest")
    library=${library:-${name//-/_}}
    cargo public-api -sss --rustdoc-json "target/api/x86_64-unknown-linux-gnu/doc/$library.json" >"target/api/$name.txt"
    if $write; then
        cp "target/api/$name.txt" "release/api/$name.txt"
    elif ! diff -u --label "release/api/$name.txt" "release/api/$name.txt" --label "$name" "target/api/$name.txt"; then
        wrong=1
    fi
    printf '%-20s %5d items\n' "$name" "$(wc -l <"target/api/$name.txt")"
done
[ $wrong -eq 0 ] || echo "If it is meant: release/api.sh --write" >&2
exit $wrong
