//! Mapping a copy over pages, and private memory over that again.
//!
//! No fork comes in between: it would find pages that are shared and inherited.

use super::mapping;
use crate::addr::CodeRange;
use crate::icache;
use crate::invariant::broken;
use crate::memory::chunk::{DoubleMapping, RemappedRun};
use crate::memory::fork::gate::Writing;
use crate::memory::fork::{Birth, View};
use crate::memory::sys::{self, ExtraFlags, Refused};
use crate::memory::{Error, Result, raw};

const MEND: &str = "allow sealed memory files to be mapped executable, raise the limits on memory and mappings, or \
                    use ProcMem";

fn system_call(pages: CodeRange, (call, errno): Refused) -> Error {
    let (at, len) = (pages.start(), pages.len());
    Error::SystemCall {
        call,
        at,
        len,
        errno,
        mend: MEND,
    }
}

#[cfg(test)]
std::thread_local! {
    /// What somebody does meanwhile.
    pub(in crate::memory) static BEFORE_COMPARING: std::cell::Cell<fn(CodeRange)> =
        const { std::cell::Cell::new(|_| ()) };
}

/// Copies pages into a sealed file, and maps it over them.
///
/// Everything that the system may refuse is tried at another address first. What changes meanwhile
/// is seen until right before the pages are exchanged; that nobody writes after that is the
/// caller's promise.
///
/// # Safety
///
/// The pages are private code in one mapping; during the call nobody writes them, maps or unmaps
/// them or changes their protection.
pub(super) unsafe fn remap(pages: CodeRange, extra: ExtraFlags) -> Result<DoubleMapping> {
    let (start, len) = (pages.start().get(), pages.len());
    let birth = Birth::here();
    let _writing = Writing::enter();
    let (file, rw) = sys::copied_code_file(start, len).map_err(|refused| system_call(pages, refused))?;
    let exchange = || {
        let inode = sys::inode(&file).map_err(|errno| system_call(pages, ("fstat", errno)))?;
        // protection: remap-is-tried-on-other-pages
        sys::try_executed_view(&file, len, extra)
            .map_err(|errno| system_call(pages, ("mmap of the executable view", errno)))?;
        #[cfg(test)]
        BEFORE_COMPARING.with(|work| work.get()(pages));
        // SAFETY: the view was mapped above, and is this function's; the pages are readable.
        let copied = unsafe {
            core::slice::from_raw_parts(std::ptr::with_exposed_provenance(rw as usize), len as usize)
        };
        // SAFETY: as above.
        // protection: remap-compares-what-it-copied
        if !unsafe { raw::holds(start, copied) } {
            let why = "its bytes have changed while they were copied";
            return Err(super::refused(
                pages,
                why,
                "let nobody write there while the code is registered",
            ));
        }
        // SAFETY: the pages are the caller's to exchange, and hold what the file does.
        match unsafe { sys::map_over(start, len, extra, &file) } {
            Ok(()) => Ok(inode),
            Err(refused) => {
                // SAFETY: the caller's promise; they hold the same bytes whether they were exchanged or not.
                unsafe { take_back(pages, extra, refused) };
                Err(system_call(pages, refused))
            }
        }
    };
    match exchange() {
        Ok(inode) => {
            icache::maintain(pages);
            let view = View::remapped(pages, extra, birth);
            let run = RemappedRun::new(inode, extra);
            Ok(DoubleMapping::remapped(pages, rw, birth, view, run))
        }
        Err(error) => {
            // SAFETY: mapped above, seen by nobody.
            unsafe { sys::unmap(rw, len) };
            Err(error)
        }
    }
}

/// Leaves the pages as they were when the last step was refused: as a rule nothing has changed.
///
/// # Safety
///
/// As for [`remap`].
#[cold]
unsafe fn take_back(pages: CodeRange, extra: ExtraFlags, (call, _): Refused) {
    if call == sys::EXCHANGE {
        // Old kernels unmap what is there before they find out that they lack memory.
        if !sys::is_mapped(pages) {
            broken("pages of code stay mapped when mapping over them is refused");
        }
        return;
    }
    // They are exchanged, and would be shared with the children of a fork.
    // SAFETY: the pages hold what they held, and are the caller's.
    let _ = unsafe { sys::make_private(pages.start().get(), pages.len(), extra) };
}

/// Makes remapped pages private memory again, with what they hold now, where they still are the
/// file's with that inode. Where that cannot be done or known they stay as they are, and nobody can
/// write them any more; children inherit them then.
///
/// # Safety
///
/// The pages were remapped, and nobody writes through their view any more. The caller is inside the
/// gate.
pub(in crate::memory) unsafe fn put_back(pages: CodeRange, inode: u64, extra: ExtraFlags) {
    let Ok(found) = mapping::overlapping(pages) else {
        let _ = sys::give_to_children(pages.start().get(), pages.len());
        return;
    };
    // protection: what-others-mapped-there-stays
    for mapping in found.iter().filter(|mapping| mapping.is_of(inode)) {
        let start = mapping.range.start().max(pages.start());
        let len = mapping.range.end().min(pages.end()).get() - start.get();
        // SAFETY: they are those that were remapped, and hold what they will.
        if unsafe { sys::make_private(start.get(), len, extra) }.is_err() {
            let _ = sys::give_to_children(start.get(), len);
        }
    }
}
