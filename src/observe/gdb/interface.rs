//! The list of GDB's interface for JIT compilers (GDB manual, "JIT Compilation Interface":
//! declarations and registering).

#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::ptr;

use parking_lot::Mutex;

#[repr(C)]
struct Descriptor {
    version: u32,
    /// What has just been done with the relevant entry.
    action: u32,
    relevant: *mut CodeEntry,
    first: *mut CodeEntry,
}

#[repr(C)]
struct CodeEntry {
    next: *mut CodeEntry,
    prev: *mut CodeEntry,
    file: *const u8,
    len: u64,
}

const NOTHING: u32 = 0;
const REGISTERED: u32 = 1;
const UNREGISTERED: u32 = 2;

// GDB looks for two names: `__jit_debug_descriptor`, and `__jit_debug_register_code`, where it sets
// a breakpoint.

/// GDB sets a breakpoint here.
#[cfg_attr(target_arch = "powerpc64", unsafe(export_name = "__jit_debug_register_code"))]
#[inline(never)]
extern "C" fn register_code() {
    // It keeps calls from being left out.
    core::hint::black_box(());
}

#[repr(transparent)]
struct Cell(UnsafeCell<Descriptor>);

// SAFETY: it is only used under `LOCK`, by way of its symbol.
unsafe impl Sync for Cell {}

#[cfg_attr(target_arch = "powerpc64", unsafe(export_name = "__jit_debug_descriptor"))]
static DESCRIPTOR: Cell = Cell(UnsafeCell::new(Descriptor {
    version: 1,
    action: NOTHING,
    relevant: ptr::null_mut(),
    first: ptr::null_mut(),
}));

// Where Rust has an assembler the names are weak, so that where another JIT compiler of the program
// defines them there is one list: its.
#[cfg(not(target_arch = "powerpc64"))]
core::arch::global_asm!(
    ".weak __jit_debug_register_code",
    ".set __jit_debug_register_code, {code}",
    ".weak __jit_debug_descriptor",
    ".set __jit_debug_descriptor, {descriptor}",
    code = sym register_code,
    descriptor = sym DESCRIPTOR,
);

unsafe extern "C" {
    fn __jit_debug_register_code();
    static mut __jit_debug_descriptor: Descriptor;
}

/// Holds the list, as far as this crate changes it.
static LOCK: Mutex<()> = Mutex::new(());

/// A file in the list, until it is dropped.
pub(super) struct JitCodeEntry {
    entry: *mut CodeEntry,
    _file: Box<[u8]>,
}

// SAFETY: what the pointer refers to is this one's, and is changed under `LOCK` only.
unsafe impl Send for JitCodeEntry {}

impl JitCodeEntry {
    /// Puts the file into the list.
    pub(super) fn new(file: Vec<u8>) -> Self {
        let file = file.into_boxed_slice();
        let entry = Box::into_raw(Box::new(CodeEntry {
            next: ptr::null_mut(),
            prev: ptr::null_mut(),
            file: file.as_ptr(),
            len: file.len() as u64,
        }));
        let _held = LOCK.lock();
        let list = &raw mut __jit_debug_descriptor;
        // SAFETY: the descriptor is this crate's, or that of another that follows the same rules, and is not changed
        // meanwhile; the entries of its list stay until they are taken out; `entry` was made above.
        unsafe {
            (*entry).next = (*list).first;
            if let Some(next) = (*entry).next.as_mut() {
                next.prev = entry;
            }
            (*list).first = entry;
            tell(list, entry, REGISTERED);
        }
        Self { entry, _file: file }
    }
}

impl Drop for JitCodeEntry {
    fn drop(&mut self) {
        let _held = LOCK.lock();
        let list = &raw mut __jit_debug_descriptor;
        // SAFETY: as in `new`; the entry is in the list, and nobody refers to it afterwards.
        unsafe {
            let CodeEntry { next, prev, .. } = *self.entry;
            match prev.as_mut() {
                Some(prev) => prev.next = next,
                None => (*list).first = next,
            }
            if let Some(next) = next.as_mut() {
                next.prev = prev;
            }
            tell(list, self.entry, UNREGISTERED);
            drop(Box::from_raw(self.entry));
        }
    }
}

/// Tells what was done.
///
/// # Safety
/// The list is held, and the entry exists.
unsafe fn tell(list: *mut Descriptor, entry: *mut CodeEntry, action: u32) {
    // SAFETY: as the caller promises; the function is called with what it expects in the descriptor.
    unsafe {
        (*list).relevant = entry;
        (*list).action = action;
        let told: unsafe extern "C" fn() = __jit_debug_register_code;
        // By a pointer: on PowerPC64 other calls may begin behind the address of the name, where
        // GDB stops.
        std::hint::black_box(told)();
        (*list).relevant = ptr::null_mut();
        (*list).action = NOTHING;
    }
}
