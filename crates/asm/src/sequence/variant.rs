//! A sequence with other values and targets than one that is like it.
//!
//! Problem: the engine remembers what is installed in each site, and copying or freeing operations
//! is a good part of what a patch costs whose code is filled into a template. Approach: sites whose
//! sequences share the words of their [`Outline`] share the operations of one of them; of its own
//! each has only its values and targets, which need no allocation while they are few. The sequence
//! is made of these when it is asked for.

use smallvec::SmallVec;

use super::builder::{Operation, Sequence};
use super::operand::{Operand, Source, Target};
use super::outline::{Outline, Values, assign};
use crate::op::Bits;

/// A sequence, said by one like it.
#[derive(Clone, Debug)]
pub struct Variant {
    like: Sequence,
    values: Values,
    targets: SmallVec<[Target; 2]>,
}

impl Variant {
    /// The sequence whose outline that is; the words of `like` are the same.
    #[inline]
    #[must_use]
    pub fn of(like: &Sequence, outline: &Outline) -> Self {
        Self {
            like: like.clone(),
            values: SmallVec::from_slice(&outline.values),
            targets: SmallVec::from_slice(&outline.targets),
        }
    }

    /// Becomes [that one](Self::of), in its room.
    #[inline]
    pub fn become_like(&mut self, like: &Sequence, outline: &Outline) {
        if !self.like.is_same(like) {
            self.like = like.clone();
        }
        // protection: what-is-installed-is-its-own-sequence
        assign(&mut self.values, &outline.values);
        // protection: what-is-installed-has-its-own-targets
        assign(&mut self.targets, &outline.targets);
    }

    /// The sequence itself.
    #[must_use]
    #[inline]
    pub fn sequence(&self) -> Sequence {
        let like = self.like.outline();
        match (&self.values, &self.targets) == (&like.values, &like.targets) {
            true => self.like.clone(),
            false => self.like.with(&self.values, &self.targets),
        }
    }
}

impl From<&Sequence> for Variant {
    #[inline]
    fn from(sequence: &Sequence) -> Self {
        Self::of(sequence, sequence.outline())
    }
}

impl Sequence {
    /// The same sequence with other values and targets, in the order of its outline's. Where there
    /// are fewer, the rest keep theirs.
    #[must_use]
    pub fn with(&self, values: &[u64], targets: &[Target]) -> Self {
        let mut others = Substitutes {
            values: values.iter(),
            before: &self.outline().targets,
            targets,
        };
        let mut operations = self.operations().to_vec();
        operations.iter_mut().for_each(|operation| others.put(operation));
        self.with_operations(operations)
    }
}

/// What is put into operations in turn. Where it runs out, they keep what they have.
struct Substitutes<'a> {
    values: core::slice::Iter<'a, u64>,
    before: &'a [Target],
    targets: &'a [Target],
}

impl Substitutes<'_> {
    fn put(&mut self, operation: &mut Operation) {
        match operation {
            Operation::Branch { lhs, rhs, target, .. } => {
                self.target(target);
                self.source(lhs);
                self.source(rhs);
            }
            Operation::Move { dst, src } | Operation::Add { dst, src } => {
                self.operand(dst);
                self.source(src);
            }
            Operation::Store { to, src } | Operation::AddToMem { to, src, .. } => {
                self.disp(&mut to.disp);
                self.source(src);
            }
            Operation::Bits { dst, what } => {
                if let Bits::And(mask) = what {
                    self.value(mask);
                }
                self.operand(dst);
            }
            Operation::Jump(target) => self.target(target),
            Operation::Call { addr, .. } => {
                let mut target = Target::to(*addr);
                self.target(&mut target);
                if let Target::Addr(to) = target {
                    *addr = to.get();
                }
            }
            Operation::Return
            | Operation::Trap
            | Operation::Raw(_)
            | Operation::Vouched { .. }
            | Operation::Bind(_) => {}
        }
    }

    fn target(&self, target: &mut Target) {
        let number = self.before.iter().position(|before| before == target);
        if let Some(other) = number.and_then(|number| self.targets.get(number)) {
            *target = *other;
        }
    }

    fn value(&mut self, value: &mut u64) {
        *value = self.values.next().copied().unwrap_or(*value);
    }

    fn disp(&mut self, disp: &mut i32) {
        *disp = self.values.next().map_or(*disp, |value| *value as i32);
    }

    fn operand(&mut self, operand: &mut Operand) {
        if let Operand::Imm(value) = operand {
            self.value(value);
        }
    }

    fn source(&mut self, source: &mut Source) {
        match source {
            Source::Operand(operand) => self.operand(operand),
            Source::Part(part) => self.operand(&mut part.operand),
            Source::Mem(mem) => self.disp(&mut mem.disp),
        }
    }
}

#[cfg(test)]
mod tests {
    use llvm_stackmaps::addr::CodeAddr;
    use patchpoint_isa::OnReturn;

    use super::super::operand::{Field, arg, result};
    use super::*;

    /// Every operation that has values or targets.
    fn all(n: u64) -> Sequence {
        let (disp, addr) = (n as i32, CodeAddr::new(0x1_0000 + n));
        Sequence::new()
            .guard_eq(u32::at(arg(0), 4 + disp), 0x1234 + n, Target::Miss)
            .guard_ne(u32::of(arg(0)), 0x2234 + n, Target::to(addr))
            .load(result(), u64::at(arg(0), 8 + disp))
            .mov(result(), 0x3234 + n)
            .and(result(), 0x4234 + n)
            .add(result(), 0x55u64 + n)
            .shift_left(result(), 3)
            .store(u16::at(arg(0), 12 + disp), 0x65u64 + n)
            .atomic_add(u64::at(arg(0), 16 + disp), 0x75u64 + n)
            .call_to(CodeAddr::new(0x2_0000 + n), OnReturn::PreservesAll)
            .jump(Target::to(addr))
    }

    #[test]
    fn a_variant_is_the_sequence_that_it_was_made_of() {
        let (one, other) = (all(0), all(1));
        assert_eq!(one.outline().words, other.outline().words);
        assert_eq!(Variant::of(&one, other.outline()).sequence(), other);
        assert_eq!(Variant::of(&other, one.outline()).sequence(), one);
        assert_eq!(Variant::from(&one).sequence(), one);
    }

    #[test]
    fn one_whose_outline_lacks_something_is_itself() {
        let counter = CodeAddr::new(0x5000);
        let sequence = all(0).count(counter).raw(&[0x90]).in_place_only();
        assert_eq!(Variant::from(&sequence).sequence(), sequence);
    }

    #[test]
    fn a_variant_is_as_in_place_as_the_one_that_it_is_like() {
        let (one, other) = (all(0).in_place_only(), all(1).in_place_only());
        assert_eq!(Variant::of(&one, other.outline()).sequence(), other);
    }
}
