#!/usr/bin/env bash
# Builds for other architectures the tests and examples that touch the host, and runs them under an emulator: asm-tests/cross.sh ARCH...
# With --count before the first ARCH it runs no tests, and counts the instructions that a patch takes. ARCH is aarch64, powerpc64le, powerpc64, s390x or riscv64. For Debian 12 on x86-64, with cargo.
#
# Set up once, in ${XDG_CACHE_HOME:-$HOME/.cache}/patchpoint-cross and nowhere else: Debian's rustc 1.85 with the standard
# libraries for aarch64, powerpc64le and s390x, unpacked and not installed; those for riscv64 and powerpc64 are built from
# Debian's sources of the same version. The system's list of architectures is not touched. Where they are missing,
# qemu-user-static and the cross compilers, which link, are installed with apt-get.
#
# An emulator proves encodings and conventions, not concurrency. With --cfg emulated the library tells it of changed code.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() { echo "usage: asm-tests/cross.sh [--count] aarch64|powerpc64le|powerpc64|s390x|riscv64 ..." >&2; exit 2; }
counting=
[ "${1:-}" = --count ] && counting=$1 && shift
[ $# -gt 0 ] || usage
for arch in "$@"; do
    case $arch in aarch64 | powerpc64le | powerpc64 | s390x | riscv64) ;; *) usage ;; esac
done
architectures=("$@")
cache=${XDG_CACHE_HOME:-$HOME/.cache}/patchpoint-cross

# Tests that prove nothing here, and why; seen with qemu-user 7.2.
skipped=(
    # seccomp answers ENOSYS, so that nothing can be denied.
    where_writes_to_the_memory_file_are_refused without_proc_auto_takes_toggle without_memory_files_nothing_is_placed
    a_file_that_cannot_be_sealed without_membarrier
    memory::tests::forks::a_fork_without_its_barrier engine::live::tests::without_a_barrier what_the_barrier_refused_is_settled engine::tests::exhausted engine::live::tests::exhausted
    # ptrace answers ENOSYS, so that system calls are not counted.
    a_transaction_asks_the_system_for_two_changes the_other_strategies_ask_for_a_write
    engine::live::tests::barriers old_bytes_that_were_written_back_are_published
    # The debugger cannot trace the program.
    gdb_names_stubs_and_exit_stubs_and_goes_through_them
    # A thread of the emulator's is listed with the program's in /proc/self/task, with every signal blocked.
    publish::signals::tests
    # madvise(MADV_DONTFORK) succeeds and keeps nothing from a child; PR_SET_MDWE and limits of memory are the emulator's own.
    memory::tests::forks::a_child_that_no_handler_saw_has_no_code memory::tests::forks::without_memory_for_a_copy_a_child_has_no_code
    memory::tests::forks::neither_side_waits_for_ever memory::tests::forks::a_copy_needs_no_page_to_become_executable
    # Frames of signals, and alternate stacks, are the emulator's own.
    publish::trap::tests::profiled
    # A child that is forked while another thread starts one hangs in the emulator.
    memory::tests::forks::memory_comes_and_goes_while_others_fork engine::tests::forked::children_are_made_between_transactions
    beside_profilers_forks_threads_that_come_and_go_and_handlers_that_patch
    # So does, unless others have run before, one that is forked while a thread waits in a signal's handler.
    a_forks_child_is_alone_even_if_its_parent_was_stopping_threads
    # The emulator ended by a segmentation fault, for RISC-V, once in some 5,500 runs: signals come to threads that end.
    threads_that_come_and_go_while_they_are_asked_hang_nobody
    # madvise(MADV_WIPEONFORK) succeeds and wipes nothing.
    a_forked_child_is_refused a_forked_child_that_unloads_unmaps_nothing_of_its_own memory::tests::forks::a_writer_with_a_seat
)

# What gives the same on every host, `cargo test` has run already. It is run once more on a machine of the other byte order, this one;
# elsewhere only what touches the host. Test programs of asm-tests that compare bytes:
whole=s390x
host_independent=(encodings load load_cross load_oracle link_oracle jitlink_oracle link_check link_prune macho coff flat metadata relaxed
    protections house)
# Modules of the library, as an expression for the beginnings of tests' names; but for what of them runs code.
host_independent_modules='^(error|image|fuzzing::sequence)::'
runs_code='^image::tls::'
# Test programs that are for another architecture than these as a whole.
not_here=(formats_run live_boundaries profilers safepoints)

examples=(inline_cache osr)

say() { printf '\n== %s (after %d s)\n' "$*" "$SECONDS"; }

# Hundredths of a second of CPU that ended commands of this shell took.
cpu() {
    local stat
    read -ra stat <"/proc/$BASHPID/stat"
    used=$((stat[15] + stat[16]))
}

target() { case $1 in riscv64) echo riscv64gc-unknown-linux-gnu ;; *) echo "$1-unknown-linux-gnu" ;; esac; }
debian() { case $1 in aarch64) echo arm64 ;; powerpc64le) echo ppc64el ;; s390x) echo s390x ;; esac; }
qemu() { case $1 in powerpc64le) echo ppc64le ;; powerpc64) echo ppc64 ;; *) echo "$1" ;; esac; }

give_up() { printf 'asm-tests/cross.sh: %s\n' "$*" >&2; exit 1; }

# Installs what is missing of the linkers and the emulator; the linker of the host, for build scripts, among them.
install_packages() {
    local missing=() arch sudo=()
    command -v qemu-s390x-static >/dev/null || missing+=(qemu-user-static)
    # Only the emulator that is linked dynamically takes plugins.
    [ -z "$counting" ] || command -v qemu-s390x >/dev/null || missing+=(qemu-user)
    command -v cc >/dev/null || missing+=(gcc libc6-dev)
    for arch in "$@"; do
        command -v "$arch-linux-gnu-gcc" >/dev/null || missing+=("gcc-$arch-linux-gnu")
        [ -e "/usr/$arch-linux-gnu/lib/libc.so.6" ] || missing+=("libc6-dev-$(libc "$arch")-cross")
    done
    [ ${#missing[@]} -eq 0 ] && return
    say "installing ${missing[*]}"
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null || give_up "as root, install these packages: ${missing[*]}"
        sudo=(sudo)
    fi
    "${sudo[@]}" apt-get update || say "apt-get update failed; going on with the lists that are there"
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}" ||
        give_up "these packages cannot be installed: ${missing[*]}. Without them nothing is tested"
}

libc() { case $1 in powerpc64) echo ppc64 ;; aarch64 | powerpc64le) debian "$1" ;; *) echo "$1" ;; esac; }

# apt with lists and a cache of its own, which knows the other architectures.
apt() {
    local apt=$cache/apt
    mkdir -p "$apt/lists/partial" "$apt/archives/partial"
    : >"$apt/status"
    cat >"$apt/conf" <<CONF
Dir::State::lists "$apt/lists";
Dir::State::status "$apt/status";
Dir::Cache "$apt";
APT::Architectures { "amd64"; "arm64"; "ppc64el"; "s390x"; };
APT::Sandbox::User "root";
Acquire::Languages "none";
Acquire::Retries "3";
CONF
    APT_CONFIG=$apt/conf apt-get "$@"
}

# One list of many may be missing; what counts is whether the package is found.
update() {
    local version
    apt update || say "apt-get update failed; going on with the lists that are there"
    version=$(APT_CONFIG=$cache/apt/conf apt-cache policy rustc-web | sed -n 's/^ *Candidate: //p')
    case $version in '' | '(none)') give_up "Debian's lists do not name rustc-web; it is in Debian 12's main archive" ;; esac
    [ "$version" = "$(cat "$cache/version" 2>/dev/null)" ] && return
    # All packages of Rust have one version: what is unpacked of another, or by an earlier form of this script, goes.
    forget_unpacked
    echo "$version" >"$cache/version"
    # shellcheck disable=SC2086
    exec asm-tests/cross.sh $counting "${architectures[@]}"
}

forget_unpacked() { rm -rf "$cache"/unpacked-* "$cache"/built-* "$cache/root" "$cache/version"; }

download() { (cd "$cache/deb" && apt download "$1"); } # package

# Unpacks a package once: all of it, or one folder.
unpack() { # package, [folder]
    local mark=$cache/unpacked-${1//:/-} wanted=$1
    [ -e "$mark" ] && return
    case $1 in *rust*) wanted=$1=$(cat "$cache/version") ;; esac
    say "unpacking $wanted into $cache"
    rm -rf "$cache/deb" && mkdir -p "$cache/deb"
    # Lists that were fetched while the mirror changed may name what is gone: once more, with new ones.
    download "$wanted" || { update && download "$wanted"; } ||
        give_up "$wanted cannot be downloaded; it is in Debian 12's main archive, which apt's sources have to name"
    mkdir -p "$cache/root"
    dpkg --fsys-tarfile "$cache"/deb/*.deb | tar -x -C "$cache/root" "./${2:-}"
    rm -rf "$cache/deb" && touch "$mark"
}

set_up_rustc() {
    mkdir -p "$cache/bin"
    [ -s "$cache/version" ] || update
    local package
    # The last ones are what LLVM is linked with and a small system lacks.
    for package in rustc-web libstd-rust-web-1.85 libstd-rust-web-dev libllvm19 \
        libedit2 libbsd0 libmd0 libxml2 libicu72 libz3-4; do
        unpack "$package"
    done
    cat >"$cache/bin/rustc" <<WRAPPER
#!/bin/sh
export LD_LIBRARY_PATH=$cache/root/usr/lib/x86_64-linux-gnu
exec $cache/root/usr/bin/rustc "\$@"
WRAPPER
    chmod +x "$cache/bin/rustc"
    "$cache/bin/rustc" --version >/dev/null || give_up "Debian's rustc in $cache does not run"
}

# Builds the standard library, for the architectures without a package.
build_std() { # target
    local target=$1 work=$cache/std-$1 lib=$cache/root/usr/lib/rustlib/$1/lib
    [ -e "$cache/built-with-bitcode-$target" ] && return
    # Of the sources the library is a tenth.
    unpack rust-web-src usr/src/rustc-1.85.0/library
    mkdir -p "$cache/root/usr/lib/rustlib/src"
    ln -sfn ../../../src/rustc-1.85.0 "$cache/root/usr/lib/rustlib/src/rust"
    say "building the standard library for $target"
    rm -rf "$work" "$lib" && mkdir -p "$work/src" "$lib"
    printf '[package]\nname = "nothing"\nedition = "2021"\n[workspace]\n' >"$work/Cargo.toml"
    echo '#![no_std]' >"$work/src/lib.rs"
    # With bitcode, as the packages' are: what is counted is optimized as one with it.
    (cd "$work" && RUSTC=$cache/bin/rustc RUSTC_BOOTSTRAP=1 RUSTFLAGS="-C embed-bitcode=yes" CARGO_TARGET_DIR=$work/target \
        cargo build --release --target "$target" -Zbuild-std=std,panic_unwind,test,proc_macro) ||
        give_up "the standard library for $target cannot be built"
    cp "$work/target/$target/release/deps"/*.r{lib,meta} "$lib"
    rm -rf "$lib"/libnothing-* "$work" && touch "$cache/built-with-bitcode-$target"
}

set_up() { # arch
    local package
    set_up_rustc
    package=$(debian "$1")
    if [ -n "$package" ]; then unpack "libstd-rust-web-dev:$package"; else build_std "$(target "$1")"; fi
}

# cargo for an architecture. What tests run meanwhile goes first: some wait for threads of theirs, and give up. The library is
# optimized a little, as most of what is emulated is in it; the tests with LLVM's objects are many programs, and short.
cross() { # arch, arguments..
    local arch=$1 name levels=()
    shift
    # Where no sequences for x86-64 are assembled and checked, its decoder is built and never runs.
    [ "$arch" = "$whole" ] || levels=(--config 'profile.dev.package.iced-x86.opt-level=0')
    name=CARGO_TARGET_$(target "$arch" | tr 'a-z-' 'A-Z_')
    env RUSTC="$cache/bin/rustc" RUSTFLAGS="--cfg emulated" \
        CARGO_BUILD_TARGET="$(target "$arch")" CARGO_TARGET_DIR=target/cross \
        CARGO_PROFILE_DEV_DEBUG=0 CARGO_PROFILE_DEV_OPT_LEVEL=1 CARGO_INCREMENTAL=0 \
        "${name}_LINKER=$arch-linux-gnu-gcc" CARGO_TERM_COLOR=never \
        nice cargo --config 'profile.dev.package.asm-tests.opt-level=0' "${levels[@]}" "$@"
}

# The test programs that are run on an architecture: those of the library, and those with LLVM's objects.
running() { # arch
    local test left_out=("${not_here[@]}")
    [ "$1" = "$whole" ] || left_out+=("${host_independent[@]}")
    for test in tests/*.rs tests/*/main.rs asm-tests/tests/*.rs asm-tests/tests/*/main.rs; do
        test=$(basename "${test%/main.rs}" .rs)
        [[ " ${left_out[*]} " = *" $test "* ]] || echo "--test=$test"
    done
}

# What `timeout` says of a program that it has ended.
hung=124

# Runs a program of an architecture in a package's folder, for ten minutes: the longest takes two. The emulator's memory is
# among the program's: with 64 MiB for each of its threads, there was once nothing free in reach of a test's code. It keeps
# one for all.
emulate() { # arch, folder, program, arguments..
    local arch=$1 folder=$2 program=$3
    shift 3
    (cd "$folder" && MALLOC_ARENA_MAX=1 timeout --kill-after=10 600 "qemu-$(qemu "$arch")-static" -L "/usr/$arch-linux-gnu" "$OLDPWD/$program" "$@")
}

# Of each of these packages the tests inside the library.
packages=(-p patchpoint -p asm-tests)
packages_of_whole=(-p llvm-stackmaps -p patchpoint-asm -p patchpoint-isa -p patchpoint-link -p patchpoint-verify)

# Builds all programs of an architecture, and notes in a file the test programs among them: the folder in which one runs, and
# its path. All packages are named each time: by what is asked for cargo chooses the features, and other features would be
# other libraries, built once more.
build() { # arch
    local name programs=$cache/programs-$1 of=("${packages[@]}") used before
    say "$1: building"
    cpu && before=$used
    [ "$1" = "$whole" ] && of+=("${packages_of_whole[@]}")
    # shellcheck disable=SC2046
    cross "$1" test --no-run "${of[@]}" --lib $(running "$1") 2>&1 | tee "$cache/building"
    sed -n "s|^ *Executable .*(\(.*\))\$|\1|p" "$cache/building" | while read -r program; do
        name=$(basename "${program%-*}")
        # What asm-tests has of its own is about files, which every host reads alike.
        case $name in asm_tests) continue ;; esac
        if [ "$name" = patchpoint ]; then
            # By far the longest: half of it for each lane.
            printf '. %s %s\n' "$program" 0 "$program" 1
        elif [ -e "asm-tests/tests/$name.rs" ] || [ -d "asm-tests/tests/$name" ]; then
            echo "asm-tests $program"
        else
            echo ". $program"
        fi
    done >"$programs"
    [ "$(wc -l <"$programs")" -gt 2 ] || give_up "cargo does not say which test programs there are"
    cross "$1" build "${of[@]}" "${examples[@]/#/--example=}"
    cpu && say "$1: built with $(((used - before) / 100)) s of CPU"
}

# One by one: a child that a test forks waits for ever if a thread of another test was starting a thread at that moment, as
# the emulator's own lock stays taken in the child. A thread of the test before may still be ending then: a program that hangs,
# as one did in some hundred runs, is run once more, and one that hangs twice fails. Of what passes one line is printed, and
# what fails is kept, so that it is found.
run_tests() { # lane, arch, folder, program, arguments..
    local output=$cache/output-$2-$1 status used before
    shift
    say "$1: $3"
    cpu && before=$used
    for _ in first second; do
        status=0
        emulate "$@" --test-threads=1 >"$output" 2>&1 || status=$?
        [ $status = $hung ] || break
        printf 'hung: %s\n' "$(tail -n 1 "$output")"
    done
    cpu && printf '%d s of CPU\n' $(((used - before) / 100))
    [ $status = 0 ] && grep '^test result' "$output" && return
    say "$1: failed: $3" >>"$cache/failed"
    if grep -q '^failures:$' "$output"; then sed -n '/^failures:$/,$p' "$output"; else tail -n 30 "$output"; fi >>"$cache/failed"
    return 1
}

# The library's tests that are run on an architecture, by name: those that touch the host, or all. Of two parts this one.
touching() { # arch, program, part
    local independent=$host_independent_modules
    [ "$1" != "$whole" ] || independent='^$'
    emulate "$1" . "$2" --list | sed -n 's/: test$//p' |
        awk -v independent="$independent" -v runs="$runs_code" '$0 !~ independent || $0 ~ runs' |
        grep -vF "$(printf '%s\n' "${skipped[@]}")" | awk -v part="$3" 'NR % 2 == part'
}

# Every second program, and in the last lane the examples. Without cargo, which would wait for what is built meanwhile.
run_lane() { # arch, lane
    local arch=$1 lane=$2 skip=() which name folder program part number=0 failed=0
    for name in "${skipped[@]}"; do skip+=(--skip "$name"); done
    while read -r folder program part; do
        number=$((number + 1))
        [ $((number % 2)) = "$lane" ] || continue
        which=("${skip[@]}")
        if [ -n "$part" ]; then mapfile -t which < <(touching "$arch" "$program" "$part") && which+=(--exact); fi
        [ ${#which[@]} -gt 1 ] || give_up "$arch: $program does not say which tests there are"
        run_tests "$lane" "$arch" "$folder" "$program" "${which[@]}" || failed=1
    done <"$cache/programs-$arch"
    [ "$lane" = 0 ] || for name in "${examples[@]}"; do
        say "$arch: example $name"
        emulate "$arch" . "target/cross/$(target "$arch")/debug/examples/$name" || { say "$arch: failed: $name" >>"$cache/failed" && failed=1; }
    done
    return $failed
}

# Two lanes for two cores: each is one thread for most of the time.
run() { # arch
    local other failed=0
    : >"$cache/failed"
    run_lane "$1" 1 >"$cache/run-1.log" 2>&1 &
    other=$!
    (run_lane "$1" 0) || failed=1
    wait "$other" || failed=1
    cat "$cache/run-1.log"
    return $failed
}

# Runs each while the next is built.
run_all() { # arch..
    local arch running='' log=$cache/run.log
    finish() {
        [ -n "$running" ] || return 0
        wait "$running" && cat "$log" && return 0
        cat "$log" "$cache/failed"
        give_up "tests failed: $(sed -n 's/^== //p' "$cache/failed" | tr '\n' ' ')"
    }
    for arch in "$@"; do
        build "$arch"
        finish
        run "$arch" >"$log" 2>&1 &
        running=$!
    done
    finish
}

# The instructions of one patch of each kind: what 2,000 more of them take. The start of the program is in both counts.
count() { # arch
    local arch=$1 kind few many plugin=$PWD/target/cross/instructions.so
    local program=target/cross/$(target "$arch")/release/examples/seen_patches
    say "$arch: building"
    cross "$arch" build --release -p asm-tests --example seen_patches
    cc -shared -fPIC -O2 -Wall -Wextra -Werror -o "$plugin" asm-tests/instructions.c
    counted() { "qemu-$(qemu "$arch")" -L "/usr/$arch-linux-gnu" -plugin "$plugin" "$program" "$@" 2>&1 | tail -n 1; }
    for kind in place live fresh; do
        few=$(counted $kind 1000) && many=$(counted $kind 3000)
        [[ $few$many =~ ^[0-9]+$ ]] || give_up "$arch: instead of instructions the emulator says: $few$many"
        printf '%s: %s: %d instructions\n' "$arch" "$kind" $(((many - few) / 2000))
    done
}

[ "$(dpkg --print-architecture 2>/dev/null)" = amd64 ] || give_up "this is for Debian 12 on x86-64"
command -v cargo >/dev/null || give_up "there is no cargo"
install_packages "$@"
for arch in "$@"; do set_up "$arch"; done
if [ -z "$counting" ]; then run_all "$@"; else for arch in "$@"; do count "$arch"; done; fi
