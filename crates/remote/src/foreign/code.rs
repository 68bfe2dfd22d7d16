//! Code of a foreign process.

use std::sync::Arc;

use patchpoint::addr::CodeRange;
use patchpoint::memory::CodeMemory;

use super::bytes::ForeignMemory;
use super::{Process, Shared};
use crate::error::{Error, Result};

impl Process {
    /// The memory of these ranges, and what is between them.
    ///
    /// # Errors
    /// [`Error::ForeignRange`]: a range is not private, read-execute memory.
    pub(crate) fn code(&self, ranges: &[CodeRange]) -> Result<Arc<dyn CodeMemory>> {
        let start = ranges.iter().map(|range| range.start()).min();
        let end = ranges.iter().map(|range| range.end()).max();
        let range = match start.zip(end) {
            Some((start, end)) => CodeRange::new(start, end.get() - start.get())
                .expect("the last range to end does not end before the first starts"),
            // No ranges have no memory.
            None => CodeRange::default(),
        };
        // protection: foreign-code-is-mapped-so
        ranges.iter().try_for_each(|range| self.0.check_code(*range))?;
        let process = Arc::clone(&self.0);
        Ok(Arc::new(ForeignMemory { process, range }))
    }
}

impl Shared {
    /// Whether all of a range is private, read-execute memory.
    fn check_code(&self, range: CodeRange) -> Result<()> {
        let refused = |why| Error::ForeignRange {
            process: self.id,
            range,
            why,
        };
        let mut covered = range.start().get();
        for mapping in self
            .maps()?
            .iter()
            .filter(|mapping| mapping.range.overlaps(range))
        {
            let why = match () {
                () if mapping.range.start().get() > covered => "is not all mapped",
                () if mapping.writable => "can be written",
                () if !mapping.executable => "cannot be executed",
                () if mapping.shared => {
                    "is shared with other processes, which the system does not let anybody change"
                }
                () => {
                    covered = mapping.range.end().get();
                    continue;
                }
            };
            return Err(refused(why));
        }
        match covered >= range.end().get() {
            true => Ok(()),
            false => Err(refused("is not all mapped")),
        }
    }
}
