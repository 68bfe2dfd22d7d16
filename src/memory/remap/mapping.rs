//! What the system says of a process's mappings, and which of them may be mapped anew
//! (proc_pid_smaps(5)).

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::string::{String, ToString};
use std::vec::Vec;

use crate::addr::{CodeAddr, CodeRange};
use crate::memory::sys::{self, ExtraFlags};

/// A mapping of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mapping {
    pub(super) range: CodeRange,
    /// Such as `r-xp`.
    permissions: String,
    /// Of its file, or 0.
    pub(super) inode: u64,
    /// The length of its pages in KiB.
    page: u64,
    /// Its protection key.
    key: u64,
    /// Two letters each; none where the system tells none.
    flags: Vec<String>,
}

/// Why a mapping is refused, and what to do about it.
pub(super) type Refusal = (&'static str, &'static str);

/// The mappings that overlap a range, in ascending address.
pub(super) fn overlapping(range: CodeRange) -> io::Result<Vec<Mapping>> {
    parse(BufReader::new(File::open("/proc/self/smaps")?), range)
}

/// The same, as far as the text goes: what is behind the range is not read.
fn parse(text: impl BufRead, range: CodeRange) -> io::Result<Vec<Mapping>> {
    let mut found: Vec<Mapping> = Vec::new();
    for line in text.lines() {
        let line = line?;
        if let Some(mapping) = header(&line) {
            if mapping.range.start() >= range.end() {
                break;
            }
            // Those before the range are of no interest.
            found.retain(|before| before.range.overlaps(range));
            found.push(mapping);
        } else if let (Some(mapping), Some((key, value))) = (found.last_mut(), line.split_once(':')) {
            let number = || value.split_whitespace().next().and_then(|word| word.parse().ok());
            match key {
                "KernelPageSize" => mapping.page = number().unwrap_or(u64::MAX),
                "ProtectionKey" => mapping.key = number().unwrap_or(u64::MAX),
                "VmFlags" => mapping.flags = value.split_whitespace().map(ToString::to_string).collect(),
                _ => {}
            }
        }
    }
    found.retain(|last| last.range.overlaps(range));
    Ok(found)
}

/// The first line of a mapping: addresses, permissions, offset, device, inode.
fn header(line: &str) -> Option<Mapping> {
    let mut words = line.split_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let [start, end] = [start, end].map(|number| u64::from_str_radix(number, 16).ok());
    let range = CodeRange::new(CodeAddr::new(start?), end?.checked_sub(start?)?)?;
    let permissions = words.next()?.to_string();
    let inode = words.nth(2)?.parse().ok()?;
    Some(Mapping {
        range,
        permissions,
        inode,
        page: 0,
        key: 0,
        flags: Vec::new(),
    })
}

impl Mapping {
    /// Whether it is a shared one of a file that has that inode.
    pub(super) fn is_of(&self, inode: u64) -> bool {
        self.inode == inode && self.permissions == "r-xs"
    }

    /// Whether it may be mapped anew, and with which flags beside read and execute.
    pub(super) fn judge(&self) -> Result<ExtraFlags, Refusal> {
        const USE_ANOTHER: &str = "use ProcMem or Toggle";
        // protection: remap-takes-only-private-code
        match self.permissions.as_bytes() {
            [b'r', b'-', b'x', b'p'] => {}
            [_, _, _, b's'] => {
                let why = "it is a shared mapping: what others write to its file would no longer be seen";
                return Err((why, "map the code privately, or use Toggle"));
            }
            _ => {
                let mend = "map the code read-execute before it is registered, or register less of it";
                return Err(("a part of it is not mapped read-execute", mend));
            }
        }
        // protection: remap-keeps-huge-pages
        if self.page.saturating_mul(1024) > sys::page_size() {
            let why = "it lies in huge pages (hugetlbfs), of which no part can be mapped anew";
            return Err((why, "place the code in usual pages, or use ProcMem"));
        }
        // protection: remap-keeps-protection-keys
        if self.key != 0 {
            let why = "it is guarded by a protection key (pkey_mprotect), which would be lost";
            return Err((why, "place the code without a key, or use ProcMem"));
        }
        let mut extra = ExtraFlags::default();
        for flag in &self.flags {
            match flag.as_str() {
                // Read, execute, may be either; accounting, advice, and what is set while it is so.
                "rd" | "ex" | "mr" | "mw" | "me" | "dw" | "ac" | "nr" | "sd" | "rr" | "sr" | "hg" | "nh"
                | "mg" => {}
                "bt" => {
                    let why = "its branches are guarded by a flag that this system does not know";
                    extra = sys::guarded_branches().ok_or((why, USE_ANOTHER))?;
                }
                // protection: remap-keeps-locked-pages
                "lo" => {
                    let why = "its pages are locked in memory (mlock), and the copies would not be";
                    return Err((why, "unlock them first (munlock), or use ProcMem or Toggle"));
                }
                // protection: remap-keeps-registered-pages
                "um" | "uw" | "ui" => {
                    let why = "it is registered with userfaultfd, which would no longer be told of it";
                    return Err((why, "unregister it there first, or use ProcMem or Toggle"));
                }
                "sl" => {
                    let why = "it is sealed (mseal): nothing can be mapped over it";
                    return Err((why, "register the code before it is sealed, or use ProcMem"));
                }
                // protection: remap-keeps-what-children-do-not-have
                "dc" | "wf" => {
                    let why = "its owner keeps it from the children of a fork (MADV_DONTFORK), who would get a copy";
                    return Err((why, USE_ANOTHER));
                }
                "io" | "pf" | "mm" | "de" => {
                    let why = "it is memory of the kernel's or of a device";
                    return Err((why, "register no such code"));
                }
                // protection: remap-takes-nothing-unknown
                _ => {
                    let why =
                        "its mapping has a property that would be lost (see VmFlags in /proc/self/smaps)";
                    return Err((why, USE_ANOTHER));
                }
            }
        }
        match self.flags.is_empty() {
            false => Ok(extra),
            true => Err((
                "the system does not tell the flags of its mapping (/proc/self/smaps has no VmFlags)",
                USE_ANOTHER,
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
1000-3000 r-xp 00001000 fe:00 247264 /usr/bin/some program
Size:                  8 kB
KernelPageSize:        4 kB
VmFlags: rd ex mr mw me
3000-4000 r-xs 00000000 00:01 77 /memfd:VmFlags: lo (deleted)
KernelPageSize:        4 kB
ProtectionKey:         0
VmFlags: rd ex sh mr me
5000-6000 r-xp 00000000 00:00 0
KernelPageSize:     2048 kB
VmFlags: rd ex mr mw me
6000-7000 r-xp 00000000 00:00 0
this line and what is behind the range is not looked at
";

    fn range(start: u64, end: u64) -> CodeRange {
        CodeRange::new(CodeAddr::new(start), end - start).unwrap()
    }

    #[test]
    fn mappings_are_those_of_the_range_alone() {
        let found = |start, end| {
            let all = parse(SMAPS.as_bytes(), range(start, end)).unwrap();
            all.iter().map(|mapping| mapping.range).collect::<Vec<_>>()
        };
        assert_eq!(found(0x1000, 0x3000), [range(0x1000, 0x3000)]);
        assert_eq!(
            found(0x2000, 0x5000),
            [range(0x1000, 0x3000), range(0x3000, 0x4000)]
        );
        assert_eq!(found(0x2fff, 0x5001).len(), 3);
        assert_eq!(found(0x4000, 0x5000), []);
        assert_eq!(found(0x7000, 0x8000), []);
        let shared = &parse(SMAPS.as_bytes(), range(0x3000, 0x4000)).unwrap()[0];
        assert!(shared.is_of(77) && !shared.is_of(78));
        assert_eq!(shared.flags.join(" "), "rd ex sh mr me");
    }

    fn code(flags: &str) -> Mapping {
        Mapping {
            range: range(0x1000, 0x2000),
            permissions: "r-xp".to_string(),
            inode: 0,
            page: 4,
            key: 0,
            flags: flags.split_whitespace().map(ToString::to_string).collect(),
        }
    }

    /// Those that cannot be made in every system that runs the tests.
    #[test]
    fn what_would_be_lost_is_refused_with_the_reason() {
        assert!(code("rd ex mr mw me ac sd hg").judge().is_ok());
        let why = |mapping: Mapping| mapping.judge().unwrap_err().0;
        assert!(why(code("")).contains("does not tell"));
        for (flag, text) in [
            ("lo", "mlock"),
            ("um", "userfaultfd"),
            ("uw", "userfaultfd"),
            ("ui", "userfaultfd"),
            ("sl", "mseal"),
            ("dc", "MADV_DONTFORK"),
            ("wf", "MADV_DONTFORK"),
            ("io", "device"),
            ("pf", "device"),
            ("de", "kernel"),
            ("dd", "property"),
            ("zz", "property"),
        ] {
            let found = why(code(&std::format!("rd ex mr mw me {flag}")));
            assert!(found.contains(text), "{flag}: {found}");
        }
        assert!(
            why(Mapping {
                page: 2048,
                ..code("rd ex")
            })
            .contains("huge")
        );
        assert!(
            why(Mapping {
                key: 1,
                ..code("rd ex")
            })
            .contains("protection key")
        );
        for (permissions, text) in [
            ("r-xs", "shared"),
            ("rwxp", "read-execute"),
            ("rw-p", "read-execute"),
            ("r--p", "read-execute"),
            ("--xp", "read-execute"),
        ] {
            let permissions = permissions.to_string();
            assert!(
                why(Mapping {
                    permissions,
                    ..code("rd ex")
                })
                .contains(text)
            );
        }
    }
}
