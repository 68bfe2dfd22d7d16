//! The unwind information of modules, each read once.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::UnwindInfo;
use crate::addr::CodeAddr;
use crate::deopt::Result;
use crate::memory::fork::gate::Writing;
use crate::site::{Module, ModuleId, UnwindBy};

/// Unwind information by module.
#[derive(Default)]
pub(super) struct Unwinds(Mutex<BTreeMap<ModuleId, Arc<[Arc<UnwindInfo>]>>>);

/// What a module has.
fn infos(module: &Module) -> Result<Arc<[Arc<UnwindInfo>]>> {
    if module.unwind_by() != UnwindBy::EhFrame {
        return Ok([Arc::new(UnwindInfo::conventional(module))].into());
    }
    let frames = module.eh_frames().iter();
    let read = frames.map(|frame| UnwindInfo::new(frame.addr, &frame.bytes).map(Arc::new));
    Ok(read.collect::<Result<Vec<_>>>()?.into())
}

impl Unwinds {
    /// The unwind information that covers an address of the module, if any does.
    ///
    /// # Errors
    /// A section of the module cannot be read.
    pub(super) fn covering(&self, module: &Module, pc: CodeAddr) -> Result<Option<Arc<UnwindInfo>>> {
        // Handlers run in a fork's child too, where the lock must be free.
        let _writing = Writing::enter();
        let mut known = self.0.lock();
        let infos = match known.get(&module.id()) {
            Some(infos) => infos,
            None => {
                let infos = infos(module)?;
                known.entry(module.id()).or_insert(infos)
            }
        };
        Ok(infos.iter().find(|info| info.covers(pc)).cloned())
    }

    pub(super) fn forget(&self, module: ModuleId) {
        let _writing = Writing::enter();
        self.0.lock().remove(&module);
    }
}
