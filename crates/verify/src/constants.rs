//! Which registers are certain to hold which constants.

use llvm_stackmaps::addr::DwarfReg;
use patchpoint_isa::RegSet;

use super::facts::{Constant, Facts};

/// The last registers that became constants. Two are enough: a far branch builds its target at
/// once, and what is stored far from the stack pointer may be loaded from a constant address when
/// the distance is there already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Constants {
    last: Option<(DwarfReg, u64)>,
    before: Option<(DwarfReg, u64)>,
}

impl Constants {
    pub(super) fn get(self, reg: DwarfReg) -> Option<u64> {
        let known = [self.last, self.before].into_iter().flatten();
        known
            .filter(|(known, _)| *known == reg)
            .map(|(_, value)| value)
            .next()
    }

    fn keep(self, keep: impl Fn((DwarfReg, u64)) -> bool) -> Self {
        Self {
            last: self.last.filter(|known| keep(*known)),
            before: self.before.filter(|known| keep(*known)),
        }
    }

    pub(super) fn without(self, lost: RegSet) -> Self {
        self.keep(|(reg, _)| !lost.contains(reg))
    }

    /// What holds on either way.
    pub(super) fn and(self, other: Self) -> Self {
        // protection: checker-constants-hold-on-both-ways
        self.keep(|(reg, value)| other.get(reg) == Some(value))
    }

    /// What holds after an instruction.
    pub(super) fn after(self, facts: &Facts) -> Self {
        // Most code has none.
        if let (None, None, None) = (self.last, self.before, facts.constant) {
            return self;
        }
        // protection: checker-indirect
        let kept = self.without(facts.writes);
        let new = match facts.constant {
            None => None,
            Some(Constant::Is(reg, value)) => Some((reg, value)),
            Some(Constant::Of { to, from, step }) => self.get(from).map(|value| (to, step.apply(value))),
        };
        let Some((reg, value)) = new else {
            return kept;
        };
        let others = kept.keep(|(known, _)| known != reg);
        Self {
            last: Some((reg, value)),
            before: others.last.or(others.before),
        }
    }
}

#[cfg(test)]
mod tests {
    use llvm_stackmaps::addr::{CodeAddr, CodeRange};

    use super::*;

    const A: DwarfReg = DwarfReg::new(1);
    const B: DwarfReg = DwarfReg::new(2);
    const C: DwarfReg = DwarfReg::new(3);

    fn with(known: Constants, reg: DwarfReg, value: u64) -> Constants {
        let range = CodeRange::new(CodeAddr::new(0), 4).unwrap();
        let mut facts = Facts::vouched(range, RegSet::of(&[reg])).next().unwrap();
        facts.constant = Some(Constant::Is(reg, value));
        known.after(&facts)
    }

    #[test]
    fn the_last_two_are_kept_until_they_are_written() {
        let two = with(with(Constants::default(), A, 1), B, 2);
        assert_eq!((two.get(A), two.get(B), two.get(C)), (Some(1), Some(2), None));
        let other = with(two, C, 3);
        assert_eq!(
            (other.get(A), other.get(B), other.get(C)),
            (None, Some(2), Some(3))
        );
        let again = with(two, B, 5);
        assert_eq!((again.get(A), again.get(B)), (Some(1), Some(5)));
        let lost = two.without(RegSet::of(&[A]));
        assert_eq!((lost.get(A), lost.get(B)), (None, Some(2)));
    }

    #[test]
    fn where_ways_meet_only_what_holds_on_both_is_kept() {
        let one = with(with(Constants::default(), A, 1), B, 2);
        let other = with(with(Constants::default(), B, 2), A, 7);
        for both in [one.and(other), other.and(one)] {
            assert_eq!((both.get(A), both.get(B)), (None, Some(2)));
        }
    }
}
