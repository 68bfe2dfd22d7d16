//! Without the feature `remote` no other process executes the code: a value that cannot be.

use super::Level;
use crate::addr::{CodeAddr, CodeRange};
use crate::error::Result;

/// The process that executes the code.
#[derive(Clone, Copy, Debug)]
#[allow(dead_code, reason = "there is none")]
pub(crate) enum Elsewhere {}

impl Elsewhere {
    pub(super) fn check(self, _: Level) -> Result<()> {
        match self {}
    }

    pub(super) fn has_ended(self) -> bool {
        match self {}
    }

    pub(crate) fn trap(self, _: CodeAddr) -> Option<CodeAddr> {
        match self {}
    }

    pub(crate) fn set_trap(self, _: CodeAddr, _: Option<CodeAddr>) -> Result<()> {
        match self {}
    }

    pub(super) fn maintain(self, _: &[CodeRange]) -> Result<()> {
        match self {}
    }

    pub(super) fn publish(self, _: &[CodeRange], _: Level) -> Result<()> {
        match self {}
    }
}
