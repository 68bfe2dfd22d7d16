//! Numbers of what sites of many modules have in common.
//!
//! Problem: sites of a thousand modules are changed together if they are alike: they held the same bytes, and
//! are called in the same way. To compare two of them reads what their modules keep of that, in memory that
//! nothing else of a change looks at: a twentieth of what invalidating them takes. Approach: when a module is
//! registered, each of its few [forms](SiteForm) gets a number, which is that of an earlier one that is like
//! it. Invariant: forms with one number are alike. Those with different numbers, or without, may be, too:
//! long ones get none, and the table is emptied when it is full, so that it takes a few hundred KiB at most,
//! however many modules come and go.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};

use foldhash::fast::RandomState;

use super::details::ModuleParts;
use super::kept::{FormNumber, RecordedBy, SiteForm};
use crate::addr::Len;
use crate::arch::{Arch, CallShape};

/// All that two sites have in common that are alike.
#[derive(PartialEq, Eq, Hash)]
pub(super) struct FormKey {
    reserved: Len,
    overhang: u8,
    recorded: RecordedBy,
    /// What they held.
    displaced: Box<[u8]>,
    shape: CallShape,
    arch: Arch,
    trusts_live_outs: bool,
}

impl FormKey {
    /// That of a form of a module, with the shapes of the module's sites and what they held.
    pub(super) fn new(form: &SiteForm, of: &ModuleParts, (shapes, originals): (&[CallShape], &[u8])) -> Self {
        Self {
            reserved: form.reserved,
            overhang: form.overhang,
            recorded: form.recorded,
            // protection: forms-of-one-number-are-compared
            displaced: form.displaced(originals).into(),
            shape: form.shape_of(shapes),
            arch: of.arch,
            trusts_live_outs: of.trust_live_outs,
        }
    }
}

/// The numbers of forms of an engine's modules.
#[derive(Default)]
pub(super) struct FormNumbers(HashMap<FormKey, FormNumber, RandomState>);

impl FormNumbers {
    /// So many are known at a time.
    const MOST: usize = 1024;
    /// A site with a number has held no more bytes: few are longer.
    const LONGEST: usize = 64;

    /// The number of a form; `None` if there are no more numbers, or it is long.
    pub(super) fn of(&mut self, key: FormKey) -> Option<FormNumber> {
        // protection: long-forms-are-not-kept
        if key.displaced.len() > Self::LONGEST {
            return None;
        }
        if let Some(known) = self.0.get(&key) {
            return Some(*known);
        }
        if self.0.len() == Self::MOST {
            // protection: numbers-of-forms-are-few
            self.0.clear();
        }
        let number = next()?;
        self.0.insert(key, number);
        Some(number)
    }
}

/// A number that nothing had before.
fn next() -> Option<FormNumber> {
    static LAST: AtomicU32 = AtomicU32::new(0);
    let one_more = |last: u32| last.checked_add(1);
    let before = LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
    FormNumber::new(before.ok()? + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> FormKey {
        FormKey {
            reserved: Len::new(16),
            overhang: 1,
            recorded: RecordedBy::StackMap,
            displaced: [0x90; 17].into(),
            shape: CallShape::any_reg(16),
            arch: Arch::X86_64,
            trusts_live_outs: true,
        }
    }

    #[test]
    fn forms_that_are_alike_have_one_number_and_others_have_none_of_it() {
        let mut numbers = FormNumbers::default();
        let number = numbers.of(key());
        assert!(number.is_some());
        let others: [fn(&mut FormKey); 7] = [
            |key| key.reserved = Len::new(17),
            |key| key.overhang = 0,
            |key| key.recorded = RecordedBy::Runtime,
            |key| key.displaced[16] = 0xcc,
            |key| key.shape = CallShape::any_reg(16).result(),
            |key| key.arch = Arch::AArch64,
            |key| key.trusts_live_outs = false,
        ];
        for change in others {
            let mut other = key();
            change(&mut other);
            assert_ne!(numbers.of(other), number);
            assert_eq!(numbers.of(key()), number);
        }
        assert_ne!(FormNumbers::default().of(key()), number);
    }

    /// The table keeps what they held.
    #[test]
    fn long_forms_have_no_number() {
        let mut numbers = FormNumbers::default();
        let mut held = |len: usize| {
            let displaced = vec![0x90; len].into();
            numbers.of(FormKey { displaced, ..key() })
        };
        assert!(held(FormNumbers::LONGEST).is_some());
        assert_eq!(held(FormNumbers::LONGEST + 1), None);
        assert_eq!(numbers.0.len(), 1);
    }

    #[test]
    fn a_full_table_is_emptied_and_its_numbers_are_not_given_again() {
        let mut numbers = FormNumbers::default();
        let numbered = |reserved| FormKey {
            reserved: Len::new(reserved),
            ..key()
        };
        let mut given: Vec<_> = (0..3000).map(|reserved| numbers.of(numbered(reserved))).collect();
        assert!(numbers.0.len() <= FormNumbers::MOST);
        given.sort_unstable();
        given.dedup();
        assert_eq!(given.len(), 3000);
    }
}
