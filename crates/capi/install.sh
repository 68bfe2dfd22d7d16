#!/usr/bin/env bash
# Builds the library and installs it with its header, pkg-config file and CMake package.
#
#     crates/capi/install.sh PREFIX
#
# Where cargo-c is installed, `cargo cinstall -p patchpoint-capi --prefix PREFIX --libdir lib` does the same, without the CMake
# package and without versions of symbols: those need a linker script of our own, where rustc has one of its own. So the
# shared library is linked here, of the static one. DESTDIR is put before PREFIX in the places that are written, and not
# in what is written. PROFILE is `release` if nothing else is said; CC links.
set -euo pipefail

[ $# -eq 1 ] || { echo "usage: install.sh PREFIX" >&2; exit 2; }
case $1 in
/*) prefix=$1 ;;
*) prefix=$(pwd)/$1 ;;
esac
cd "$(dirname "$0")"

profile=${PROFILE:-release}
cc=${CC:-cc}
cargo=${CARGO:-cargo}
case $profile in
dev) folder=debug ;;
*) folder=$profile ;;
esac
"$cargo" build --lib -p patchpoint-capi --profile "$profile"
metadata=$("$cargo" metadata --format-version 1 --no-deps)
target=$(printf '%s' "$metadata" | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
version=$(sed -n 's/^#define PP_VERSION_\(MAJOR\|MINOR\|PATCH\) //p' include/patchpoint.h | paste -sd.)
soversion=${version%.*}
static=$target/$folder/libpatchpoint_c.a
to=${DESTDIR:-}$prefix

install -d "$to/include" "$to/lib/pkgconfig" "$to/lib/cmake/patchpoint"
install -m 644 include/patchpoint.h "$to/include/"
if [ -d include/patchpoint ]; then
    install -d "$to/include/patchpoint"
    install -m 644 include/patchpoint/* "$to/include/patchpoint/"
fi
install -m 644 "$static" "$to/lib/"
"$cc" -shared -o "$to/lib/libpatchpoint_c.so.$version" \
    -Wl,-soname,"libpatchpoint_c.so.$soversion" -Wl,--version-script=patchpoint.map \
    -Wl,--gc-sections -Wl,--whole-archive "$static" -Wl,--no-whole-archive -Wl,-z,relro,-z,now \
    -lpthread -ldl -lm -lgcc_s
chmod 755 "$to/lib/libpatchpoint_c.so.$version"
ln -sf "libpatchpoint_c.so.$version" "$to/lib/libpatchpoint_c.so.$soversion"
ln -sf "libpatchpoint_c.so.$soversion" "$to/lib/libpatchpoint_c.so"

fill() {
    sed -e "s|@PREFIX@|$prefix|g" -e "s|@VERSION@|$version|g" -e "s|@SOVERSION@|$soversion|g" "$1" >"$2"
}
fill pkgconfig/patchpoint.pc.in "$to/lib/pkgconfig/patchpoint.pc"
fill cmake/patchpoint-config.cmake.in "$to/lib/cmake/patchpoint/patchpoint-config.cmake"
fill cmake/patchpoint-config-version.cmake.in "$to/lib/cmake/patchpoint/patchpoint-config-version.cmake"
echo "installed patchpoint $version in $prefix"
