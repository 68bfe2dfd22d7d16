//! The walls between what is the same everywhere and what an architecture decides.
//!
//! An architecture encodes one resolved operation after another into a [`Code`], in which branches take no
//! room yet: their form depends on distances that are known only when all is encoded. `sequence/layout`
//! then chooses the forms, shortest first, and asks the architecture to write each.

use alloc::vec::Vec;

use super::RegSet;
use super::live::{Head, HeadBytes, NoHead};
use super::op::{Base, Cond, Dest, Extension, Op, Width};
use crate::addr::{CodeAddr, DwarfReg, Len};

/// Why an architecture cannot encode an operation. The caller knows the site and the operation's index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// No register is free for what is named.
    NoScratch(&'static str),
    /// An operand that this operation cannot take.
    Unusable(&'static str),
    /// An immediate that does not fit.
    Immediate { value: u64, width: Width },
}

/// A constant of that width, sign-extended.
pub(crate) fn immediate(value: u64, width: Width) -> Result<i64, Refusal> {
    width
        .sign_extend(value)
        .ok_or(Refusal::Immediate { value, width })
}

/// The 64 bits that a constant of that width extends to.
pub(crate) fn extended(value: u64, width: Width, extension: Extension) -> Result<u64, Refusal> {
    let signed = immediate(value, width)?;
    Ok(match (width, extension) {
        (Width::B1, Extension::Zero) => u64::from(signed as u8),
        (Width::B2, Extension::Zero) => u64::from(signed as u16),
        (Width::B4, Extension::Zero) => u64::from(signed as u32),
        _ => signed as u64,
    })
}

/// A branch's kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BranchKind {
    Jump,
    JumpIf(Cond),
    Call,
}

/// The form of a branch, shortest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Form {
    Short,
    Near,
    /// Through a scratch register.
    Far,
}

/// A branch that is still to be encoded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Branch {
    /// Its position in [`Code::bytes`], in which it and the branches before it take no room.
    pub(crate) at: u32,
    pub(crate) kind: BranchKind,
    pub(crate) dest: Dest,
    /// The register that the far form may clobber.
    pub(crate) scratch: Option<DwarfReg>,
    pub(crate) form: Form,
    /// What the architecture notes for itself.
    pub(crate) detail: u16,
    /// The operation's index in the sequence.
    pub(crate) op: u32,
}

/// Four bytes that become the distance from the end of their instruction to `target`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PcRelative {
    /// Position of the four bytes in [`Code::bytes`].
    pub(crate) at: u32,
    /// Bytes from their start to the end of the instruction.
    pub(crate) to_end: u32,
    pub(crate) target: u64,
    /// The operation's index in the sequence.
    pub(crate) op: u32,
}

/// Where the code will stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// At this address.
    At(CodeAddr),
    /// Somewhere in reach of a near jump from this address: lengths are upper bounds.
    Near(CodeAddr),
}

/// Encoded operations.
#[derive(Debug)]
pub(crate) struct Code {
    pub(crate) origin: Origin,
    pub(crate) bytes: Vec<u8>,
    pub(crate) branches: Vec<Branch>,
    pub(crate) pc_relative: Vec<PcRelative>,
    /// Bytes by which the code may become longer once it is known where it stands.
    pub(crate) extra: u32,
    /// Registers written so far.
    pub(crate) clobbers: RegSet,
    /// The index of the operation that is being encoded.
    pub(crate) op: u32,
}

impl Code {
    pub(crate) fn new(origin: Origin) -> Self {
        Self {
            origin,
            bytes: Vec::with_capacity(64),
            branches: Vec::new(),
            pc_relative: Vec::new(),
            extra: 0,
            clobbers: RegSet::EMPTY,
            op: 0,
        }
    }

    /// The position of the next byte.
    pub(crate) fn at(&self) -> u32 {
        // A sequence of 4 GiB would not have been accepted.
        self.bytes.len() as u32
    }

    pub(crate) fn branch(&mut self, kind: BranchKind, dest: Dest, scratch: Option<DwarfReg>) {
        self.branches.push(Branch {
            at: self.at(),
            kind,
            dest,
            scratch,
            form: Form::Short,
            detail: 0,
            op: self.op,
        });
    }
}

/// One architecture.
pub(crate) trait Backend: Sync {
    /// The unit of instruction lengths and addresses, in bytes: a power of two.
    fn unit(&self) -> u32;

    /// Appends `op`. Registers in `free` may be clobbered; nothing else that `op` does not name is.
    fn emit(&self, op: &Op<'_>, free: RegSet, code: &mut Code) -> Result<(), Refusal>;

    /// The length of `branch` in `form`.
    fn branch_len(&self, branch: &Branch, form: Form) -> u32;

    /// Whether `branch` in `form`, standing at `from`, reaches `to`.
    fn reaches(&self, branch: &Branch, form: Form, from: u64, to: u64) -> bool;

    /// Appends `branch` in its form, standing at `from`; it reaches `to`.
    fn put_branch(&self, branch: &Branch, from: u64, to: u64, out: &mut Vec<u8>);

    /// What stands around an address to which a thread may return although its call is gone: the bytes before
    /// the address, and those from it on. Together they do nothing for who comes from above.
    fn landing(&self) -> (Vec<u8>, Vec<u8>) {
        (Vec::new(), Vec::new())
    }

    /// Where the head of the site at `addr` stands: as early as it can.
    fn plan_head(&self, addr: CodeAddr, len: Len) -> Result<Head, NoHead>;

    /// How far jumps reach, either way, in bytes: those of heads, and others where no register is free.
    fn reach(&self) -> u64;

    /// The head that goes on to the tail.
    fn nop(&self, head: Head) -> HeadBytes;

    /// The head that jumps to `to`, if it reaches.
    fn jump(&self, head: Head, to: CodeAddr) -> Option<HeadBytes>;

    /// A length that the relocated instructions and the jump behind them do not exceed.
    fn relocated_bound(&self, addr: CodeAddr, bytes: &[u8]) -> u64;

    /// The instructions of `bytes`, which stood at `addr`, as they are executed at `at`, and a jump to what
    /// followed them.
    ///
    /// # Errors
    /// [`Error::RampRelocation`](crate::Error::RampRelocation): one of them means something else there.
    fn relocate(&self, at: CodeAddr, addr: CodeAddr, bytes: &[u8]) -> crate::Result<Vec<u8>>;
}

impl Base {
    /// The register that the base is in, or is found through.
    pub(crate) fn reg(self) -> Option<DwarfReg> {
        match self {
            Self::Reg(reg) | Self::Slot { reg, .. } => Some(reg),
            Self::Absolute(_) => None,
        }
    }
}
