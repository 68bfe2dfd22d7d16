//! What the engine needs from whoever lets compiled code call the runtime: ramps.
//!
//! The engine decides when a site needs a way out and where its code stands; what that code does, and what
//! handler it ends in, is the business of an [`Exits`] (the one here is `deopt::Ramps`).

use core::any::Any;

use crate::addr::{CodeAddr, Len};
use crate::error::Result;
use crate::site::{ModuleId, Site};

/// Why control leaves the code of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Role {
    /// The sequence in the site found nothing to do for this value (`Target::Miss`).
    Miss,
    /// The site has been invalidated, or its sequence asks for it (`Target::Deopt`).
    Deopt,
}

/// Where a thread goes on that leaves a ramp as if it had not entered it.
#[derive(Clone, Copy, Debug)]
pub enum Resumption<'a> {
    /// At this address.
    At(CodeAddr),
    /// With these instructions, which stood at the site, and then at the site's end.
    Displaced(&'a [u8]),
}

impl Role {
    /// The name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Miss => "miss",
            Self::Deopt => "deopt",
        }
    }
}

/// One ramp that is asked for.
#[derive(Debug)]
pub struct ExitRequest<'a> {
    /// The site that it leaves.
    pub site: &'a Site,
    /// Why.
    pub role: Role,
    /// Where its code will stand.
    pub at: CodeAddr,
    /// Where a thread goes on that resumes.
    pub resumption: Resumption<'a>,
}

/// How the stack differs from that at the site, from an offset of out-of-line code on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StackAt {
    /// The offset.
    pub from: u32,
    /// By how many bytes the stack pointer is below that of the site.
    pub lowered: u32,
    /// Where what the site has in its link register is stored, in bytes from the stack pointer; `None` where it is in the
    /// register, or where the architecture has none.
    pub link: Option<u32>,
}

/// The code of a ramp.
pub struct ExitCode {
    /// Its bytes, of which there are no more than were announced.
    pub bytes: Vec<u8>,
    /// How the stack differs from that at the site; by ascending offsets.
    pub stack: Vec<StackAt>,
    /// What must live as long as the bytes can be executed.
    pub keep: Box<dyn Any + Send + Sync>,
}

/// Makes ramps.
pub trait Exits: Send + Sync {
    /// Whether there is a handler for that role.
    fn handles(&self, role: Role) -> bool;

    /// An upper bound of the bytes of the ramp.
    ///
    /// # Errors
    /// The ramp cannot be made wherever it stands.
    fn bound(&self, site: &Site, role: Role, resumption: Resumption<'_>) -> Result<Len>;

    /// The ramp.
    ///
    /// # Errors
    /// The ramp cannot be made at this address.
    fn encode(&self, request: &ExitRequest<'_>) -> Result<ExitCode>;

    /// Whether a handler can leave the frame at that site for its caller.
    ///
    /// # Errors
    /// It cannot; why.
    fn check_leavable(&self, site: &Site) -> Result<()>;

    /// A module has been unregistered: what is kept for it is not needed any more.
    fn forget(&self, module: ModuleId);
}
