#!/usr/bin/env bash
# What would be published: packages.sh [--list]. Prints the files and sizes of each crate's package, refuses tests and what they
# read, and builds each crate from its package, with all features. With --list it builds nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

# By what their manifests say.
crates=()
others=()
for manifest in Cargo.toml */Cargo.toml crates/*/Cargo.toml; do
    name=$(sed -n '/^\[package\]/,/^\[/s/^name = "\(.*\)"/\1/p' "$manifest")
    case $manifest in fuzz/* | producers/*) continue ;; esac # workspaces of their own
    if grep -q '^publish = false' "$manifest"; then
        others+=(--exclude "$name")
    else
        crates+=("$name")
    fi
done

# The crates are resolved among each other: none of them has to be in a registry.
build=(--all-features)
[ "${1-}" != --list ] || build=(--no-verify)
cargo package --workspace --allow-dirty --quiet "${others[@]}" "${build[@]}"

version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
wrong=0
printf '%-20s %6s %10s %10s\n' crate files KB 'packed KB'
for name in "${crates[@]}"; do
    package=${CARGO_TARGET_DIR:-target}/package/$name-$version.crate
    files=$(tar -tzf "$package")
    printf '%-20s %6d %10d %10d\n' "$name" "$(wc -l <<<"$files")" \
        "$(($(gzip -dc "$package" | wc -c) / 1024))" "$(($(wc -c <"$package") / 1024))"
    for needed in README.md LICENSE-MIT LICENSE-APACHE; do
        grep -q "/$needed\$" <<<"$files" || { echo "  $needed is missing" >&2; wrong=1; }
    done
    if grep -E '/(tests|testdata|encodings)/|/tests\.rs$|_tests(\.rs|/)|/src/.*\.(s|ll|txt|yaml|o)$' <<<"$files" >&2; then
        echo "  these are of tests" >&2
        wrong=1
    fi
done
exit $wrong
