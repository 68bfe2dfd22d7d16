//! The system calls behind the strategies, one file per system.
//!
//! Every function is one call, or one call with its fallback. Failures are the bare [`Errno`]: the
//! caller knows the place and the way to mend it.

#![allow(unsafe_code)]

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub use linux::MemoryFile;
#[cfg(target_os = "linux")]
pub(super) use linux::*;

#[cfg(not(target_os = "linux"))]
mod other;
#[cfg(not(target_os = "linux"))]
pub use other::MemoryFile;
#[cfg(not(target_os = "linux"))]
pub(super) use other::*;

use crate::addr::CodeRange;
use crate::error::Errno;

/// The size of a page in bytes.
pub(crate) fn page_size() -> u64 {
    region::page::size() as u64
}

/// The error number in an error of `region`.
pub(super) fn errno_of(error: &region::Error) -> Errno {
    Errno(error.raw_os_error().unwrap_or(libc::EINVAL))
}

/// Sets the protection of pages through `region`.
///
/// # Safety
///
/// Nothing may rely on the protection that the pages have now: no thread executes there when
/// execution is taken away, no reference to them is used for writing when writing is.
pub(super) unsafe fn protect(start: u64, len: u64, protection: region::Protection) -> Result<(), Errno> {
    let pages = std::ptr::with_exposed_provenance::<u8>(start as usize);
    // SAFETY: the caller's promise is the one that region asks for.
    unsafe { region::protect(pages, len as usize, protection) }.map_err(|e| errno_of(&e))
}

/// Flags of pages beside read, write and execute: on AArch64 Linux `PROT_BTI`, on others none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct ExtraFlags(i32);

impl ExtraFlags {
    /// As bits of a protection.
    #[cfg(target_os = "linux")]
    pub(super) const fn bits(self) -> i32 {
        self.0
    }

    /// What [`bits`](Self::bits) were.
    #[cfg(target_os = "linux")]
    pub(super) const fn of_bits(bits: i32) -> Self {
        Self(bits)
    }
}

/// The flag of pages whose branches are guarded, where there is such.
pub(super) const fn guarded_branches() -> Option<ExtraFlags> {
    #[cfg(all(target_os = "linux", target_arch = "aarch64"))]
    return Some(ExtraFlags(libc::PROT_BTI));
    #[cfg(not(all(target_os = "linux", target_arch = "aarch64")))]
    None
}

/// The extra flags of pages; `None` when the pages differ.
#[cfg(not(all(target_os = "linux", target_arch = "aarch64")))]
pub(super) fn extra_flags(_pages: CodeRange) -> Option<ExtraFlags> {
    Some(ExtraFlags::default())
}

/// The extra flags of pages; `None` when the pages differ.
#[cfg(all(target_os = "linux", target_arch = "aarch64"))]
pub(super) fn extra_flags(pages: CodeRange) -> Option<ExtraFlags> {
    let smaps = std::fs::read_to_string("/proc/self/smaps").ok()?;
    uniform_bti(&smaps, pages).map(|bti| ExtraFlags(if bti { libc::PROT_BTI } else { 0 }))
}

/// Whether all mappings that overlap `pages` are guarded by BTI (`bt` in `VmFlags`, see
/// proc_pid_smaps(5)), or none; `None` when they differ, or there is none.
#[cfg(any(test, all(target_os = "linux", target_arch = "aarch64")))]
fn uniform_bti(smaps: &str, pages: CodeRange) -> Option<bool> {
    use crate::addr::CodeAddr;
    let mut current = None;
    let mut seen = None;
    for line in smaps.lines() {
        if let Some(flags) = line.strip_prefix("VmFlags:") {
            if current.is_some_and(|range: CodeRange| range.overlaps(pages)) {
                let bti = flags.split_whitespace().any(|flag| flag == "bt");
                // protection: toggle-keeps-the-flags-of-pages
                if seen.is_some_and(|before| before != bti) {
                    return None;
                }
                seen = Some(bti);
            }
        } else if let Some((start, end)) = line.split_whitespace().next().and_then(|w| w.split_once('-')) {
            let bounds = u64::from_str_radix(start, 16)
                .ok()
                .zip(u64::from_str_radix(end, 16).ok());
            current =
                bounds.and_then(|(start, end)| CodeRange::new(CodeAddr::new(start), end.checked_sub(start)?));
        }
    }
    seen
}

/// Sets the protection of pages that have the extra flags, and keeps these.
///
/// # Safety
///
/// As for [`protect`].
pub(super) unsafe fn protect_keeping(
    pages: CodeRange,
    protection: region::Protection,
    extra: ExtraFlags,
) -> Result<(), Errno> {
    if extra == ExtraFlags::default() {
        // SAFETY: the caller's promise.
        return unsafe { protect(pages.start().get(), pages.len(), protection) };
    }
    // region knows no other flags than the three.
    let mut native = extra.0;
    for (flag, bit) in [
        (region::Protection::READ, libc::PROT_READ),
        (region::Protection::WRITE, libc::PROT_WRITE),
        (region::Protection::EXECUTE, libc::PROT_EXEC),
    ] {
        if protection.contains(flag) {
            native |= bit;
        }
    }
    let start = std::ptr::with_exposed_provenance_mut(pages.start().get() as usize);
    // SAFETY: the caller's promise.
    if unsafe { libc::mprotect(start, pages.len() as usize, native) } == 0 {
        return Ok(());
    }
    Err(Errno(
        std::io::Error::last_os_error()
            .raw_os_error()
            .unwrap_or(libc::EINVAL),
    ))
}

#[cfg(test)]
mod tests {
    use super::uniform_bti;
    use crate::addr::{CodeAddr, CodeRange};

    const SMAPS: &str = "\
1000-3000 r-xp 00000000 00:00 0
Size:                  8 kB
VmFlags: rd ex mr mw me bt sd
3000-4000 r-xp 00000000 00:00 0
VmFlags: rd ex mr mw me sd
4000-6000 r-xp 00000000 00:00 0 [name with VmFlags: bt]
VmFlags: rd ex mr mw me sd
";

    #[test]
    fn guarded_pages_are_told_from_others() {
        let pages = |start, len| CodeRange::new(CodeAddr::new(start), len).unwrap();
        assert_eq!(uniform_bti(SMAPS, pages(0x1000, 0x2000)), Some(true));
        assert_eq!(uniform_bti(SMAPS, pages(0x3000, 0x3000)), Some(false));
        assert_eq!(uniform_bti(SMAPS, pages(0x2000, 0x2000)), None);
        assert_eq!(uniform_bti(SMAPS, pages(0x8000, 0x1000)), None);
    }
}
