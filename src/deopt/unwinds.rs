//! The unwind information of a module, read once.
//!
//! Problem: the frame at a site has to be found when a handler leaves it, and whenever somebody looks for
//! callers; most exit stubs are never entered, and reading a section takes more than making an exit
//! stub. Approach: it is read when it is asked for first, and kept with the module, which whoever has
//! a site of it has too: finding it takes no lock then, and it is gone when the module is.

use super::UnwindInfo;
use crate::addr::CodeAddr;
use crate::deopt::Result;
use crate::memory::fork::gate::Writing;
use crate::site::{Module, Site, UnwindBy};

/// What a module has.
struct Unwinds(Box<[UnwindInfo]>);

impl Unwinds {
    fn read(module: &Module) -> Result<Self> {
        if module.unwind_by() != UnwindBy::EhFrame {
            return Ok(Self([UnwindInfo::conventional(module)].into()));
        }
        let frames = module.eh_frames().iter();
        let read = frames.map(|frame| UnwindInfo::new(frame.addr, &frame.bytes));
        Ok(Self(read.collect::<Result<_>>()?))
    }

    fn of(module: &Module) -> Result<&Self> {
        if let Some(known) = module.kept_unwinds() {
            return Ok(known);
        }
        // Handlers run in a fork's child too, where nobody may be keeping it.
        let _writing = Writing::enter();
        let read = Self::read(module)?;
        Ok(module.keep_unwinds(read))
    }
}

/// The unwind information that covers an address of the module, if any does.
///
/// # Errors
/// A section of the module cannot be read.
pub(super) fn covering(module: &Module, pc: CodeAddr) -> Result<Option<&UnwindInfo>> {
    let infos = &Unwinds::of(module)?.0;
    Ok(infos.iter().find(|info| info.covers(pc)))
}

/// The unwind information of a site's function, if there is any.
///
/// # Errors
/// As [`covering`].
pub(super) fn of_site(site: &Site) -> Result<Option<&UnwindInfo>> {
    covering(site.module(), site.addr())
}
