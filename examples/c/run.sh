#!/bin/sh
# Installs what the example needs, builds it and runs it, on Debian 12 with cargo and git.
#
#   ./run.sh              build and run
#   CC=clang ./run.sh     by another compiler
#   CHECK=1 ./run.sh      under AddressSanitizer, which also finds leaks
#   PROFILE=dev ./run.sh  with a library that is built without optimization, in less time
set -eu
cd "$(dirname "$0")"
root=../..
packages="gcc libc6-dev"
sudo=
[ "$(id -u)" = 0 ] || sudo=sudo
# shellcheck disable=SC2086
if ! dpkg -s $packages >/dev/null 2>&1; then
    $sudo apt-get update
    # shellcheck disable=SC2086
    $sudo apt-get install -y --no-install-recommends $packages
fi
profile=${PROFILE:-release}
cargo build --profile "$profile" --manifest-path "$root/Cargo.toml" --lib -p patchpoint-capi
folder=$profile
[ "$profile" != dev ] || folder=debug
library=${CARGO_TARGET_DIR:-$root/target}/$folder/libpatchpoint_c.a
flags="-std=c11 -O2 -Wall -Wextra -Werror -pedantic"
[ -z "${CHECK:-}" ] || flags="$flags -g -fsanitize=address,undefined"
mkdir -p target
# shellcheck disable=SC2086
"${CC:-gcc}" $flags -I "$root/crates/capi/include" main.c "$library" -lpthread -ldl -lm -o target/main
case $(uname -m) in
x86_64) object=inline_cache.o ;;
ppc64le) object=inline_cache.powerpc64le.o ;;
*) object=inline_cache.$(uname -m).o ;;
esac
target/main "$root/examples/objects/$object"
