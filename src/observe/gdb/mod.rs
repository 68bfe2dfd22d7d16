//! Telling GDB of code: names, and how frames are found.
//!
//! Problem: a debugger that stops in code that no linker has seen knows neither where it is nor who
//! called. Approach: GDB's interface for JIT compilers (GDB manual, "JIT Compilation Interface"):
//! for each module, and for each piece of out-of-line code, a small ELF file in memory with a
//! symbol and unwind information, in a list that GDB reads when it stops.
//!
//! Invariants: a file stays where it is while it is in the list; it leaves the list before the
//! code's address is used again.

mod elf;
mod interface;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Once};

use parking_lot::Mutex;

use self::elf::File;
use self::interface::JitCodeEntry;
use super::names;
use crate::addr::CodeAddr;
use crate::arch::Arch;
use crate::deopt::{of_capture, unwind_entry};
use crate::engine::{Event, Observer, Placed};
use crate::site::{Module, ModuleId};

/// Tells GDB of functions, stubs and exit stubs, with the way to their callers: `bt` goes through
/// them. Clones tell the same.
///
/// When the last clone is gone, so is what was told. LLVM and other JIT compilers in the process
/// use the same list, which has no lock that all of them share: do not register code with GDB
/// through them at the same time.
///
/// # Where there are other JIT compilers
///
/// The list is two symbols, `__jit_debug_register_code` and `__jit_debug_descriptor`. Those of this
/// crate are weak: where LLVM is linked into the program, for example, its are used. On PowerPC64,
/// where Rust has no assembler yet, they are not weak: a program with both does not link ("multiple
/// definition"), be the other one LLVM or another version of this crate. A shared library is no
/// obstacle: one that the program is linked with uses the program's list, one that is loaded later
/// has its own, and GDB reads the lists of all files.
///
/// There is no `Gdb` on big-endian PowerPC64: with ELFv1 GDB 13 sets its breakpoint in the function
/// descriptor, and with ELFv2 nothing shows yet that it does better.
#[derive(Clone, Default)]
pub struct Gdb(Arc<Inner>);

#[derive(Default)]
struct Inner {
    entries: Mutex<Entries>,
}

#[derive(Default)]
struct Entries {
    modules: HashMap<ModuleId, Vec<JitCodeEntry>>,
    /// By where the code begins.
    placed: HashMap<CodeAddr, JitCodeEntry>,
}

impl Gdb {
    /// Begins with nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn module(&self, module: &Module) {
        capture(module.arch());
        let functions: Vec<_> = names::functions(module).collect();
        let mut unwind: Vec<_> = module.eh_frames().iter().collect();
        let mut entries = Vec::new();
        for area in module.areas() {
            let range = area.range();
            let inside = functions
                .iter()
                .filter(|function| range.contains(function.range.start()));
            let frame = unwind.pop();
            let file = File {
                arch: module.arch(),
                code: range,
                symbols: inside.map(|named| (named.name.as_str(), named.range)).collect(),
                eh_frame: frame.map(|frame| (frame.addr, frame.bytes.as_slice())),
            };
            entries.extend(file.bytes().map(JitCodeEntry::new));
        }
        self.0.entries.lock().modules.insert(module.id(), entries);
    }

    fn placed(&self, placed: &Placed<'_>) {
        let named = names::placed(placed);
        let frame = unwind_entry(placed);
        let file = File {
            arch: placed.site.module().arch(),
            code: named.range,
            symbols: vec![(named.name.as_str(), named.range)],
            eh_frame: frame.as_deref().map(|bytes| (CodeAddr::default(), bytes)),
        };
        if let Some(bytes) = file.bytes() {
            let mut entries = self.0.entries.lock();
            entries
                .placed
                .insert(named.range.start(), JitCodeEntry::new(bytes));
        }
    }
}

/// Tells of the capture routine once, as it stays as long as the program.
fn capture(arch: Arch) {
    static TOLD: Once = Once::new();
    TOLD.call_once(|| {
        let file = of_capture().and_then(|(code, bytes)| {
            let file = File {
                arch,
                code,
                symbols: vec![("patchpoint_capture", code)],
                eh_frame: Some((CodeAddr::default(), &bytes)),
            };
            file.bytes()
        });
        std::mem::forget(file.map(JitCodeEntry::new));
    });
}

impl Observer for Gdb {
    fn observe(&self, event: &Event<'_>) {
        match event {
            Event::Registered { module } => self.module(module),
            Event::Unregistered { module } => {
                self.0.entries.lock().modules.remove(&module.id());
            }
            Event::Placed(placed) => self.placed(placed),
            Event::Reclaimed(reclaimed) => {
                self.0.entries.lock().placed.remove(&reclaimed.range.start());
            }
            _ => {}
        }
    }
}

impl fmt::Debug for Gdb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries = self.0.entries.lock();
        let mut gdb = f.debug_struct("Gdb");
        gdb.field("modules", &entries.modules.len());
        gdb.field("placed", &entries.placed.len()).finish()
    }
}
