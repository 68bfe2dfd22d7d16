//! What a process has mapped.

use patchpoint::addr::{CodeAddr, CodeRange};

use super::Shared;
use crate::error::Result;
use crate::system::errno;

/// One mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mapping {
    pub(super) range: CodeRange,
    pub(super) executable: bool,
    pub(super) writable: bool,
    pub(super) shared: bool,
}

impl Mapping {
    /// Of a line of `/proc/PID/maps`: proc_pid_maps(5).
    fn of(line: &str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let [start, end] = [start, end].map(|number| u64::from_str_radix(number, 16).ok());
        let (start, flags) = (start?, words.next()?);
        Some(Self {
            range: CodeRange::new(CodeAddr::new(start), end?.checked_sub(start)?)?,
            executable: flags.contains('x'),
            writable: flags.contains('w'),
            shared: flags.contains('s'),
        })
    }
}

impl Shared {
    /// All mappings, by ascending addresses.
    pub(super) fn maps(&self) -> Result<Vec<Mapping>> {
        let text = std::fs::read_to_string(format!("/proc/{}/maps", self.id));
        let text = text.map_err(|error| self.refused("its mappings were read", errno(&error)))?;
        Ok(text.lines().filter_map(Mapping::of).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_the_kernel_writes_them() {
        let line = "7f12d0a00000-7f12d0a02000 r-xp 00001000 08:02 173521   /usr/lib/ld.so (deleted)";
        let mapping = Mapping::of(line).unwrap();
        assert_eq!(
            mapping.range,
            CodeRange::new(CodeAddr::new(0x7f12_d0a0_0000), 0x2000).unwrap()
        );
        assert!(mapping.executable && !mapping.writable && !mapping.shared);
        let data = Mapping::of("1000-2000 rw-s 00000000 00:01 5").unwrap();
        assert!(!data.executable && data.writable && data.shared);
        for none in ["", "1000", "1000-xyz r--p", "2000-1000 r--p 0 0:0 0"] {
            assert_eq!(Mapping::of(none), None, "{none}");
        }
    }
}
