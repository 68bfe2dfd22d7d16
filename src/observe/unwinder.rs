//! Telling the process's unwinder of code, so that backtraces go through it.
//!
//! The unwinder is that of libgcc, which C++ and Rust programs on Linux have; it takes `.eh_frame`
//! sections while the program runs (GCC, libgcc/unwind-dw2-fde.c).
//!
//! Invariants: a section stays where it is while it is registered; it is deregistered before the
//! code's address is used again.

#![allow(unsafe_code)]

use std::collections::HashMap;
use std::ffi::c_void;
use std::fmt;
use std::sync::{Arc, Once};

use parking_lot::Mutex;

use crate::addr::CodeAddr;
use crate::deopt::{of_capture, unwind_entry};
use crate::engine::{Event, Observer};
use crate::site::{Module, ModuleId};

unsafe extern "C" {
    fn __register_frame(section: *const c_void);
    fn __deregister_frame(section: *const c_void);
}

/// Tells the process's unwinder how the frames of functions, stubs and exit stubs are found:
/// backtraces that a handler or a callee takes go on through compiled code. Clones tell the same.
///
/// Unwinding through compiled code, of a panic or an exception, is still what the code's own unwind
/// information makes of it; a handler's panic ends the process before it gets there.
#[derive(Clone, Default)]
pub struct Unwinder(Arc<Inner>);

#[derive(Default)]
struct Inner {
    sections: Mutex<Sections>,
}

#[derive(Default)]
struct Sections {
    modules: HashMap<ModuleId, Vec<Section>>,
    /// By where the code begins.
    placed: HashMap<CodeAddr, Section>,
}

impl Unwinder {
    /// Begins with nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn module(&self, module: &Module) {
        capture();
        // Who has loaded other code has registered what came with it, or cannot say where it ends.
        let loaded = module.eh_frames().iter().filter(|_| module.is_loaded());
        let sections = loaded.filter(|frame| !frame.bytes.is_empty());
        // SAFETY: the loader has put the section there, with its terminator, and it stays as long as the module.
        let sections = sections.map(|frame| unsafe { Section::of_module(module, frame.addr) });
        let sections = sections.collect();
        self.0.sections.lock().modules.insert(module.id(), sections);
    }
}

/// Tells of the capture routine once, as it stays as long as the program, and unwinders refuse to
/// be told twice.
fn capture() {
    static TOLD: Once = Once::new();
    TOLD.call_once(|| {
        let section = of_capture().map(|(_, bytes)| Section::new(bytes));
        std::mem::forget(section);
    });
}

impl Observer for Unwinder {
    fn observe(&self, event: &Event<'_>) {
        match event {
            Event::Registered { module } => self.module(module),
            Event::Unregistered { module } => {
                self.0.sections.lock().modules.remove(&module.id());
            }
            Event::Placed(placed) => {
                if let Some(bytes) = unwind_entry(placed) {
                    let mut sections = self.0.sections.lock();
                    sections.placed.insert(placed.range.start(), Section::new(bytes));
                }
            }
            Event::Reclaimed(reclaimed) => {
                self.0.sections.lock().placed.remove(&reclaimed.range.start());
            }
            _ => {}
        }
    }
}

impl fmt::Debug for Unwinder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sections = self.0.sections.lock();
        let mut unwinder = f.debug_struct("Unwinder");
        unwinder.field("modules", &sections.modules.len());
        unwinder.field("placed", &sections.placed.len()).finish()
    }
}

/// A registered section.
pub(super) struct Section {
    start: *const c_void,
    /// What holds it.
    _bytes: Holder,
}

enum Holder {
    Own(#[expect(dead_code, reason = "it is held, not read")] Box<[u8]>),
    Module(#[expect(dead_code, reason = "it is held, not read")] Module),
    /// The memory, which its owner drops later.
    Other,
}

// SAFETY: the section is not changed, and the unwinder has a lock of its own.
unsafe impl Send for Section {}

impl Section {
    /// Registers a section that has no terminator yet.
    fn new(mut bytes: Vec<u8>) -> Self {
        bytes.extend([0; 4]);
        let bytes = bytes.into_boxed_slice();
        let start = bytes.as_ptr().cast();
        // SAFETY: the section is well formed, ends with a terminator, and stays where it is until it is deregistered.
        unsafe { __register_frame(start) };
        Self {
            start,
            _bytes: Holder::Own(bytes),
        }
    }

    /// Registers a section that somebody else holds.
    ///
    /// # Safety
    /// The section is at that address with its terminator until this is dropped.
    pub(super) unsafe fn in_memory(at: CodeAddr) -> Self {
        // SAFETY: as the caller promises.
        unsafe { Self::registered(at, Holder::Other) }
    }

    /// Registers a section of a module's.
    ///
    /// # Safety
    /// The section is at that address with its terminator, as long as the module exists.
    unsafe fn of_module(module: &Module, at: CodeAddr) -> Self {
        // SAFETY: as the caller promises; the module exists until this is dropped.
        unsafe { Self::registered(at, Holder::Module(module.clone())) }
    }

    /// # Safety
    /// The section is at that address with its terminator as long as the holder exists, or until this is dropped.
    unsafe fn registered(at: CodeAddr, holder: Holder) -> Self {
        let start = std::ptr::with_exposed_provenance(at.get() as usize);
        // SAFETY: as the caller promises.
        unsafe { __register_frame(start) };
        Self {
            start,
            _bytes: holder,
        }
    }
}

impl Drop for Section {
    fn drop(&mut self) {
        // SAFETY: it was registered, once, and is deregistered once.
        unsafe { __deregister_frame(self.start) };
    }
}
