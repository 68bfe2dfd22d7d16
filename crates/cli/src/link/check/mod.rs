//! Checks of linked code, in the language of LLVM's linker tests: where a file says `jitlink-check:
//! A = B`, both sides are computed from the linked bytes and addresses.
//!
//! Problem: what a relocation has done shows in an operand of an instruction, a word of data or an
//! entry of the global offset table, and is to be said next to the assembly that it is about.
//! Approach: [`lines`] finds the checks of a file, [`parse`] makes trees of them, [`eval`] computes
//! these by what a [`Target`] knows. Nothing here reads a file or a graph.
//!
//! The language is that of `llvm/lib/ExecutionEngine/RuntimeDyld/RuntimeDyldChecker.cpp` in LLVM 19. Its operators have no precedence
//! and group from the left; the address of a load reaches as far as it can. More than there: spaces behind a number, an offset in
//! `next_pc`, and a section before the symbol in `stub_addr`. All addresses are those at which the code will run, inside a
//! load as well: only there could LLVM's be others.
//!
//! Invariant: a check of any text is a value or a [`CheckError`] with its place; trees are at most
//! [`parse::DEEPEST`] deep. Cost: linear in the text.

mod eval;
mod lines;
mod operands;
mod parse;
#[cfg(test)]
mod tests;
mod wrong;

pub(super) use eval::{Symbolic, Target};
pub(super) use lines::Check;
pub(super) use wrong::{CheckError, Unknown};

/// The names of checks, before their colon, that are looked for if nothing else is said.
pub(super) const NAMES: [&str; 2] = ["jitlink-check", "rtdyld-check"];

/// What came of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Both sides have this value.
    Holds(u64),
    /// The sides' values.
    Differs(u64, u64),
    /// It has no value.
    Wrong(CheckError),
}

impl Check {
    /// The checks of a file's text under these names, in their order.
    pub(super) fn all(text: &str, names: &[&str]) -> Vec<Self> {
        lines::find(text, names)
    }

    /// Computes both sides.
    pub(super) fn evaluate(&self, target: &impl Target) -> Outcome {
        let sides = parse::equation(self.text())
            .and_then(|(left, right)| Ok((eval::value(&left, target)?, eval::value(&right, target)?)));
        match sides {
            Ok((left, right)) if left == right => Outcome::Holds(left),
            Ok((left, right)) => Outcome::Differs(left, right),
            Err(wrong) => Outcome::Wrong(wrong),
        }
    }
}
