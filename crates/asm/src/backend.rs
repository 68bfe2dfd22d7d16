//! The walls between what is the same everywhere and what an architecture decides.
//!
//! An architecture encodes one resolved operation after another into an [`EncodedCode`], in which
//! branches take no room yet: their form depends on distances that are known only when all is
//! encoded. `sequence/layout` then chooses the forms, shortest first, and asks the architecture to
//! write each.

use alloc::vec::Vec;

use llvm_stackmaps::addr::{CodeAddr, DwarfReg, Len};
use patchpoint_isa::RegSet;
use smallvec::SmallVec;

pub use crate::relocated::Relocated;

use crate::hole::{Alike, BitField, Classes, DistanceReach, Holds, Hole, Part, Use};
use crate::live::{JumpBytes, NoPatchableJump, PatchableJump};
use crate::op::{Base, Cond, Dest, Extension, Op, ValueNumber, Width};

/// Why an architecture cannot encode an operation. The caller knows the site and the operation's
/// index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncodingRefusal {
    /// No register is free for what is named.
    NoScratch(&'static str),
    /// An operand that this operation cannot take.
    Unusable(&'static str),
    /// An immediate that does not fit.
    Immediate {
        /// The immediate.
        value: u64,
        /// The width that it has to fit.
        width: Width,
    },
}

/// A constant of that width, sign-extended.
pub(crate) fn immediate(value: u64, width: Width) -> Result<i64, EncodingRefusal> {
    width
        .sign_extend(value)
        .ok_or(EncodingRefusal::Immediate { value, width })
}

/// The 64 bits that a constant of that width extends to.
pub(crate) fn extended(value: u64, width: Width, extension: Extension) -> Result<u64, EncodingRefusal> {
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
pub enum BranchKind {
    /// Goes there.
    Jump,
    /// Goes there if the condition holds between what was compared last.
    JumpIf(Cond),
    /// Goes there and comes back.
    Call,
}

/// The form of a branch, shortest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BranchForm {
    /// The one with the nearest reach.
    Short,
    /// The usual one.
    Near,
    /// Through a scratch register.
    Far,
}

/// A branch that is still to be encoded.
#[derive(Clone, Copy, Debug)]
pub struct Branch {
    /// Its position in [`EncodedCode::bytes`], in which it and the branches before it take no room.
    pub at: u32,
    /// What it does.
    pub kind: BranchKind,
    /// Where it goes.
    pub dest: Dest,
    /// The register that the far form may clobber.
    pub scratch: Option<DwarfReg>,
    /// The form that it has so far.
    pub form: BranchForm,
    /// What the architecture notes for itself.
    pub detail: u16,
    /// The operation's index in the sequence.
    pub op: u32,
}

/// Four bytes that become the distance from the end of their instruction to `target`.
#[derive(Clone, Copy, Debug)]
pub struct PcRelative {
    /// Position of the four bytes in [`EncodedCode::bytes`].
    pub at: u32,
    /// Bytes from their start to the end of the instruction.
    pub to_end: u32,
    /// The address that it refers to.
    pub target: u64,
    /// The operation's index in the sequence.
    pub op: u32,
}

/// Where the code will be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// At this address.
    At(CodeAddr),
    /// Somewhere in reach of a near jump from this address: lengths are upper bounds.
    Near(CodeAddr),
}

/// How far code was encoded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CodeMark {
    bytes: usize,
    holes: usize,
    alike: usize,
    clobbers: RegSet,
}

/// The distance of a branch, as a [hole](crate::hole).
#[derive(Clone, Copy, Debug)]
pub struct Distance {
    /// Where its word starts in the branch.
    pub at: u32,
    /// The field.
    pub field: BitField,
    /// Where it counts from in the branch.
    pub from: u32,
    /// The least and the greatest that the form has.
    pub within: (i64, i64),
    /// Those for which a shorter form is taken, if there is one.
    pub shorter: Option<(i64, i64)>,
    /// A multiple of this.
    pub unit: u32,
}

/// Encoded operations.
#[derive(Debug)]
pub struct EncodedCode {
    /// Where it will be.
    pub origin: Origin,
    /// The instructions without the branches.
    pub bytes: Vec<u8>,
    /// The branches, in their order.
    pub branches: SmallVec<[Branch; 4]>,
    /// The operands that are relative to the instruction, in their order.
    pub pc_relative: Vec<PcRelative>,
    /// Where values of the sequence are in `bytes`.
    pub holes: Vec<Hole>,
    /// What has to be the same of values, so that the instructions are the same.
    pub alike: Vec<Alike>,
    /// The use of a value that is being encoded.
    pub(crate) using: Option<Use>,
    /// Bytes by which the code may become longer once it is known where it is.
    pub extra: u32,
    /// Registers written so far.
    pub clobbers: RegSet,
    /// The index of the operation that is being encoded.
    pub op: u32,
}

impl EncodedCode {
    /// No code yet, for this place.
    #[must_use]
    #[inline]
    pub fn new(origin: Origin) -> Self {
        Self {
            origin,
            bytes: Vec::with_capacity(64),
            branches: SmallVec::new(),
            pc_relative: Vec::new(),
            holes: Vec::new(),
            alike: Vec::new(),
            using: None,
            extra: 0,
            clobbers: RegSet::EMPTY,
            op: 0,
        }
    }

    /// The position of the next byte.
    #[must_use]
    #[inline]
    pub fn at(&self) -> u32 {
        // A sequence of 4 GiB would not have been accepted.
        self.bytes.len() as u32
    }

    /// Says that the last bytes are the value of that number, if it is one. Which values are
    /// encoded so is a matter of their class.
    #[inline]
    pub(crate) fn end_is(&mut self, len: u32, number: Option<ValueNumber>) {
        if let Some(number) = number {
            self.holes.push(Hole::of_value(self.bytes.len(), len, number));
        }
    }

    /// Says that what comes next encodes a number, which stems from the value of that number, if it
    /// is one, and for which numbers the instructions are the same.
    pub(crate) fn uses(&mut self, number: Option<ValueNumber>, shown: u64, classes: Classes) {
        self.using = number.map(|number| Use {
            number,
            shown,
            has_hole: false,
        });
        self.requires(number, shown, classes);
    }

    /// Says only for which numbers the instructions are the same.
    pub(crate) fn requires(&mut self, number: Option<ValueNumber>, shown: u64, classes: Classes) {
        if let Some(number) = number {
            self.alike.push(Alike {
                number: number.get(),
                // The number, until it is told what the value is.
                base: shown,
                classes,
            });
        }
    }

    /// Says that the word so many bytes before the end holds a part of the number that is being
    /// encoded.
    pub(crate) fn holds(&mut self, before: u32, field: BitField, part: Part) {
        let at = self.at().saturating_sub(before);
        if let Some(using) = &mut self.using {
            self.holes.push(Hole {
                at,
                field,
                holds: Holds::Value(using.number.get()),
                part: Part {
                    // As above.
                    base: using.shown,
                    ..part
                },
                goes_on: using.has_hole,
                reach: DistanceReach::NONE,
            });
            using.has_hole = true;
        }
    }

    /// What there is of the code, to come back to.
    pub(crate) fn mark(&self) -> CodeMark {
        CodeMark {
            bytes: self.bytes.len(),
            holes: self.holes.len(),
            alike: self.alike.len(),
            clobbers: self.clobbers,
        }
    }

    /// Forgets what was appended since, but for branches.
    pub(crate) fn forget(&mut self, mark: CodeMark) {
        self.bytes.truncate(mark.bytes);
        self.holes.truncate(mark.holes);
        self.alike.truncate(mark.alike);
        self.clobbers = mark.clobbers;
    }

    /// Appends a branch, which `scratch` may be clobbered for.
    #[inline]
    pub fn branch(&mut self, kind: BranchKind, dest: Dest, scratch: Option<DwarfReg>) {
        self.branch_with(kind, dest, scratch, 0);
    }

    /// The same, with what the architecture notes for itself.
    #[inline]
    pub(crate) fn branch_with(
        &mut self,
        kind: BranchKind,
        dest: Dest,
        scratch: Option<DwarfReg>,
        detail: u16,
    ) {
        self.branches.push(Branch {
            at: self.at(),
            kind,
            dest,
            scratch,
            form: BranchForm::Short,
            detail,
            op: self.op,
        });
    }
}

/// One architecture.
pub trait Backend: Sync {
    /// The unit of instruction lengths and addresses, in bytes: a power of two.
    fn unit(&self) -> u32;

    /// Appends `op`. Registers in `free` may be clobbered; nothing else that `op` does not name is.
    ///
    /// # Errors
    /// The architecture cannot do that, or not with so few free registers.
    fn emit(&self, op: &Op<'_>, free: RegSet, code: &mut EncodedCode) -> Result<(), EncodingRefusal>;

    /// The length of `branch` in `form`.
    fn branch_len(&self, branch: &Branch, form: BranchForm) -> u32;

    /// Whether `branch` in `form`, placed at `from`, reaches `to`.
    fn reaches(&self, branch: &Branch, form: BranchForm, from: u64, to: u64) -> bool;

    /// Appends `branch` in its form, placed at `from`; it reaches `to`.
    ///
    /// # Panics
    /// It does not: see [`reaches`](Self::reaches).
    fn put_branch(&self, branch: &Branch, from: u64, to: u64, out: &mut Vec<u8>);

    /// The distance of `branch` in its form, if that is a [hole](crate::hole): if it does not go
    /// through a register.
    fn distance(&self, branch: &Branch) -> Option<Distance>;

    /// What surrounds an address to which a thread may return although its call is gone: the
    /// bytes before the address, and those from it on. Together they do nothing for who comes from
    /// above.
    fn around_return_offset(&self) -> (Vec<u8>, Vec<u8>) {
        (Vec::new(), Vec::new())
    }

    /// The place of the patchable jump of the site at `addr`: as early as possible.
    ///
    /// # Errors
    /// The site is too short.
    fn plan_patchable_jump(&self, addr: CodeAddr, len: Len) -> Result<PatchableJump, NoPatchableJump>;

    /// The jump at the start of the site at `addr` that may lie in any words, as a trap stands in its
    /// place while it is written; `None` where the site is too short, or jumps always lie in one
    /// word.
    fn plan_behind_trap(&self, _addr: CodeAddr, _len: Len) -> Option<PatchableJump> {
        None
    }

    /// How far jumps reach, either way, in bytes: those of patchable jumps, and others where no
    /// register is free.
    fn reach(&self) -> u64;

    /// The patchable jump that goes on to the tail.
    fn nop(&self, patchable_jump: PatchableJump) -> JumpBytes;

    /// The patchable jump that jumps to `to`, if it reaches.
    fn jump(&self, patchable_jump: PatchableJump, to: CodeAddr) -> Option<JumpBytes>;

    /// A length that the relocated instructions and the jump behind them do not exceed.
    fn relocated_bound(&self, addr: CodeAddr, bytes: &[u8]) -> u64;

    /// The instructions of `bytes`, which were at `addr`, as they are executed at `at`, and a jump
    /// to what followed them.
    ///
    /// # Errors
    /// [`Error::Relocation`](crate::Error::Relocation): one of them means something else there.
    fn relocate(&self, at: CodeAddr, addr: CodeAddr, bytes: &[u8]) -> crate::Result<Vec<u8>>;

    /// The same, to be copied for other places. By default, no copy is.
    ///
    /// # Errors
    /// As [`relocate`](Self::relocate).
    fn relocate_for_many(&self, at: CodeAddr, addr: CodeAddr, bytes: &[u8]) -> crate::Result<Relocated> {
        Ok(Relocated::fixed(self.relocate(at, addr, bytes)?))
    }

    /// How these, if they are whole instructions, are relocated to an address within reach of all that
    /// they refer to. `None` where that is not known.
    fn moved(&self, _bytes: &[u8]) -> Option<Moved> {
        None
    }
}

/// What is known of instructions that are executed at another address than where they were. Nops at their end
/// are not counted: nobody has to execute them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// How many bytes they take there.
    pub len: usize,
    /// Whether they are the same at every address, so that relocating copies them.
    pub same: bool,
}

impl Base {
    /// The register that the base is in, or is found through.
    pub fn reg(self) -> Option<DwarfReg> {
        match self {
            Self::Reg(reg) | Self::Slot { reg, .. } => Some(reg),
            Self::Absolute(_) => None,
        }
    }
}
