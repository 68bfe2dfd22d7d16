//! Condition field 0, kept in the link register meanwhile.
//!
//! A field that may be live at a site can be written all the same if it is put back before anyone
//! can look:
//!
//! ```text
//! mfocrf rX, 128
//! mtlr rX
//! ...              does not write the link register, and does not leave
//! mflr rY
//! mtocrf 128, rY
//! ```
//!
//! The instructions are one unit: control enters by the first and leaves behind the last. Branches
//! inside go back.

use super::{LR, field};
use crate::facts::{Dest, Facts, Flow};

/// `mfocrf r0, 128`, `mtlr r0`.
const SAVE: [u32; 2] = [0x7c18_0026, 0x7c08_03a6];
/// `mflr r0`, `mtocrf 128, r0`.
const RESTORE: [u32; 2] = [0x7c08_02a6, 0x7c18_0120];

/// Finds the units among instructions, and takes from them that they write field 0. `word` gives
/// the instruction at an address.
pub(super) fn mark(code: &mut [Facts], word: impl Fn(u64) -> Option<u32>) {
    let mut at = 0;
    while let Some(rest) = code.get_mut(at..).filter(|rest| !rest.is_empty()) {
        at += match unit_len(rest, &word) {
            Some(len) => {
                keep(
                    rest.get_mut(..len)
                        .expect("a unit is of instructions that are there"),
                );
                len
            }
            None => 1,
        };
    }
}

fn keep(unit: &mut [Facts]) {
    let start = unit.first().map(|first| first.addr);
    for (index, facts) in unit.iter_mut().enumerate() {
        facts.writes = facts.writes.without(field(0));
        facts.unit = start.filter(|_| index > 0);
    }
}

/// The number of instructions of the unit that starts with the first.
fn unit_len(code: &[Facts], word: &impl Fn(u64) -> Option<u32>) -> Option<usize> {
    // A pair of instructions that name the same register.
    let is = |pair: &[Facts], expected: [u32; 2]| {
        let [first, second] = pair else { return false };
        let (Some(first), Some(second)) = (word(first.addr), word(second.addr)) else {
            return false;
        };
        let register = first & 31 << 21;
        first == expected[0] | register && second == expected[1] | register
    };
    let (save, inside) = code.split_at_checked(2)?;
    let first = inside.first()?.addr;
    if !is(save, SAVE) {
        return None;
    }
    let len = inside.windows(2).position(|pair| is(pair, RESTORE))?;
    let stays = inside.iter().take(len).all(|facts| is_inner(facts, first));
    stays.then_some(save.len() + len + 2)
}

fn is_inner(facts: &Facts, first: u64) -> bool {
    let stays = match facts.flow {
        Flow::Next => true,
        Flow::Branch(Dest::Address(to)) => (first..=facts.addr).contains(&to),
        _ => false,
    };
    stays && !facts.writes.contains(LR)
}
