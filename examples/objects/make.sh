#!/usr/bin/env bash
# Makes the objects of the examples: make.sh [ARCH...], by default all. Needs llc and llvm-mc 19.
#
#   NAME.ll, NAME.s  the source
#   NAME.o           for x86-64
#   NAME.ARCH.o      for the others
#
# live_stress.ll is made here too, for x86-64: sites of several lengths at every alignment.
#
#   ID       function  what
#   100 + k  any_k     anyregcc, result, 1 argument, behind k units of nops
#   200 + k  call_k    C convention, the same, with a call of `callee`; nops where LLVM emits garbage for a symbol
#   900      k > 0     the k units of nops; not to be registered
#
# Both kinds take and return an i64. The nops make the sites start at different distances from a multiple of 8. A unit is
# what an instruction's length is a multiple of; it and the reserved lengths are below, and in mod.rs.
set -euo pipefail
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# unit, reserved by any_k, reserved by call_k, callee
stress() { # arch, k
    case $1 in
    x86_64) echo 1 $((9 + 4 * $2)) $((13 + 3 * $2)) @callee ;;
    s390x) echo 2 $((24 + 4 * $2)) $((44 + 4 * $2)) @callee ;;
    powerpc64*) echo 4 $((24 + 4 * $2)) $((44 + 4 * $2)) @callee ;;
    *) echo 4 $((24 + 4 * $2)) $((44 + 4 * $2)) null ;;
    esac
}

live_stress() { # arch
    local k unit any call callee nops saves=
    # LLVM does not save ra for a patchpoint; it does for assembly that writes it.
    [ "$1" != riscv64 ] || saves=$'  call void asm sideeffect "", "~{x1}"()\n'
    echo "; The object of examples/live_stress.rs, made by make.sh, which says what is in it."
    echo "declare i64 @callee(i64)"
    echo "declare i64 @llvm.experimental.patchpoint.i64(i64, i32, ptr, i32, ...)"
    echo "declare void @llvm.experimental.patchpoint.void(i64, i32, ptr, i32, ...)"
    for k in 0 1 2 3 4 5 6 7; do
        read -r unit any call callee <<<"$(stress "$1" $k)"
        nops="  call void (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.void(i64 900, i32 $((unit * k)), ptr null, i32 0)"
        # An empty patchpoint would lie where the site begins.
        [ $k -gt 0 ] || nops=
        cat <<IR

define i64 @any_$k(i64 %x) uwtable {
$nops
  %r = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 $((100 + k)), i32 $any, ptr null, i32 1, i64 %x)
  ret i64 %r
}

define i64 @call_$k(i64 %x) uwtable {
$saves$nops
  %r = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 $((200 + k)), i32 $call, ptr $callee, i32 1, i64 %x)
  ret i64 %r
}
IR
    done
}

# The liveness pass of llc 14 and 19 crashes where floating-point code follows a patchpoint.
compile() { # arch, source, object, liveness
    local triple=$1-unknown-linux-gnu flags
    # musl has ELFv2 in either order of bytes.
    [ "$1" != powerpc64-elfv2 ] || triple=powerpc64-unknown-linux-musl
    flags=("-mtriple=$triple")
    # A shadow counts a compressed instruction as four bytes.
    [ "$1" != riscv64 ] || flags+=(-mattr=+m,+a,+f,+d -target-abi=lp64d)
    llc-19 -O2 "${flags[@]}" -relocation-model=pic "-enable-patchpoint-liveness=$4" -filetype=obj "$2" -o "$3"
}

[ $# -gt 0 ] || set -- x86_64 aarch64 powerpc64le powerpc64 powerpc64-elfv2 s390x riscv64
live_stress x86_64 >live_stress.ll
for arch in "$@"; do
    suffix=.$arch.o
    [ "$arch" != x86_64 ] || suffix=.o
    live_stress "$arch" >"$work/live_stress.ll"
    compile "$arch" inline_cache.ll "inline_cache$suffix" false
    # Only the list of live-outs tells that ra was saved.
    [ "$arch" = riscv64 ] && liveness=true || liveness=false
    compile "$arch" "$work/live_stress.ll" "live_stress$suffix" $liveness
done
# The bytes are all written out: another version of LLVM makes the same.
case " $* " in *" x86_64 "*) llvm-mc-19 -triple=x86_64-unknown-linux-gnu -filetype=obj told.s -o told.o ;; esac
