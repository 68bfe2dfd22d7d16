//! Systems on which the engine has no memory of its own: there are no views.

use super::Birth;
use crate::addr::CodeRange;
use crate::memory::sys::ExtraFlags;

/// A view of code.
#[derive(Debug)]
pub(in crate::memory) struct View(());

impl View {
    pub(in crate::memory) fn new(_: CodeRange, _: bool, _: Birth) -> Self {
        Self(())
    }

    pub(in crate::memory) fn remapped(_: CodeRange, _: ExtraFlags, _: Birth) -> Self {
        Self(())
    }

    pub(in crate::memory) fn use_up_to(&self, _: u64) {}

    pub(in crate::memory) fn is_copy(&self) -> bool {
        false
    }
}

/// There is nothing to put back.
pub(super) fn stand_back() {}
