//! The names of sites, for messages.

use alloc::boxed::Box;
use core::fmt;

use llvm_stackmaps::addr::{CodeAddr, FnOffset, RecordId};

use crate::{SiteContext, SiteKind};

/// The name of a site in errors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteName {
    /// Its kind; `None` for a record that is no site yet.
    pub kind: Option<SiteKind>,
    /// The ID of its record.
    pub id: RecordId,
    /// Its function, where the name is known.
    pub function: Option<Box<str>>,
    /// Its distance from the function's start.
    pub offset: FnOffset,
    /// Its address.
    pub addr: CodeAddr,
}

impl SiteName {
    /// The name of this site.
    #[must_use]
    pub fn of(site: &SiteContext<'_>) -> Box<Self> {
        Box::new(Self {
            kind: Some(site.shape.kind()),
            id: site.id,
            function: site.function.map(Box::from),
            offset: site.offset,
            addr: site.addr,
        })
    }
}

impl fmt::Display for SiteName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let function = self.function.as_deref().unwrap_or("function");
        match self.kind {
            Some(kind) => write!(f, "{kind} {}", self.id)?,
            None => write!(f, "record {}", self.id)?,
        }
        write!(f, " at {function}{} ({})", self.offset, self.addr)
    }
}
