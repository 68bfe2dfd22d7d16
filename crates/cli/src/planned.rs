//! What a patch comes to: for lists, for JSON, and for pages.

use patchpoint::addr::{CodeAddr, Len};

use crate::names::Listed;
use crate::survey::{RecordPlace, Registered};
/// What a patch of one site comes to.
pub(crate) struct Planned<'s> {
    pub(crate) place: &'s RecordPlace,
    pub(crate) registered: &'s Registered,
    pub(crate) outcome: Result<Written, patchpoint::Error>,
}

/// What would be written.
pub(crate) struct Written {
    pub(crate) used: Len,
    pub(crate) slack: Len,
    pub(crate) return_offsets: Vec<u32>,
    pub(crate) before: Vec<Listed>,
    pub(crate) after: Vec<Listed>,
    pub(crate) stub: Option<(CodeAddr, Vec<Listed>)>,
}
