//! What the assembler and the checker are told of a site, and what a sequence declares.

use alloc::vec::Vec;

use crate::{Arch, CallShape, RegSet};
use llvm_stackmaps::addr::{CodeAddr, CodeRange, FnOffset, Len, RecordId};
use llvm_stackmaps::{Constants, Record};

/// All that is known of a site when a sequence is assembled or checked for it.
#[derive(Clone, Copy, Debug)]
pub struct SiteContext<'a> {
    /// The architecture of the site.
    pub arch: Arch,
    /// The ID of the site's record, or the ID the runtime chose for it.
    pub id: RecordId,
    /// The name of the function, where it is known.
    pub function: Option<&'a str>,
    /// The distance of the site from its function's start.
    pub offset: FnOffset,
    /// The address of the first reserved byte.
    pub addr: CodeAddr,
    /// Kind, reserved length, convention, result, arguments.
    pub shape: CallShape,
    /// The stack map record, or that which was made of what was told; `None` for sites that have
    /// none (entries, marked sites, calls).
    pub record: Option<Record<'a>>,
    /// The large constants that `ConstantIndex` locations of the record refer to.
    pub constants: Constants<'a>,
    /// Offsets inside the site to which a return address on some stack may point, ascending; never
    /// 0 and less than the reserved length.
    pub return_offsets: &'a [u32],
    /// The LLVM that compiled the code is vouched for to list all live-outs; otherwise every
    /// callee-saved register counts as live out.
    pub trust_live_outs: bool,
}

impl<'a> SiteContext<'a> {
    /// The bytes of the site from that offset on, as a site: what a sequence may use that is to be
    /// behind other code. None of them is returned to.
    #[must_use]
    pub fn behind(&self, offset: Len) -> Option<SiteContext<'a>> {
        let (before, reserved) = (offset.get(), self.shape.reserved().get());
        Some(SiteContext {
            offset: FnOffset::new(self.offset.get().checked_add(before)?),
            addr: self.addr.plus(offset)?,
            shape: self.shape.reserving(Len::new(reserved.checked_sub(before)?)),
            return_offsets: &[],
            ..*self
        })
    }
}

/// Whether control comes back from a target, and what is lost until then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OnReturn {
    /// Control does not come back: the target may only be jumped to.
    Never,
    /// The target may be called and preserves every register but the call's own scratch register,
    /// and flags excepted.
    PreservesAll,
    /// The target may be called and follows the platform's C convention.
    FollowsC,
}

/// An address outside the site that a sequence may branch to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeclaredTarget {
    /// The address.
    pub addr: CodeAddr,
    /// How it may be entered.
    pub on_return: OnReturn,
}

/// Bytes of a sequence that are not decoded: the runtime vouches for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vouched {
    /// Where they are executed.
    pub range: CodeRange,
    /// The registers that they write.
    pub writes: RegSet,
}

/// What a sequence declares to whoever checks it: nothing else is allowed.
#[derive(Clone, Debug, Default)]
pub struct Declared {
    /// Where it may branch to outside its own code.
    pub targets: Vec<DeclaredTarget>,
    /// Registers that it may write although the site's record or convention would protect them.
    pub outputs: RegSet,
    /// Bytes that are taken as they are, ascending.
    pub vouched: Vec<Vouched>,
}
