#!/bin/sh
# Compiles the object of the tests of told sites. Made with LLVM 14; it has no stack map.
set -e
cd "$(dirname "$0")"
llc -O2 -filetype=obj -relocation-model=pic plain.ll -o plain.o
