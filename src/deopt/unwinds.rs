//! The unwind information of a module, read once.
//!
//! Problem: each exit stub is for a site whose frame has to be found, and its handler asks for that
//! while other threads make exit stubs. Approach: what was read is kept with the module, which whoever
//! has a site of it has too: finding it takes no lock, and it is gone when the module is.

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

/// Reads the unwind information of a module, unless that has been done.
///
/// # Errors
/// A section of the module cannot be read.
#[inline]
pub(super) fn read(module: &Module) -> Result<()> {
    match module.has_unwinds() {
        true => Ok(()),
        false => Unwinds::of(module).map(drop),
    }
}

/// The unwind information that covers an address of the module, if any does.
///
/// # Errors
/// As [`read`].
pub(super) fn covering(module: &Module, pc: CodeAddr) -> Result<Option<&UnwindInfo>> {
    let infos = &Unwinds::of(module)?.0;
    Ok(infos.iter().find(|info| info.covers(pc)))
}

/// The same of a site whose module's has been [read](read).
pub(super) fn of_read(site: &Site) -> Option<&UnwindInfo> {
    let found = covering(site.module(), site.addr());
    found.expect("what was read once is kept with its module")
}
