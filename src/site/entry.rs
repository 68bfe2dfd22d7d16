//! Entry sites: reserved bytes at the start of a function, which no stack map records.

use crate::addr::{FnOffset, RecordId};
use crate::arch::CallShape;

/// Declares reserved bytes at the start of a function, such as the nops that LLVM emits for
/// `"patchable-function-entry"="N"` (`llvm/docs/LangRef`, function attributes).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntrySpec {
    pub(super) function: String,
    pub(super) id: RecordId,
    pub(super) offset: FnOffset,
    pub(super) shape: CallShape,
}

impl EntrySpec {
    /// The first `reserved` bytes of `function`, under an ID of the runtime's choice.
    #[must_use]
    pub fn new(function: &str, id: impl Into<RecordId>, reserved: u32) -> Self {
        Self {
            function: function.into(),
            id: id.into(),
            offset: FnOffset::new(0),
            shape: CallShape::entry(reserved),
        }
    }

    /// The function takes `count` arguments, which sequences there may then name.
    #[must_use]
    pub fn args(mut self, count: u32) -> Self {
        self.shape = self.shape.args(count);
        self
    }

    /// The function returns an integer or a pointer, which a sequence there that returns may then set.
    #[must_use]
    pub fn result(mut self) -> Self {
        self.shape = self.shape.result();
        self
    }

    /// The bytes start `offset` bytes into the function: after an `endbr64`, for example.
    #[must_use]
    pub fn at(mut self, offset: FnOffset) -> Self {
        self.offset = offset;
        self
    }
}
