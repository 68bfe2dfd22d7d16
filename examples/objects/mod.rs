//! The objects of the examples, as they were compiled for this machine; `make.sh` makes them and
//! says what is in them.
#![allow(dead_code, unreachable_pub, missing_docs)] // Each example and test uses some.

/// This machine's of the objects of that name.
macro_rules! of_this_machine {
    ($x86_64:literal, $name:literal) => {
        if cfg!(target_arch = "x86_64") {
            include_bytes!($x86_64)
        } else if cfg!(target_arch = "aarch64") {
            include_bytes!(concat!($name, ".aarch64.o"))
        } else if cfg!(all(target_arch = "powerpc64", target_endian = "little")) {
            include_bytes!(concat!($name, ".powerpc64le.o"))
        } else if cfg!(all(
            target_arch = "powerpc64",
            any(
                target_abi = "elfv2",
                target_env = "musl",
                target_os = "freebsd",
                target_os = "openbsd"
            )
        )) {
            include_bytes!(concat!($name, ".powerpc64-elfv2.o"))
        } else if cfg!(target_arch = "powerpc64") {
            include_bytes!(concat!($name, ".powerpc64.o"))
        } else if cfg!(target_arch = "s390x") {
            include_bytes!(concat!($name, ".s390x.o"))
        } else {
            include_bytes!(concat!($name, ".riscv64.o"))
        }
    };
}

/// `get` and `sum_fields`: sites 78 of 32 bytes, shadow 90 of 24 bytes.
pub const INLINE_CACHE: &[u8] = of_this_machine!("inline_cache.o", "inline_cache");

/// `any_k` and `call_k` for k below 8: sites 100 + k and 200 + k.
pub const LIVE_STRESS: &[u8] = of_this_machine!("live_stress.o", "live_stress");

/// `told_k` and `unaligned_k` for k below 8, without a stack map: see `told.s`.
#[cfg(target_arch = "x86_64")]
pub const TOLD: &[u8] = include_bytes!("told.o");

/// What the site of `any_k` reserves in bytes.
pub const fn any_reserved(k: u32) -> u32 {
    if cfg!(target_arch = "x86_64") {
        9 + 4 * k
    } else {
        24 + 4 * k
    }
}

/// What the site of `call_k` reserves in bytes.
pub const fn call_reserved(k: u32) -> u32 {
    if cfg!(target_arch = "x86_64") {
        13 + 3 * k
    } else {
        44 + 4 * k
    }
}

/// Whether LLVM has left a call of `callee` in `call_k`, and not nops, with which it returns its
/// argument.
pub const HAS_CALLEE: bool = !cfg!(any(target_arch = "aarch64", target_arch = "riscv64"));
