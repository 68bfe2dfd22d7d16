#!/usr/bin/env bash
# Makes the objects of this folder anew from src/*.c: ARCH-COMPILER-MODEL-LEVEL/NAME.o, with gcc 12, aarch64-linux-gnu-gcc 12 and
# clang 19. MODEL is pic or nopic; nopic-large and pic-large have other code models. Then `jitlink_oracle.rs` with PATCHPOINT_RECORD=1 makes expected.txt anew.
set -euo pipefail
cd "$(dirname "$0")"
flags=(-c -g0 -fno-ident -fno-stack-protector -fno-asynchronous-unwind-tables -funwind-tables -w)
compile() { # arch, compiler, model, level, flags..
    local arch=$1 compiler=$2 model=$3 level=$4
    shift 4
    local folder=$arch-$compiler-$model-$level more=()
    mkdir -p "$folder"
    case $model in
    pic*) more+=(-fPIC) ;;
    nopic*) more+=(-fno-pic) ;;
    esac
    case $arch-$model in *-*-large) more+=(-mcmodel=large) ;; esac
    for source in src/*.c; do
        local name one=()
        name=$(basename "$source" .c)
        # LLVM has no large code model of thread-local storage for AArch64.
        [ "$name-$model" = tls-nopic-large ] && continue
        case $name in
        cleanup) one=(-fexceptions) ;;
        weak) one=(-fcommon) ;;
        esac
        case $arch-$compiler in
        x86_64-gcc) gcc-12 "${flags[@]}" "${more[@]}" "${one[@]}" "-$level" "$source" -o "$folder/$name.o" "$@" ;;
        aarch64-gcc) aarch64-linux-gnu-gcc "${flags[@]}" "${more[@]}" "${one[@]}" "-$level" "$source" -o "$folder/$name.o" "$@" ;;
        *-clang) clang-19 "--target=$arch-linux-gnu" "${flags[@]}" "${more[@]}" "${one[@]}" "-$level" "$source" -o "$folder/$name.o" "$@" ;;
        esac
    done
}
rm -rf x86_64-* aarch64-*
for arch in x86_64 aarch64; do
    for compiler in gcc clang; do
        for model in pic nopic; do
            for level in O0 O2; do compile $arch $compiler $model $level; done
        done
    done
    compile $arch clang nopic-large O2
    compile $arch gcc nopic-large O2
done
compile x86_64 gcc pic-noplt O2 -fno-plt
compile x86_64 clang pic-noplt O2 -fno-plt
