//! Where everything goes: the forms of the branches, the nops, the distances.
//!
//! Branches start in their shortest form, or the shortest that is of use: see `start_forms`. As long as one
//! does not reach its target it grows to the next. Growing only moves targets further away or, where nops fill the room before a final call,
//! closer, and forms never shrink again: so this ends, at the latest when all branches have their
//! longest form.

use alloc::vec::Vec;

use llvm_stackmaps::addr::{CodeAddr, Len};
use patchpoint_isa::{Arch, nops};
use smallvec::SmallVec;

use crate::backend::{Backend, Branch, BranchForm, Distance, EncodedCode, Origin};
use crate::backend_of;
use crate::hole::{DistanceReach, Holds, Hole, Part};
use crate::op::{Dest, Label};

/// A position in the code: bytes, and branches, before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CodePosition {
    pub(super) bytes: u32,
    pub(super) branches: u32,
}

impl CodePosition {
    /// The current end of the code.
    pub(super) fn here(code: &EncodedCode) -> Self {
        Self {
            bytes: code.at(),
            branches: code.branches.len() as u32,
        }
    }
}

/// Nops inside the code, before a final call, so that its return address is at `until`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fill {
    pub(super) at: CodePosition,
    pub(super) until: u32,
}

/// Why the code cannot be laid out.
#[derive(Clone, Copy, Debug)]
pub(super) enum Unreachable {
    /// An instruction of that operation does not reach.
    Target { op: u32, from: CodeAddr, target: CodeAddr },
    /// An operation branches to a label that is not bound.
    Label { op: u32, label: Label },
}

pub(super) struct Layout<'l> {
    pub(super) arch: Arch,
    pub(super) backend: &'static dyn Backend,
    pub(super) code: &'l mut EncodedCode,
    pub(super) labels: &'l [(Label, CodePosition)],
    /// The address of the end of the site.
    pub(super) end: CodeAddr,
    pub(super) fill: Option<Fill>,
    /// Whether it is a stub, whose distance from everything else is another each time: branches that
    /// leave it are never so short that they are no [hole](crate::hole).
    pub(super) is_stub: bool,
    /// The bytes of the branches before each branch and, last, of all of them.
    pub(super) before: SmallVec<[u32; 8]>,
}

impl Layout<'_> {
    fn start(&self) -> u64 {
        match self.code.origin {
            Origin::At(addr) | Origin::Near(addr) => addr.get(),
        }
    }

    /// The length without nops, in the present forms.
    pub(super) fn len(&self) -> u32 {
        self.code
            .at()
            .saturating_add(self.branches_len(self.code.branches.len()))
    }

    #[inline]
    fn branches_len(&self, count: usize) -> u32 {
        let before = self.before.get(count);
        *before.expect("`measure` has added up every branch")
    }

    /// Adds up the branches in their present forms.
    fn measure(&mut self) {
        self.before.clear();
        let mut sum = 0u32;
        for branch in &self.code.branches {
            self.before.push(sum);
            sum = sum.saturating_add(self.backend.branch_len(branch, branch.form));
        }
        self.before.push(sum);
    }

    fn nops(&self) -> u32 {
        self.fill.map_or(0, |fill| fill.until.saturating_sub(self.len()))
    }

    /// The offset of a position from the start; behind the nops if they are there.
    #[inline]
    pub(super) fn offset(&self, mark: CodePosition) -> u32 {
        let nops = match self.fill {
            Some(fill) if mark >= fill.at => self.nops(),
            _ => 0,
        };
        let before = self.branches_len(mark.branches as usize);
        mark.bytes.saturating_add(before).saturating_add(nops)
    }

    /// The offset of the end of what is before a position: before the nops if they are there.
    #[inline]
    pub(super) fn end_offset(&self, mark: CodePosition) -> u32 {
        let offset = self.offset(mark);
        match self.fill {
            Some(fill) if mark == fill.at => offset.saturating_sub(self.nops()),
            _ => offset,
        }
    }

    /// The offset of the instruction of the branch at `index`.
    fn branch_offset(&self, index: usize, branch: &Branch) -> u32 {
        self.offset(CodePosition {
            bytes: branch.at,
            branches: index as u32,
        })
    }

    #[inline]
    fn target(&self, branch: &Branch) -> Result<u64, Unreachable> {
        match branch.dest {
            Dest::Addr(addr) => Ok(addr.get()),
            Dest::End => Ok(self.end.get()),
            Dest::Label(label) => {
                let bound = self.labels.iter().find(|(bound, _)| *bound == label);
                let (_, mark) = bound.ok_or(Unreachable::Label { op: branch.op, label })?;
                Ok(self.start().wrapping_add(u64::from(self.offset(*mark))))
            }
        }
    }

    /// Chooses the forms. Where the code's place is not known yet, those that reach from anywhere
    /// near.
    pub(super) fn choose_forms(&mut self) -> Result<(), Unreachable> {
        self.start_forms();
        let mut changed = true;
        while changed {
            changed = false;
            self.measure();
            for index in 0..self.code.branches.len() {
                changed |= self.grow(index)?;
            }
        }
        let far = self
            .code
            .branches
            .iter()
            .filter(|branch| branch.form == BranchForm::Far);
        let clobbers = far.filter_map(|branch| branch.scratch).collect();
        self.code.clobbers = self.code.clobbers.union(clobbers);
        Ok(())
    }

    /// Grows the branch at `index` until it reaches; whether it grew.
    fn grow(&mut self, index: usize) -> Result<bool, Unreachable> {
        let branch = self.code.branches.get(index);
        let branch = branch.expect("`choose_forms` goes through the branches that there are");
        if matches!(self.code.origin, Origin::Near(_)) && leaves(branch) {
            // It starts with the form that reaches from anywhere near.
            return Ok(false);
        }
        let mut form = branch.form;
        let from = self
            .start()
            .wrapping_add(u64::from(self.branch_offset(index, branch)));
        let target = self.target(branch)?;
        while !self.backend.reaches(branch, form, from, target) {
            form = match form {
                BranchForm::Short => BranchForm::Near,
                BranchForm::Near => BranchForm::Far,
                BranchForm::Far => {
                    let (from, target) = (CodeAddr::new(from), CodeAddr::new(target));
                    return Err(Unreachable::Target {
                        op: branch.op,
                        from,
                        target,
                    });
                }
            };
        }
        let grows = form != branch.form;
        if grows {
            let grown = self.code.branches.get_mut(index);
            grown.expect("the branch that was read").form = form;
        }
        Ok(grows)
    }

    /// Gives each branch its shortest form: in a stub one that has a hole, and where the place is not known
    /// yet, one that reaches from anywhere near.
    fn start_forms(&mut self) {
        let (origin, is_stub, backend) = (self.code.origin, self.is_stub, self.backend);
        for branch in &mut self.code.branches {
            branch.form = match (origin, branch.dest) {
                (Origin::Near(_), Dest::Addr(_)) if branch.scratch.is_some() => BranchForm::Far,
                (Origin::Near(_), Dest::End | Dest::Addr(_)) => BranchForm::Near,
                (_, _) => BranchForm::Short,
            };
            if is_stub && leaves(branch) && backend.distance(branch).is_none() {
                // A hole is worth a longer form, where that has one.
                branch.form = BranchForm::Near;
                if backend.distance(branch).is_none() {
                    branch.form = BranchForm::Short;
                }
            }
        }
    }

    /// Writes the code with its branches.
    pub(super) fn write(&mut self, out: &mut Vec<u8>) -> Result<(), Unreachable> {
        self.resolve_pc_relative()?;
        let mut written = 0;
        let mut filled = false;
        for (index, branch) in self.code.branches.iter().enumerate() {
            self.fill_before(
                CodePosition {
                    bytes: branch.at,
                    branches: index as u32,
                },
                &mut filled,
                &mut written,
                out,
            );
            self.copy(written..branch.at, out);
            written = branch.at;
            let from = self.start().wrapping_add(out.len() as u64);
            self.backend.put_branch(branch, from, self.target(branch)?, out);
        }
        let end = CodePosition::here(self.code);
        self.fill_before(end, &mut filled, &mut written, out);
        self.copy(written..self.code.at(), out);
        Ok(())
    }

    /// Where the holes of the written code are. `holds` says what the distance to a destination is to
    /// the sequence.
    pub(super) fn holes(&mut self, holds: impl Fn(Dest) -> Option<Holds>) -> Vec<Hole> {
        let mut holes = core::mem::take(&mut self.code.holes);
        for hole in &mut holes {
            hole.at = self.offset(self.mark_at(hole.at));
        }
        let grown = self.grown();
        for (index, branch) in self.code.branches.iter().enumerate() {
            if let (Some(distance), Some(holds)) = (self.backend.distance(branch), holds(branch.dest)) {
                let start = self.branch_offset(index, branch);
                holes.push(Hole {
                    at: start.saturating_add(distance.at),
                    field: distance.field,
                    holds,
                    part: Part::WHOLE,
                    goes_on: false,
                    reach: DistanceReach {
                        from: start.saturating_add(distance.from),
                        unit: distance.unit,
                        ..self.taken(&distance, grown)
                    },
                });
            }
        }
        holes
    }

    /// The distances for which a branch is taken. A stub is at another distance each time: its branches
    /// are right wherever they reach, also where a shorter one would.
    fn taken(&self, distance: &Distance, grown: i64) -> DistanceReach {
        let (within, shorter) = match (self.is_stub, distance.shorter) {
            (true, _) => (distance.within, None),
            (false, shorter) => ((distance.within.0 + grown, distance.within.1 - grown), shorter),
        };
        DistanceReach {
            within,
            shorter: match shorter {
                Some((least, greatest)) => (least - grown, greatest + grown),
                None => DistanceReach::NO_SHORTER,
            },
            ..DistanceReach::NONE
        }
    }

    /// How many bytes the branches are longer than in their shortest forms. By no more, one was
    /// at another place when its form was chosen: a form is taken for sure where it reaches with so many
    /// bytes to spare, and no shorter one would with so many more.
    fn grown(&self) -> i64 {
        let shortest = |branch: &Branch| self.backend.branch_len(branch, BranchForm::Short);
        let by = |branch| {
            self.backend
                .branch_len(branch, branch.form)
                .saturating_sub(shortest(branch))
        };
        self.code
            .branches
            .iter()
            .map(|branch| i64::from(by(branch)))
            .sum()
    }

    /// The position of a byte of the instructions.
    fn mark_at(&self, at: u32) -> CodePosition {
        let branches = self.code.branches.partition_point(|branch| branch.at <= at);
        CodePosition {
            bytes: at,
            branches: branches as u32,
        }
    }

    /// Writes the nops before a final call once their place has come.
    fn fill_before(&self, next: CodePosition, filled: &mut bool, written: &mut u32, out: &mut Vec<u8>) {
        if let Some(fill) = self.fill.filter(|fill| !*filled && next >= fill.at) {
            self.copy(*written..fill.at.bytes, out);
            *written = fill.at.bytes;
            nops::put(self.arch, self.nops(), out);
            *filled = true;
        }
    }

    fn copy(&self, range: core::ops::Range<u32>, out: &mut Vec<u8>) {
        let bytes = self.code.bytes.get(range.start as usize..range.end as usize);
        out.extend_from_slice(bytes.expect("branches and marks are in the code, in its order"));
    }

    fn resolve_pc_relative(&mut self) -> Result<(), Unreachable> {
        let fixups = core::mem::take(&mut self.code.pc_relative);
        for fixup in &fixups {
            let offset = self.offset(self.mark_at(fixup.at));
            let at = self.start().wrapping_add(u64::from(offset));
            let distance = fixup
                .target
                .wrapping_sub(at)
                .wrapping_sub(u64::from(fixup.to_end)) as i64;
            let Ok(distance) = i32::try_from(distance) else {
                let (from, target) = (CodeAddr::new(at), CodeAddr::new(fixup.target));
                return Err(Unreachable::Target {
                    op: fixup.op,
                    from,
                    target,
                });
            };
            let at = fixup.at as usize;
            let field = self.code.bytes.get_mut(at..at + 4);
            let field = field.expect("a relative operand is noted with its four bytes in the code");
            field.copy_from_slice(&distance.to_le_bytes());
        }
        Ok(())
    }
}

/// Whether a branch leaves the code, or may.
fn leaves(branch: &Branch) -> bool {
    !matches!(branch.dest, Dest::Label(_))
}

/// Appends nops up to `until`, so that one starts at each return offset, or what else has to be
/// there. Where `left`, the code that is there never gets to its end, and needs nothing that goes
/// it over a return offset.
pub(super) fn pad(arch: Arch, return_offsets: &[u32], until: Len, left: bool, out: &mut Vec<u8>) {
    let from = left.then_some(out.len());
    let mut pad_to = |offset: u32, behind: [&[u8]; 2]| {
        let len = u64::from(offset.min(until.get())).saturating_sub(out.len() as u64);
        nops::put(arch, len as u32, out);
        out.extend(behind.iter().copied().flatten());
    };
    for return_offset in return_offsets {
        let (mut before, behind) = backend_of(arch).around_return_offset();
        if from == usize::try_from(*return_offset).ok() {
            before.clear();
        }
        pad_to(
            return_offset.saturating_sub(before.len() as u32),
            [&before, &behind],
        );
    }
    pad_to(until.get(), [&[], &[]]);
}
