//! The open fields of code whose instructions are words, on every architecture but x86-64.
//!
//! An architecture says of one instruction which of its bits are an immediate, a displacement or a
//! distance, and how the instruction reads them. What is the same on all of them is here: which
//! instructions are closed whatever they hold, and what the fields of a constant are worth that
//! several instructions make. The decoder knows the steps of a constant, as the checker follows
//! them: a shift moves what was there before it.

use llvm_stackmaps::addr::DwarfReg;
use patchpoint_isa::RegSet;
use smallvec::SmallVec;

use super::chunk::Chunk;
use super::facts::{Constant, Decode, DecodedCode, Dest, Facts, Flow, StackStore, Step};
use super::field::OpenField;

/// The fields of an instruction, which starts at 0.
pub(super) type Opened = SmallVec<[OpenField; 2]>;

/// Gives the fields of an instruction, given its bytes: of a branch its distance. `None` if what it
/// does depends on where it is.
pub(super) type Open = fn(&Facts, &[u8]) -> Option<Opened>;

/// The fields by which registers hold constants.
#[derive(Default)]
struct Chains(SmallVec<[(DwarfReg, usize); 4]>);

impl Chains {
    fn clear(&mut self, written: RegSet) {
        self.0.retain(|(reg, _)| !written.contains(*reg));
    }

    fn extend(&mut self, reg: DwarfReg, fields: core::ops::Range<usize>) {
        self.0.extend(fields.map(|field| (reg, field)));
    }

    fn of(&self, reg: DwarfReg) -> impl Iterator<Item = usize> {
        let of_reg = self.0.iter().filter(move |(holder, _)| *holder == reg);
        of_reg.map(|(_, field)| *field)
    }
}

/// The fields of code that may vary in a [template](super::template), in their order; `None` for
/// code that can have none.
pub(super) fn fields(
    code: Chunk<'_>,
    is_target: &dyn Fn(u64) -> bool,
    decode: Decode,
    open: Open,
) -> Option<SmallVec<[OpenField; 4]>> {
    let start = code.addr.get();
    let mut all = DecodedCode::new();
    decode(start, code.bytes, &mut all).ok()?;
    let mut fields = SmallVec::<[OpenField; 4]>::new();
    let mut chains = Chains::default();
    for facts in all {
        let offset = usize::try_from(facts.addr.wrapping_sub(start)).ok()?;
        let bytes = code.bytes.get(offset..)?.get(..facts.len.into())?;
        let opened = open(&facts, bytes)?;
        let first = fields.len();
        let mut push = |field: &OpenField| {
            fields.push(OpenField {
                at: field.at + offset,
                counts_from: field.counts_from.map(|from| from + offset),
                ..*field
            });
        };
        // protection: no-template-where-the-stack-is-written-at-a-constant
        if matches!(facts.store, StackStore::Indexed { .. } | StackStore::Anywhere) {
            return None;
        }
        match facts.flow {
            Flow::Next => {}
            Flow::Return { .. } | Flow::Trap => continue,
            Flow::Jump(Dest::Address(to))
            | Flow::Branch(Dest::Address(to))
            | Flow::Call(Dest::Address(to)) => {
                if is_target(to) {
                    push(opened.first().filter(|field| field.counts_from.is_some())?);
                }
                chains.clear(facts.writes);
                continue;
            }
            // protection: no-template-for-branches-through-registers
            Flow::Jump(_) | Flow::Branch(_) | Flow::Call(_) => return None,
        }
        let is_unit = facts.unit.is_some() || facts.returns_at.is_some();
        if !facts.is_closed() && !is_unit {
            opened.iter().for_each(push);
        }
        follow(&facts, first, &mut fields, &mut chains)?;
    }
    Some(fields)
}

/// Follows constants over one instruction, whose fields are those from `first` on. `None` if they
/// are shifted out of their registers.
fn follow(
    facts: &Facts,
    first: usize,
    fields: &mut SmallVec<[OpenField; 4]>,
    chains: &mut Chains,
) -> Option<()> {
    let new = first..fields.len();
    match facts.constant {
        Some(Constant::Of {
            to,
            from,
            step: Step::Rotate { left, keep },
        }) if to == from && left < 64 && keep == u64::MAX << left => {
            for at in chains.of(to) {
                let field = fields.get_mut(at)?;
                field.left += left;
                if field.left >= 64 {
                    return None;
                }
            }
        }
        Some(Constant::Of { to, from, .. }) if to == from => chains.extend(to, new),
        Some(Constant::Is(to, _) | Constant::Of { to, .. }) => {
            chains.clear(facts.writes.with(to));
            chains.extend(to, new);
        }
        None => chains.clear(facts.writes),
    }
    Some(())
}
