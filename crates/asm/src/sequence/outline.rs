//! A sequence without its values: what two sequences share that differ in constants only.
//!
//! Problem: a runtime patches the same inline cache again and again, each time with another class
//! and another field. Approach: an [`Outline`] is the operations as words, in which each constant
//! and each displacement is only a class, and beside them the values, and the targets in the order
//! of their first use. What assembling makes of two sequences with the same words, at sites that
//! differ in their address only, differs in its [holes](crate::hole) only, on x86-64; on the others if
//! the values are [alike](crate::hole::Alike) besides. Whoever fills them checks the result
//! nevertheless.
//!
//! Invariants: the words, the values and the targets together say all of the sequence. A class is
//! such that the encodings of its values are alike in every immediate of x86-64: one for each width
//! in which a value is a signed or an unsigned number, and of their own 0, 1 and -1, for which there
//! are shorter instructions. What all architectures build on: extended from a width, the values of
//! a class are all as far from what they were.

use smallvec::{SmallVec, smallvec};

use patchpoint_isa::OnReturn;

use super::builder::Operation;
use super::operand::{Operand, Source, Target};
use crate::op::Bits;
use crate::op::{Extension, Width};

/// Words and values of a sequence. There is room for those of an inline cache with a few guards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline {
    /// What has to be equal. The first says whether it refuses to be put into a stub.
    pub(super) words: SmallVec<[u64; 16]>,
    /// The constants and displacements, in the order in which the operations name them,
    /// sign-extended.
    pub(super) values: Values,
    /// The targets outside of the sequence, each once.
    pub(super) targets: SmallVec<[Target; 2]>,
    /// Whether the code depends on more than is here: bytes of its own, fixed addresses of data.
    lacks: bool,
}

/// Values of a sequence, in their order.
pub(super) type Values = SmallVec<[u64; 6]>;

impl Default for Outline {
    fn default() -> Self {
        Self {
            words: smallvec![0],
            values: SmallVec::new(),
            targets: SmallVec::new(),
            lacks: false,
        }
    }
}

/// The class of a value, of which there is one encoding. 0 to 2 have one value each.
#[inline]
#[must_use]
pub fn class(value: u64) -> u64 {
    const MINUS_ONE: u64 = u64::MAX;
    const LOW_MINUS_ONE: u64 = u32::MAX as u64;
    const SHORT_MINUS_ONE: u64 = u16::MAX as u64;
    match value {
        0 => 0,
        1 => 1,
        MINUS_ONE => 2,
        2..=0x7f => 3,
        0x80..=0xff => 4,
        0x100..=0x7fff => 5,
        0x8000..=0xff7f => 6,
        // Of 16 bits they are small and negative.
        0xff80..SHORT_MINUS_ONE => 7,
        SHORT_MINUS_ONE => 8,
        0x1_0000..=0x7fff_ffff => 9,
        0x8000_0000..=0xffff_ff7f => 10,
        // Of 32 bits they are small and negative.
        0xffff_ff80..LOW_MINUS_ONE => 11,
        LOW_MINUS_ONE => 12,
        _ => match value as i64 {
            -0x80..0 => 13,
            -0x8000..-0x80 => 14,
            -0x8000_0000..-0x8000 => 15,
            i64::MIN..-0x8000_0000 => 16,
            _ => 17,
        },
    }
}

/// Whether a class has one value.
#[inline]
#[must_use]
pub fn is_single(class: u64) -> bool {
    matches!(class, 0..=2 | 8 | 12)
}

impl Outline {
    /// Notes whether the sequence refuses to be put into a stub.
    pub(super) fn in_place_only(&mut self, only: bool) {
        let first = self.words.first_mut();
        *first.expect("an outline begins with this word") = only.into();
    }

    /// The operations, in which a constant is only a class. The first word says whether the
    /// sequence refuses to be put into a stub.
    #[inline]
    #[must_use]
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// The constants and displacements, in the order in which the operations name them,
    /// sign-extended.
    #[inline]
    #[must_use]
    pub fn values(&self) -> &[u64] {
        &self.values
    }

    /// The targets outside of the sequence, each once, in the order of their first use.
    #[inline]
    #[must_use]
    pub fn targets(&self) -> &[Target] {
        &self.targets
    }

    /// Whether it says all of what the code depends on: there are no bytes of its own and no fixed
    /// addresses of data.
    #[inline]
    #[must_use]
    pub fn is_whole(&self) -> bool {
        !self.lacks
    }

    /// Adds the next operation.
    pub(super) fn add(&mut self, operation: &Operation) {
        self.lacks |= self.operation(operation).is_none();
    }

    fn operation(&mut self, operation: &Operation) -> Option<()> {
        match operation {
            Operation::Branch {
                cond,
                lhs,
                rhs,
                target,
            } => {
                let first = 0x10 | (*cond as u64) << 8 | self.target(*target) << 16;
                let words = [first, self.source(lhs)?, self.source(rhs)?];
                self.add_words(words);
            }
            Operation::Move { dst, src } => {
                let words = [0x11, self.operand(*dst, 0), self.source(src)?];
                self.add_words(words);
            }
            Operation::Store { to, src } => {
                let words = [0x12, self.source(&Source::Mem(*to))?, self.source(src)?];
                self.add_words(words);
            }
            Operation::Add { dst, src } => {
                let words = [0x13, self.operand(*dst, 0), self.source(src)?];
                self.add_words(words);
            }
            Operation::Bits { dst, what } => {
                let (kind, by) = match what {
                    Bits::And(mask) => (0, class(*mask)),
                    Bits::Left(by) => (1, u64::from(*by)),
                    Bits::Right(by) => (2, u64::from(*by)),
                    Bits::RightSigned(by) => (3, u64::from(*by)),
                };
                if let Bits::And(mask) = what {
                    self.values.push(*mask);
                }
                let words = [0x14 | kind << 8 | by << 16, self.operand(*dst, 0)];
                self.add_words(words);
            }
            Operation::AddToMem { to, src, atomic } => {
                let first = 0x15 | u64::from(*atomic) << 8;
                let words = [first, self.source(&Source::Mem(*to))?, self.source(src)?];
                self.add_words(words);
            }
            Operation::Jump(target) => {
                let target = self.target(*target);
                self.words.push(0x16 | target << 16);
            }
            Operation::Call { addr, on_return } => {
                let target = self.target(Target::to(*addr));
                let on_return: u64 = match on_return {
                    OnReturn::Never => 0,
                    OnReturn::PreservesAll => 1,
                    OnReturn::FollowsC => 2,
                };
                self.words.push(0x17 | on_return << 8 | target << 16);
            }
            Operation::Return => self.words.push(0x18),
            Operation::Trap => self.words.push(0x19),
            Operation::Bind(label) => self.words.push(0x1a | u64::from(label.get()) << 16),
            Operation::Raw(_) | Operation::Vouched { .. } => return None,
        }
        Some(())
    }

    #[inline(always)] // With `source` and `operand` called, a miss takes 70 instructions more.
    fn add_words<const N: usize>(&mut self, words: [u64; N]) {
        words.into_iter().for_each(|word| self.words.push(word));
    }

    /// A target as a number: its kind, and which of the kind.
    fn target(&mut self, target: Target) -> u64 {
        let (kind, number) = match target {
            Target::End => (0, 0),
            Target::Label(label) => (1, u64::from(label.get())),
            Target::Miss => (2, self.outside(target)),
            Target::Deopt => (3, self.outside(target)),
            Target::Addr(_) => (4, self.outside(target)),
        };
        kind | number << 8
    }

    fn outside(&mut self, target: Target) -> u64 {
        let known = self.targets.iter().position(|known| *known == target);
        let number = known.unwrap_or_else(|| {
            self.targets.push(target);
            self.targets.len() - 1
        });
        number as u64
    }

    /// The word of a source; its values are added.
    #[inline(always)] // As `add_words`.
    fn source(&mut self, source: &Source) -> Option<u64> {
        Some(match *source {
            Source::Operand(operand) => self.operand(operand, 0x1),
            Source::Part(part) => self.operand(part.operand, 0x2 | wide(part.width, part.extension)),
            Source::Mem(mem) => {
                if matches!(mem.base, Operand::Imm(_)) {
                    return None;
                }
                let disp = i64::from(mem.disp) as u64;
                self.values.push(disp);
                self.operand(mem.base, 0x3 | wide(mem.width, mem.extension) | class(disp) << 8)
            }
        })
    }

    /// The word of an operand, which is used as the low bits say; its value is added.
    #[inline(always)] // As `add_words`.
    fn operand(&mut self, operand: Operand, used: u64) -> u64 {
        let (kind, number) = match operand {
            Operand::Arg(n) => (0, n),
            Operand::FloatArg(n) => (1, n),
            Operand::Live(n) => (2, n),
            Operand::Location(n) => (3, n),
            Operand::Result => (4, 0),
            Operand::FloatResult => (5, 0),
            Operand::Temp => (6, 0),
            Operand::Reg(reg) => (7, u32::from(reg.get())),
            Operand::Imm(value) => {
                self.values.push(value);
                (8, class(value) as u32)
            }
        };
        used | kind << 16 | u64::from(number) << 32
    }
}

fn wide(width: Width, extension: Extension) -> u64 {
    (width as u64) << 2 | u64::from(extension == Extension::Sign) << 4
}

#[cfg(test)]
mod tests {
    use llvm_stackmaps::addr::CodeAddr;

    use super::super::builder::Sequence;
    use super::super::operand::{Field, arg, result};
    use super::*;

    fn hit(shape: u64, at: i32) -> Sequence {
        Sequence::new()
            .guard_eq(u32::at(arg(0), 4), shape, Target::Miss)
            .load(result(), u64::at(arg(0), at))
            .and(result(), shape)
    }

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
    fn what_varies_of_each_operation_is_in_the_values_and_targets() {
        let (one, other) = (all(0), all(1));
        let (one, other) = (one.outline(), other.outline());
        assert_eq!(one.words, other.words);
        // Two guards of two values or one, a load, a constant, a mask, an addend, two stores of
        // two.
        assert_eq!((one.values.len(), one.targets.len()), (11, 3));
        let differ = one
            .values
            .iter()
            .zip(&other.values)
            .filter(|(one, other)| one != other);
        assert_eq!(differ.count(), 11);
        let differ = one
            .targets
            .iter()
            .zip(&other.targets)
            .filter(|(one, other)| one != other);
        assert_eq!(differ.count(), 2);
    }

    #[test]
    fn values_of_a_class_share_the_words_and_others_do_not() {
        let words = |shape, at| hit(shape, at).outline().words.clone();
        assert_eq!(words(0x1234, 8), words(0x4321, 16));
        for (shape, at) in [(0x7f, 8), (0x8000, 8), (0x1234, 0), (0x1234, 128), (0x1234, -8)] {
            assert_ne!(words(0x1234, 8), words(shape, at), "{shape:#x} {at}");
        }
    }

    #[test]
    fn what_is_asked_for_is_in_the_words() {
        let base = |target| Sequence::new().guard_eq(u32::at(arg(0), 4), 7u8, target);
        let all = [
            base(Target::Miss),
            base(Target::Deopt),
            base(Target::End),
            Sequence::new().guard_ne(u32::at(arg(0), 4), 7u8, Target::Miss),
            Sequence::new().guard_eq(u64::at(arg(0), 4), 7u8, Target::Miss),
            Sequence::new().guard_eq(i32::at(arg(0), 4), 7u8, Target::Miss),
            Sequence::new().guard_eq(u32::at(arg(1), 4), 7u8, Target::Miss),
            Sequence::new().guard_eq(u32::of(arg(0)), 7u8, Target::Miss),
            base(Target::Miss).in_place_only(),
        ];
        let words: alloc::vec::Vec<_> = all
            .iter()
            .map(|sequence| sequence.outline().words.clone())
            .collect();
        for (number, one) in words.iter().enumerate() {
            assert!(
                !words.iter().skip(number + 1).any(|other| other == one),
                "{number}"
            );
        }
    }
}
