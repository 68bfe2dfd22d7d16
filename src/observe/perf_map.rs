//! The map of names for profilers: `/tmp/perf-PID.map`, a line for each piece of code with its
//! start and size in hexadecimal and its name (Linux, tools/perf/Documentation/jit-interface.txt).

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::file;
use super::names::{self, Named};
use crate::engine::{Event, Observer};

/// Writes the names of functions, stubs and exit stubs where profilers look for them. Clones write
/// to the same file.
///
/// `perf` reads it for anonymous memory only (`is_anon_memory` in tools/perf/util/map.c): code that
/// the engine has loaded, that was [remapped](crate::memory::Remap), and stubs, lie in a memory
/// file, for which `perf` needs a [`JitDump`](super::JitDump). Other profilers do not ask.
///
/// A name is never taken out: where an address was used again, `perf` shows one of its names. What
/// a forked child makes is written into the map of its parent.
#[derive(Clone)]
pub struct PerfMap(Arc<Inner>);

struct Inner {
    path: PathBuf,
    file: Mutex<File>,
    lost: AtomicU64,
}

impl PerfMap {
    /// The map of this process. What is there already, of another engine or a process that is gone,
    /// is kept.
    ///
    /// # Errors
    /// The file cannot be made; or what is there is not a plain file of this user's alone: a link, say, or a file that another
    /// user has made, who could guess the name.
    pub fn create() -> io::Result<Self> {
        Self::at(format!("/tmp/perf-{}.map", std::process::id()))
    }

    /// A map in another folder.
    ///
    /// # Errors
    /// The file cannot be made; or what is there is not a plain file of this user's alone: a link, say, or a file that another
    /// user has made, who could guess the name.
    pub fn at(path: impl Into<PathBuf>) -> io::Result<Self> {
        let path = path.into();
        let file = file::open(&path, OpenOptions::new().append(true))?;
        Ok(Self(Arc::new(Inner {
            path,
            file: Mutex::new(file),
            lost: AtomicU64::new(0),
        })))
    }

    /// Where the file is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// How many names could not be written.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.0.lost.load(Ordering::Relaxed)
    }

    fn write(&self, names: impl Iterator<Item = Named>) {
        let mut count = 0;
        let mut lines = String::new();
        for Named { range, name } in names {
            lines += &format!("{:x} {:x} {name}\n", range.start().get(), range.len());
            count += 1;
        }
        // One call, so that the lines of several engines do not mix.
        if self.0.file.lock().write_all(lines.as_bytes()).is_err() {
            self.0.lost.fetch_add(count, Ordering::Relaxed);
        }
    }
}

impl Observer for PerfMap {
    fn observe(&self, event: &Event<'_>) {
        match event {
            Event::Registered { module } => self.write(names::functions(module)),
            Event::Placed(placed) => self.write(std::iter::once(names::placed(placed))),
            _ => {}
        }
    }
}

impl fmt::Debug for PerfMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PerfMap").field(&self.0.path).finish()
    }
}
