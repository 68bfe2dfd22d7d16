//! The file from which `perf inject --jit` learns what code was where, and when (Linux,
//! tools/perf/Documentation/jitdump-specification.txt): a header, then a record for each piece of
//! code with its bytes. Numbers have the machine's byte order.

use std::fmt;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::file;
use super::names::{self, Named};
use super::system::{Marker, monotonic_nanos, thread};
use crate::arch::Arch;
use crate::engine::{Event, Observer};
use crate::memory::CodeArea;
use crate::site::Module;

/// "JiTD" in big-endian order.
const MAGIC: u32 = 0x4a69_5444;
const VERSION: u32 = 1;
const HEADER_LEN: u32 = 40;
/// JIT_CODE_LOAD.
const CODE_LOAD: u32 = 0;
/// The bytes of a JIT_CODE_LOAD record before the name.
const LOAD_LEN: usize = 56;

/// Writes functions, stubs and exit stubs with their bytes for `perf inject --jit`. Clones write to
/// the same file.
///
/// To be recorded with `perf record -k 1`, as times are of the monotonic clock. Code that another
/// process forks is not told of.
#[derive(Clone)]
pub struct JitDump(Arc<Inner>);

struct Inner {
    path: PathBuf,
    state: Mutex<DumpState>,
    lost: AtomicU64,
    _marker: Marker,
}

struct DumpState {
    file: File,
    /// The number of the next piece of code.
    next: u64,
}

impl JitDump {
    /// Begins the file `jit-PID.dump` in a folder, by which name `perf` knows it. It has the code's
    /// bytes, and can be read by this user only. One that an earlier process of this number has
    /// left there is overwritten.
    ///
    /// # Errors
    /// The file cannot be made or mapped; what is there is not a plain file of this user's alone, or one that another
    /// `JitDump` writes still; this machine is none that code can run on.
    pub fn create_in(folder: impl AsRef<Path>) -> io::Result<Self> {
        let path = folder.as_ref().join(format!("jit-{}.dump", std::process::id()));
        let arch = Arch::host().ok_or(io::ErrorKind::Unsupported)?;
        let mut file = file::open(&path, OpenOptions::new().read(true).write(true))?;
        // protection: observed-dumps-have-one-writer
        if !file::lock(&file)? {
            let why = "another JitDump of this process writes there: clone that, or take another folder";
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
        }
        file.set_len(0)?;
        file.set_permissions(Permissions::from_mode(0o600))?;
        file.write_all(&header(arch))?;
        let marker = Marker::new(&file)?;
        Ok(Self(Arc::new(Inner {
            path,
            state: Mutex::new(DumpState { file, next: 0 }),
            lost: AtomicU64::new(0),
            _marker: marker,
        })))
    }

    /// Where the file is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// How many pieces of code could not be read or written.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.0.lost.load(Ordering::Relaxed)
    }

    fn module(&self, module: &Module) {
        for named in names::functions(module) {
            self.write(&named, read(module, &named).as_deref());
        }
    }

    fn write(&self, named: &Named, code: Option<&[u8]>) {
        let mut state = self.0.state.lock();
        let done = code.and_then(|code| {
            let record = load(named, code, state.next)?;
            state.file.write_all(&record).ok()
        });
        state.next += 1;
        if done.is_none() {
            self.0.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Observer for JitDump {
    fn observe(&self, event: &Event<'_>) {
        match event {
            Event::Registered { module } => self.module(module),
            Event::Placed(placed) => self.write(&names::placed(placed), placed.code().ok().as_deref()),
            _ => {}
        }
    }
}

impl fmt::Debug for JitDump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("JitDump").field(&self.0.path).finish()
    }
}

/// The bytes of a function.
fn read(module: &Module, function: &Named) -> Option<Vec<u8>> {
    let area = CodeArea::containing(module.areas(), function.range.start())?;
    let mut code = vec![0; usize::try_from(function.range.len()).ok()?];
    area.memory().read(function.range.start(), &mut code).ok()?;
    Some(code)
}

fn header(arch: Arch) -> Vec<u8> {
    let words = [
        MAGIC,
        VERSION,
        HEADER_LEN,
        arch.elf_machine().into(),
        0,
        std::process::id(),
    ];
    let mut header: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    header.extend(monotonic_nanos().to_ne_bytes());
    // No flags.
    header.extend(0u64.to_ne_bytes());
    header
}

/// The record of a piece of code that begins to be where it is; `None` if it is too large for one.
fn load(named: &Named, code: &[u8], number: u64) -> Option<Vec<u8>> {
    let len = LOAD_LEN + named.name.len() + 1 + code.len();
    let mut record = Vec::with_capacity(len);
    for word in [CODE_LOAD, u32::try_from(len).ok()?] {
        record.extend(word.to_ne_bytes());
    }
    record.extend(monotonic_nanos().to_ne_bytes());
    for word in [std::process::id(), thread()] {
        record.extend(word.to_ne_bytes());
    }
    let addr = named.range.start().get();
    for number in [addr, addr, code.len() as u64, number] {
        record.extend(number.to_ne_bytes());
    }
    record.extend(named.name.as_bytes());
    record.push(0);
    record.extend(code);
    Some(record)
}
