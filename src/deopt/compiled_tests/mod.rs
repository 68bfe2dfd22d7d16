//! Handlers under code that LLVM compiled, on every architecture.

#![allow(unsafe_code)]

mod c_handlers;
mod describing;
mod frame_records;
mod leavable;
#[cfg(target_os = "linux")]
mod panicking;
mod replacing;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]
mod roots;
mod walking;

/// The object of this machine's architecture in a folder of `testdata`, and a variant of it.
macro_rules! object {
    ($folder:literal) => {
        object!($folder, "")
    };
    ($folder:literal, $variant:literal) => {{
        #[cfg(target_arch = "x86_64")]
        const OBJECT: &[u8] = include_bytes!(concat!("../testdata/", $folder, "/x86_64", $variant, ".o"));
        #[cfg(target_arch = "aarch64")]
        const OBJECT: &[u8] = include_bytes!(concat!("../testdata/", $folder, "/aarch64", $variant, ".o"));
        #[cfg(all(target_arch = "powerpc64", target_endian = "little"))]
        const OBJECT: &[u8] =
            include_bytes!(concat!("../testdata/", $folder, "/powerpc64le", $variant, ".o"));
        #[cfg(all(target_arch = "powerpc64", target_endian = "big"))]
        const OBJECT: &[u8] = match crate::arch::HOST_HAS_DESCRIPTORS {
            true => include_bytes!(concat!("../testdata/", $folder, "/powerpc64", $variant, ".o")),
            false => include_bytes!(concat!(
                "../testdata/",
                $folder,
                "/powerpc64-elfv2",
                $variant,
                ".o"
            )),
        };
        #[cfg(target_arch = "s390x")]
        const OBJECT: &[u8] = include_bytes!(concat!("../testdata/", $folder, "/s390x", $variant, ".o"));
        #[cfg(target_arch = "riscv64")]
        const OBJECT: &[u8] = include_bytes!(concat!("../testdata/", $folder, "/riscv64", $variant, ".o"));
        OBJECT
    }};
}
use object;
