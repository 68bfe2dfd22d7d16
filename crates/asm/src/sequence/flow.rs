//! What has become of the site's registers at each operation.
//!
//! A result register is often that of an argument, so once it is written the argument is gone; what
//! a C call loses is gone too. Reading either would give garbage at some sites only, so it is
//! refused. Operations are followed in order; states meet at labels, and a label to which a later
//! operation jumps back is taken to be reached with all that the sequence ever writes.

use alloc::vec::Vec;

use llvm_stackmaps::addr::DwarfReg;
use patchpoint_isa::RegSet;

use super::builder::{Operation, Sequence};
use super::operand::Target;
use crate::op::Label;

/// Registers at one operation.
#[derive(Clone, Copy, Debug, Default)]
struct RegisterState {
    /// Their values are unknown.
    lost: RegSet,
    /// Their values are not those that they had at the start of the site.
    overwritten: RegSet,
}

impl RegisterState {
    fn union(self, other: Self) -> Self {
        Self {
            lost: self.lost.union(other.lost),
            overwritten: self.overwritten.union(other.overwritten),
        }
    }
}

/// The states of one sequence.
#[derive(Debug)]
pub(super) struct Flow<'s> {
    sequence: &'s Sequence,
    now: RegisterState,
    /// States at branches to labels.
    branches: Vec<(Label, RegisterState)>,
    /// All that the sequence ever loses and overwrites.
    ever: RegisterState,
}

impl<'s> Flow<'s> {
    /// At the start of the site. `ever_lost` and `ever_written` are what any operation loses and
    /// writes.
    pub(super) fn new(sequence: &'s Sequence, ever_lost: RegSet, ever_written: RegSet) -> Self {
        let ever = RegisterState {
            lost: ever_lost,
            overwritten: ever_written.union(ever_lost),
        };
        Self {
            sequence,
            now: RegisterState::default(),
            branches: Vec::new(),
            ever,
        }
    }

    /// Registers whose values are unknown.
    pub(super) fn lost(&self) -> RegSet {
        self.now.lost
    }

    /// Registers that no longer have the values of the site's start.
    pub(super) fn overwritten(&self) -> RegSet {
        self.now.overwritten
    }

    pub(super) fn write(&mut self, reg: DwarfReg) {
        self.now.lost = self.now.lost.without(reg);
        self.now.overwritten = self.now.overwritten.with(reg);
    }

    /// A call loses `lost`, and overwrites that and `results`.
    pub(super) fn call(&mut self, lost: RegSet, results: RegSet) {
        self.now.lost = self.now.lost.union(lost).difference(results);
        self.now.overwritten = self.now.overwritten.union(lost).union(results);
    }

    pub(super) fn branch(&mut self, label: Label) {
        self.branches.push((label, self.now));
    }

    /// Control does not go on: what follows is reached from branches only.
    pub(super) fn leave(&mut self) {
        self.now = RegisterState::default();
    }

    /// Control comes from the operation before, unless it left, and from the branches to the label.
    /// `op` is the index of the operation that binds it.
    pub(super) fn bind(&mut self, label: Label, op: u32) {
        let goes_there = |operation: &Operation| match operation {
            Operation::Branch { target, .. } | Operation::Jump(target) => *target == Target::Label(label),
            _ => false,
        };
        if self
            .sequence
            .operations()
            .iter()
            .skip(op as usize)
            .any(goes_there)
        {
            self.now = self.ever;
        }
        let branches = self.branches.iter().filter(|(to, _)| *to == label);
        self.now = branches.fold(self.now, |state, (_, other)| state.union(*other));
    }
}
