//! Looks from outside whether a process has, or could get, a writable view of the code that it
//! executes.

use std::collections::HashSet;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::{fmt, io};

use patchpoint_remote::Executor;

/// Memory files of code are called that.
const CODE: &str = "memfd:patchpoint code";
/// What keeps whoever has a descriptor from a writable view, from changing the file, and from
/// taking that back.
const SEALS: i32 = libc::F_SEAL_FUTURE_WRITE | libc::F_SEAL_GROW | libc::F_SEAL_SHRINK | libc::F_SEAL_SEAL;

/// What a look has seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct ScanCounts {
    /// How often.
    pub(crate) looks: u64,
    /// Views of code that are executed.
    pub(crate) executed: u64,
    /// Descriptors of code, which are there for a moment when it is mapped.
    pub(crate) descriptors: u64,
    /// What must not be: writable views of a file of which another view is executed, views that are
    /// writable and executable, descriptors without seals.
    pub(crate) wrong: Vec<String>,
}

/// One view of a process.
struct View<'m> {
    line: &'m str,
    writable: bool,
    executable: bool,
    /// Device and inode of its file.
    file: (&'m str, &'m str),
}

impl<'m> View<'m> {
    fn of(line: &'m str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let protection = words.nth(1)?;
        let file = (words.nth(1)?, words.next()?);
        Some(Self {
            line,
            writable: protection.contains('w'),
            executable: protection.contains('x'),
            file,
        })
    }

    fn is_code(&self) -> bool {
        self.line.contains(CODE)
    }
}

impl fmt::Display for ScanCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:>14} looks at the executor from outside", self.looks)?;
        writeln!(f, "{:>14} views of code seen", self.executed)?;
        writeln!(f, "{:>14} descriptors of code seen", self.descriptors)?;
        write!(f, "{:>14} writable views, or ways to one", self.wrong.len())?;
        self.wrong
            .iter()
            .take(10)
            .try_for_each(|wrong| write!(f, "\n    {wrong}"))
    }
}

impl ScanCounts {
    /// Whether something was seen, and nothing that must not be.
    pub(crate) fn is_right(&self) -> bool {
        self.executed > 0 && self.wrong.is_empty()
    }

    /// Looks once more.
    ///
    /// # Errors
    /// The process is gone.
    pub(crate) fn look(&mut self, process: u32) -> io::Result<()> {
        let maps = std::fs::read_to_string(format!("/proc/{process}/maps"))?;
        self.look_at_maps(&maps);
        self.look_at_descriptors(process)?;
        self.looks += 1;
        Ok(())
    }

    fn look_at_maps(&mut self, maps: &str) {
        let views: Vec<View<'_>> = maps.lines().filter_map(View::of).collect();
        let code: HashSet<_> = views
            .iter()
            .filter(|view| view.executable && view.is_code())
            .map(|view| view.file)
            .collect();
        self.executed += views
            .iter()
            .filter(|view| view.executable && view.is_code())
            .count() as u64;
        let is_wrong = |view: &&View<'_>| view.writable && (view.executable || code.contains(&view.file));
        self.wrong
            .extend(views.iter().filter(is_wrong).map(|view| view.line.to_owned()));
    }

    fn look_at_descriptors(&mut self, process: u32) -> io::Result<()> {
        for entry in std::fs::read_dir(format!("/proc/{process}/fd"))? {
            // What was closed meanwhile is no descriptor any more.
            let Ok(entry) = entry else { continue };
            let Ok(target) = std::fs::read_link(entry.path()) else {
                continue;
            };
            if !target.to_string_lossy().contains(CODE) {
                continue;
            }
            let Ok(file) = File::open(entry.path()) else {
                continue;
            };
            // SAFETY: asks for a number.
            let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
            self.descriptors += 1;
            if seals & SEALS != SEALS {
                self.wrong
                    .push(format!("a descriptor of code has the seals {seals:#x}"));
            }
        }
        Ok(())
    }
}

/// An executor that a thread looks at without pause.
pub(crate) struct Watched {
    done: Arc<AtomicBool>,
    looks: JoinHandle<ScanCounts>,
}

impl Watched {
    /// Begins.
    pub(crate) fn start(executor: &Executor) -> Self {
        let (done, process) = (
            Arc::<AtomicBool>::default(),
            executor.id().expect("it was started here"),
        );
        let is_done = Arc::clone(&done);
        let looks = std::thread::spawn(move || {
            let mut seen = ScanCounts::default();
            // Until it is over, or the process is gone.
            while !is_done.load(Ordering::Acquire) && seen.look(process).is_ok() {}
            seen
        });
        Self { done, looks }
    }

    /// Ends; what has been seen.
    pub(crate) fn end(self) -> ScanCounts {
        self.done.store(true, Ordering::Release);
        self.looks.join().expect("the thread does not panic")
    }
}

/// The look finds what it is there to find.
#[cfg(test)]
mod tests {
    use super::ScanCounts;

    fn wrong(maps: &str) -> usize {
        let mut seen = ScanCounts::default();
        seen.look_at_maps(maps);
        seen.wrong.len()
    }

    #[test]
    fn a_writable_view_is_found() {
        let code = "7f0000000000-7f0000200000 r-xs 00000000 00:01 12 /memfd:patchpoint code (deleted)\n";
        let data = "7f0000200000-7f0000400000 rw-s 00000000 00:01 13 /memfd:patchpoint code (deleted)\n";
        let again = "7e0000200000-7e0000400000 rw-s 00000000 00:01 12 /memfd:patchpoint code (deleted)\n";
        let both = "7e0000200000-7e0000400000 rwxp 00000000 00:00 0 \n";
        assert_eq!(wrong(&format!("{code}{data}")), 0);
        assert_eq!(wrong(&format!("{code}{data}{again}")), 1);
        assert_eq!(wrong(both), 1);
    }

    /// A memory file of that name without seals, of this process.
    #[test]
    fn a_descriptor_without_seals_is_found() {
        // SAFETY: a C string; the descriptor is checked, and owned by the file.
        let file = unsafe {
            let fd = libc::memfd_create(
                c"patchpoint code".as_ptr(),
                libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING,
            );
            assert!(fd >= 0);
            <std::fs::File as std::os::fd::FromRawFd>::from_raw_fd(fd)
        };
        let mut seen = ScanCounts::default();
        seen.look(std::process::id()).unwrap();
        assert!(!seen.wrong.is_empty() && seen.descriptors > 0, "{seen:?}");
        drop(file);
    }
}
