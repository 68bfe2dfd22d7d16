//! Further views of the engine's code: what the seals of its file forbid, and what they leave to
//! the process's own settings (SECURITY.md says which).
#![cfg(all(target_os = "linux", not(emulated)))]

use super::*;

const RW: libc::c_int = libc::PROT_READ | libc::PROT_WRITE;
const RX: libc::c_int = libc::PROT_READ | libc::PROT_EXEC;

fn pointer(at: u64) -> *mut libc::c_void {
    std::ptr::with_exposed_provenance_mut(at as usize)
}

fn can_be(at: u64, protection: libc::c_int) -> bool {
    // SAFETY: pages of this child's, whose code nobody runs.
    unsafe { libc::mprotect(pointer(at), sys::page_size() as usize, protection) == 0 }
}

/// A second view of the pages at an address, as mremap(2) makes them of a length of 0.
fn copy_of(at: u64) -> Option<u64> {
    let len = sys::page_size() as usize;
    // SAFETY: leaves the pages as they are, and maps them once more where the kernel likes.
    let copy = unsafe { libc::mremap(pointer(at), 0, len, libc::MREMAP_MAYMOVE) };
    (copy != libc::MAP_FAILED).then_some(copy.expose_provenance() as u64)
}

/// Where a page of code is executed, and where it is written.
fn page_of_code() -> (PlacedSegments, u64, u64) {
    let (placed, range) = aliased(64);
    let at = range.start().get() & !(sys::page_size() - 1);
    let rw = placed.memory().writable(range.start(), 1).unwrap() & !(sys::page_size() - 1);
    (placed, at, rw)
}

/// The seals: neither the executed view nor a copy of it is ever writable, in whatever process.
#[test]
fn what_is_executed_cannot_be_made_writable() {
    assert!(in_child(|| {
        let (_placed, rx, rw) = page_of_code();
        let copy = copy_of(rx);
        let refused = !can_be(rx, RW) && !can_be(rx, RW | RX) && copy.is_none_or(|copy| !can_be(copy, RW));
        // The other direction is open: this says that the test would see it.
        refused && can_be(rw, libc::PROT_READ) && can_be(rw, RW)
    }));
}

/// The seals leave the writable view as it is: it, and a copy of it, can be made executable
/// instead. With `PR_SET_MDWE` neither.
#[test]
fn what_is_written_cannot_be_made_executable_where_the_process_forbids_that() {
    assert!(in_child(|| {
        let (_placed, _, rw) = page_of_code();
        let copy = copy_of(rw);
        let before = copy.is_some_and(|copy| can_be(copy, RX) && can_be(copy, RW));
        std::eprintln!("a copy of the writable view can be made executable: {before}");
        // PR_MDWE_REFUSE_EXEC_GAIN
        // SAFETY: concerns only this child.
        if unsafe { libc::prctl(libc::PR_SET_MDWE, 1_u64, 0_u64, 0_u64, 0_u64) } != 0 {
            std::eprintln!("left out: this kernel has no PR_SET_MDWE");
            return true;
        }
        let later = copy_of(rw);
        ![Some(rw), copy, later]
            .into_iter()
            .flatten()
            .any(|view| can_be(view, RX) || can_be(view, RW | RX))
    }));
}

/// Why the engine does not seal its mappings: such can be neither copied nor freed.
#[test]
fn a_sealed_mapping_stays_for_ever() {
    assert!(in_child(|| {
        const SYS_MSEAL: libc::c_long = 462;
        let (placed, _, rw) = page_of_code();
        let len = sys::page_size() as usize;
        // SAFETY: pages of this child's, which ends soon.
        if unsafe { libc::syscall(SYS_MSEAL, pointer(rw), len, 0) } != 0 {
            std::eprintln!("left out: this kernel has no mseal");
            return true;
        }
        let sealed = copy_of(rw).is_none() && !can_be(rw, RX) && !can_be(rw, libc::PROT_READ);
        drop(placed);
        // SAFETY: asks only.
        sealed && unsafe { libc::munmap(pointer(rw), len) } != 0
    }));
}
