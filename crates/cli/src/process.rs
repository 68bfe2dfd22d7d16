//! A process that runs: which files it executes, where they are, and what its memory holds.
//! Everything is read, through `/proc`; nothing is stopped or written.

use std::fs::{self, File};
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::rc::Rc;

use object::{Object, ObjectSegment};

use crate::problem::Problem;

/// A process, with its mappings as they were when it was looked at.
pub(crate) struct Process {
    pid: u32,
    /// Of files.
    mappings: Vec<Mapping>,
    /// Where code is, whatever is mapped there.
    executable: Vec<Range<u64>>,
    memory: Rc<File>,
}

/// A line of `/proc/PID/maps` that is about a file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mapping {
    start: u64,
    end: u64,
    /// In the file.
    offset: u64,
    inode: u64,
    path: String,
}

/// A file that a process has mapped.
pub(crate) struct Mapped {
    pid: u32,
    /// Its mappings, by address.
    mappings: Vec<Mapping>,
    memory: Rc<File>,
}

impl Process {
    pub(crate) fn open(pid: u32) -> Result<Self, Problem> {
        let maps = format!("/proc/{pid}/maps");
        let text = fs::read_to_string(&maps).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Problem::NoProcess,
            _ => Problem::Process(maps, error),
        })?;
        let memory = format!("/proc/{pid}/mem");
        let memory = File::open(&memory).map_err(|error| Problem::Process(memory, error))?;
        Ok(Self {
            pid,
            mappings: text.lines().filter_map(mapping).collect(),
            executable: text.lines().filter_map(executable).collect(),
            memory: Rc::new(memory),
        })
    }

    /// The files of which it executes something, by address. One that is loaded twice is there
    /// twice.
    pub(crate) fn files(&self) -> Vec<Mapped> {
        let mut files: Vec<Mapped> = Vec::new();
        for mapping in &self.mappings {
            let goes_on = files
                .iter_mut()
                .rev()
                .find(|file| file.inode() == mapping.inode && file.path() == mapping.path)
                .filter(|file| {
                    file.mappings
                        .last()
                        .is_some_and(|last| last.offset <= mapping.offset)
                });
            match goes_on {
                Some(file) => file.mappings.push(mapping.clone()),
                None => files.push(Mapped {
                    pid: self.pid,
                    mappings: vec![mapping.clone()],
                    memory: Rc::clone(&self.memory),
                }),
            }
        }
        // What patches its own code may have put other memory where the file's was.
        // protection: code-that-was-remapped-is-the-file-s
        let has_code = |file: &Mapped| {
            let span = file.span();
            let mut ranges = self.executable.iter();
            ranges.any(|range| span.start <= range.start && range.start < span.end)
        };
        files.retain(has_code);
        files
    }
}

impl Mapped {
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    fn first(&self) -> &Mapping {
        self.mappings.first().expect("a mapped file has a mapping")
    }

    /// From its first mapping to the end of its last.
    fn span(&self) -> Range<u64> {
        let first = self.first();
        first.start..self.mappings.last().map_or(first.end, |last| last.end)
    }

    /// As the process called it.
    pub(crate) fn path(&self) -> &str {
        &self.first().path
    }

    fn inode(&self) -> u64 {
        self.first().inode
    }

    /// The bytes of the very file that is mapped, which may have been replaced since.
    pub(crate) fn data(&self) -> Result<Vec<u8>, Problem> {
        let Mapping { start, end, path, .. } = self.first();
        // Not everybody may follow these links.
        if let Ok(data) = fs::read(format!("/proc/{}/map_files/{start:x}-{end:x}", self.pid)) {
            return Ok(data);
        }
        read_inode(&format!("/proc/{}/root{path}", self.pid), self.inode())
    }

    /// How far from the addresses that the file says it is.
    pub(crate) fn bias(&self, file: &object::File<'_>) -> Result<u64, Problem> {
        let first = self.first();
        let segment = file.segments().find(|segment| segment.file_range().1 > 0);
        let segment = segment.ok_or(Problem::NotMappedWhole)?;
        let into = segment.file_range().0.checked_sub(first.offset);
        let into = into.filter(|into| *into < first.end - first.start);
        let at = first.start + into.ok_or(Problem::NotMappedWhole)?;
        Ok(at.wrapping_sub(segment.address()))
    }

    /// What its memory holds.
    pub(crate) fn read(&self, addr: u64, len: usize) -> Result<Vec<u8>, Problem> {
        let mut bytes = vec![0; len];
        let read = self.memory.read_exact_at(&mut bytes, addr);
        read.map_err(|error| Problem::Process(format!("/proc/{}/mem at {addr:#x}", self.pid), error))?;
        Ok(bytes)
    }
}

/// The bytes of the file with this name, if it is this file.
fn read_inode(path: &str, inode: u64) -> Result<Vec<u8>, Problem> {
    let mut file = File::open(path).map_err(Problem::Read)?;
    let found = file.metadata().map_err(Problem::Read)?.ino();
    // protection: a-replaced-file-is-not-the-mapped-one
    if found != inode {
        return Err(Problem::Replaced);
    }
    let mut data = Vec::new();
    file.read_to_end(&mut data).map_err(Problem::Read)?;
    Ok(data)
}

/// A line of `/proc/PID/maps` (proc(5)), if it is about a file.
fn mapping(line: &str) -> Option<Mapping> {
    let mut rest = line;
    let mut word = || {
        let (word, after) = rest.split_once(' ')?;
        rest = after.trim_start();
        Some(word)
    };
    let (addresses, _mode, offset, _device, inode) = (word()?, word()?, word()?, word()?, word()?);
    let Range { start, end } = range(addresses)?;
    let inode = inode.parse().ok().filter(|inode| *inode != 0)?;
    // Memory that is only named like a file holds what a JIT compiled, and no stack map.
    let is_memory = ["/memfd:", "/dev/", "/SYSV"]
        .iter()
        .any(|start| rest.starts_with(start));
    let path = Some(rest).filter(|path| path.starts_with('/') && !is_memory)?;
    Some(Mapping {
        start,
        end,
        offset: u64::from_str_radix(offset, 16).ok()?,
        inode,
        path: path.to_owned(),
    })
}

/// The addresses of a line, if they are executable.
fn executable(line: &str) -> Option<Range<u64>> {
    let mut words = line.split_ascii_whitespace();
    let (addresses, mode) = (words.next()?, words.next()?);
    mode.contains('x').then(|| range(addresses))?
}

fn range(text: &str) -> Option<Range<u64>> {
    let (start, end) = text.split_once('-')?;
    let hex = |text| u64::from_str_radix(text, 16).ok();
    Some(hex(start)?..hex(end)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_file_of_the_same_name_is_refused() {
        let path = std::env::current_exe().unwrap();
        let inode = fs::metadata(&path).unwrap().ino();
        let path = path.to_str().unwrap();
        assert!(read_inode(path, inode).is_ok());
        assert!(matches!(read_inode(path, inode + 1), Err(Problem::Replaced)));
    }

    #[test]
    fn a_line_of_a_file_is_read_and_others_are_passed_over() {
        let line =
            "7f5e20a00000-7f5e20a28000 r-xp 00001000 08:01 2359312     /opt/my programs/libget.so (deleted)";
        assert_eq!(
            mapping(line),
            Some(Mapping {
                start: 0x7f5e_20a0_0000,
                end: 0x7f5e_20a2_8000,
                offset: 0x1000,
                inode: 2_359_312,
                path: "/opt/my programs/libget.so (deleted)".to_owned(),
            })
        );
        assert_eq!(executable(line), Some(0x7f5e_20a0_0000..0x7f5e_20a2_8000));
        assert_eq!(executable(&line.replace("r-xp", "r--p")), None);
        for other in [
            "7ffd3a1c2000-7ffd3a1e3000 rw-p 00000000 00:00 0                          [stack]",
            "55f1c7a00000-55f1c7a21000 rw-p 00000000 00:00 0 ",
            "7f00-7f01 rw-s 00000000 00:01 1024 anon_inode:[perf_event]",
            "7f00-7f01 r-xs 00000000 00:01 1025 /memfd:patchpoint code (deleted)",
            "7f00-7f01 rw-s 00000000 00:01 7 /dev/zero (deleted)",
            "",
        ] {
            assert_eq!(mapping(other), None, "{other}");
        }
    }
}
