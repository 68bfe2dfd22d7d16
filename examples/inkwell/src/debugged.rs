//! What LLVM tells debuggers: GDB's interface for JITs, a list of objects in a variable of LLVM's library.

/// `struct jit_code_entry`.
#[repr(C)]
struct Entry {
    _links: [usize; 2],
    object: *const u8,
    len: u64,
}

/// `struct jit_descriptor`.
#[repr(C)]
struct Descriptor {
    _version_and_action: [u32; 2],
    _relevant: usize,
    first: *const Entry,
}

unsafe extern "C" {
    static __jit_debug_descriptor: Descriptor;
}

/// The object that was placed last, its relocations applied and the addresses of its sections in their headers.
pub fn last_object() -> Option<Vec<u8>> {
    // SAFETY: LLVM changes the list while it compiles, which this program's one thread does not do now.
    unsafe {
        let first = (&raw const __jit_debug_descriptor.first).read().as_ref()?;
        Some(std::slice::from_raw_parts(first.object, first.len as usize).to_vec())
    }
}
