//! The exit stubs that a site has.
//!
//! Problem: a site that is changed for the first time mostly gets one, and in a large transaction
//! what is kept of it costs as much as its code. Approach: a site's first is kept where the site's
//! state is, without an allocation. Of one in a block the number is kept: where it is, and how the
//! stack differs there, follows from that.

use core::any::Any;
use std::borrow::Cow;
use std::sync::Arc;

use smallvec::SmallVec;

use super::exits::{Role, StackAt, exits_of};
use super::installed::StubReference;
use super::observe::CodeOwner;
use crate::addr::{CodeAddr, CodeRange};
use crate::memory::{Block, OneOfMany, StubSlot};
use crate::site::SiteKey;

/// The three exit stubs that a site can have; they differ in where they resume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExitStubKind {
    /// `Target::Miss`: resumes at the site's end.
    Miss,
    /// `Target::Deopt` of a sequence: resumes with the original instructions.
    Deopt,
    /// Invalidation: resumes with what the site did before.
    Invalidated,
}

impl ExitStubKind {
    /// What its handler is for.
    #[inline]
    pub(super) fn role(self) -> Role {
        match self {
            Self::Miss => Role::Miss,
            Self::Deopt | Self::Invalidated => Role::Deopt,
        }
    }
}

/// Those of one site, or of one change of it. Most have one.
pub(super) type ExitStubList = SmallVec<[ExitStub; 1]>;

/// An exit stub whose code is in place.
pub(super) struct ExitStub {
    pub(super) kind: ExitStubKind,
    /// Which change of its site it was made for.
    pub(super) generation: u64,
    pub(super) code: ExitStubCode,
    /// Of the stub in which a thread that leaves it goes on, if it is one.
    pub(super) resumes_in: Option<StubReference>,
}

/// Where the code of an exit stub is. What it refers to lives as long as this.
pub(super) enum ExitStubCode {
    Alone(Box<AloneExit>),
    InRoom(RoomExit),
}

/// One on its own.
pub(super) struct AloneExit {
    pub(super) slot: StubSlot,
    pub(super) stack: Cow<'static, [StackAt]>,
    pub(super) _keep: Box<dyn Any + Send + Sync>,
}

/// One in a room of a block, which has that number.
pub(super) struct RoomExit {
    pub(super) block: OneOfMany<Arc<Block>>,
    pub(super) number: u32,
}

impl Drop for RoomExit {
    fn drop(&mut self) {
        // protection: numbers-of-exit-stubs-are-given-back
        exits_of(&self.block).give(self.number);
    }
}

impl ExitStub {
    /// Its first byte.
    #[inline]
    pub(super) fn addr(&self) -> CodeAddr {
        self.range().start()
    }

    /// All its bytes.
    #[inline]
    pub(super) fn range(&self) -> CodeRange {
        match &self.code {
            ExitStubCode::Alone(alone) => alone.slot.range(),
            ExitStubCode::InRoom(room) => room.block.room(room.number),
        }
    }

    /// How the stack differs in it from that at the site; by ascending offsets.
    pub(super) fn stack(&self) -> &[StackAt] {
        match &self.code {
            ExitStubCode::Alone(alone) => &alone.stack,
            ExitStubCode::InRoom(room) => exits_of(&room.block).stack(),
        }
    }

    /// Whose it is, at a site with that key.
    pub(super) fn owner(&self, site: SiteKey) -> CodeOwner {
        CodeOwner {
            site,
            generation: self.generation,
        }
    }

    /// Its code memory. Nobody uses what its code refers to any more.
    pub(super) fn into_slot(self) -> StubSlot {
        match self.code {
            ExitStubCode::Alone(alone) => alone.slot,
            ExitStubCode::InRoom(room) => room.block.slot(room.number),
        }
    }
}
