//! Where the functions of a module first use vectors whose length is not known when code is
//! compiled.
//!
//! Problem: functions may overlap, and one search in each would take the square of what is there.
//! Approach: what the last search found, or did not find, is kept and extended. Sites ascend, and
//! so do the starts of their functions.
//!
//! Cost: linear in the bytes that functions have, where their starts ascend.

use std::ops::Range;

use super::code::FunctionCode;
use super::functions::FunctionView;
use crate::addr::CodeAddr;
use crate::arch::Arch;
use crate::site::Result;
use crate::verify::first_scalable;

/// What is known so far.
#[derive(Default)]
pub(super) struct ScalableVectors {
    /// What was looked through.
    searched: Range<u64>,
    /// The only such instruction there, which is the last one then.
    found: Option<CodeAddr>,
}

impl ScalableVectors {
    /// The address of the first such instruction of a function.
    pub(super) fn first_in(
        &mut self,
        arch: Arch,
        code: &FunctionCode<'_>,
        function: &FunctionView<'_>,
    ) -> Result<Option<CodeAddr>> {
        let start = function.addr.get();
        let end = start.saturating_add(function.len.get().into());
        let is_known = self.searched.start <= start && start <= self.searched.end;
        if !is_known || self.found.is_some_and(|found| found < function.addr) {
            self.searched = start..start;
            self.found = None;
        }
        if self.found.is_none() && self.searched.end < end {
            let from = self.searched.end;
            let bytes = code.part_of(function, (from - start) as usize, (end - from) as usize)?;
            self.found = bytes.and_then(|bytes| first_scalable(arch, CodeAddr::new(from), &bytes));
            self.searched.end = end;
        }
        Ok(self.found.filter(|found| found.get() < end))
    }
}
