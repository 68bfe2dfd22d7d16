#!/bin/sh
# Makes live_stress.ll and live_stress.o: sites of several lengths at every alignment.
#
#   ID       function  what
#   100 + k  any_k     anyregcc, result, 1 argument, reserved 9 + 4 k bytes, behind k bytes of nops
#   200 + k  call_k    C convention, the same, with a call of `callee`, reserved 13 + 3 k bytes
#   900      k > 0     the k bytes of nops; not to be registered
#
# Both kinds take and return an i64. The nops make each k's site start at another distance from a multiple of 8.
set -eu
cd "$(dirname "$0")"
{
    echo "; The object of examples/live_stress.rs, made by make_live_stress.sh, which says what is in it."
    echo "declare i64 @callee(i64)"
    echo "declare i64 @llvm.experimental.patchpoint.i64(i64, i32, ptr, i32, ...)"
    echo "declare void @llvm.experimental.patchpoint.void(i64, i32, ptr, i32, ...)"
    for k in 0 1 2 3 4 5 6 7; do
        nops="  call void (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.void(i64 900, i32 $k, ptr null, i32 0)"
        # An empty patchpoint would lie where the site begins.
        [ $k -gt 0 ] || nops=
        cat <<IR

define i64 @any_$k(i64 %x) uwtable {
$nops
  %r = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 $((100 + k)), i32 $((9 + 4 * k)), ptr null, i32 1, i64 %x)
  ret i64 %r
}

define i64 @call_$k(i64 %x) uwtable {
$nops
  %r = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 $((200 + k)), i32 $((13 + 3 * k)), ptr @callee, i32 1, i64 %x)
  ret i64 %r
}
IR
    done
} >live_stress.ll
llc-19 -O2 -mtriple=x86_64-unknown-linux-gnu -relocation-model=pic -enable-patchpoint-liveness=false \
    -filetype=obj live_stress.ll -o live_stress.o
