#!/usr/bin/env bash
# Builds the book into target/book: build.sh [--open]. Its blocks are tested by `cargo test -p guide`.
#
# mdbook is taken from the path, else from target/tools, where it is installed the first time (a few minutes). Where it
# cannot be installed, as without a network, that is said and the exit status is 0: the chapters can be read as they are.
set -euo pipefail
cd "$(dirname "$0")/.."

# What the book was last built with.
version=0.5.4
tools=$PWD/target/tools
PATH=$PATH:$tools/bin

if ! command -v mdbook >/dev/null; then
    if ! cargo install --quiet --locked --root "$tools" --no-default-features --features search "mdbook@$version"; then
        echo "skipped: mdbook is not here and cannot be installed; the chapters are in guide/src" >&2
        exit 0
    fi
fi
mdbook build guide "$@"
echo "target/book/index.html"
