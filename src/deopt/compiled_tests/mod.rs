//! Handlers under code that LLVM compiled, on every architecture.

#![allow(unsafe_code)]

mod describing;
mod replacing;

/// The object of this machine's architecture in a folder of `testdata`.
macro_rules! object {
    ($folder:literal) => {{
        #[cfg(target_arch = "x86_64")]
        const OBJECT: &[u8] = include_bytes!(concat!("../testdata/", $folder, "/x86_64.o"));
        #[cfg(target_arch = "aarch64")]
        const OBJECT: &[u8] = include_bytes!(concat!("../testdata/", $folder, "/aarch64.o"));
        #[cfg(all(target_arch = "powerpc64", target_endian = "little"))]
        const OBJECT: &[u8] = include_bytes!(concat!("../testdata/", $folder, "/powerpc64le.o"));
        #[cfg(all(target_arch = "powerpc64", target_endian = "big"))]
        const OBJECT: &[u8] = include_bytes!(concat!("../testdata/", $folder, "/powerpc64.o"));
        #[cfg(target_arch = "s390x")]
        const OBJECT: &[u8] = include_bytes!(concat!("../testdata/", $folder, "/s390x.o"));
        #[cfg(target_arch = "riscv64")]
        const OBJECT: &[u8] = include_bytes!(concat!("../testdata/", $folder, "/riscv64.o"));
        OBJECT
    }};
}
use object;
