//! From entries to the sequence of a site.
//!
//! ```text
//!     guards of the first entry, else to 0
//!     its action; to the end
//! 0:  guards of the second, else to a miss
//!     its action
//! ```
//!
//! A probe of the shared cache, with all in one register but what the encoder takes for constants
//! and comparisons:
//!
//! ```text
//!     temp = class; temp >>= 7; temp += class
//!     temp &= mask; temp <<= 3; temp += slots
//!     temp = u64[temp]
//!     class of u64[temp] and number of u32[temp+8], else to a miss
//!     temp = u64[temp+16]
//! ```
//!
//! The class is read more than once, and another thread may change it meanwhile: whichever slot
//! was looked at, what counts is what is compared last.

#![allow(unsafe_code, reason = "an action holds a promise")]

use std::sync::LazyLock;

use super::entry::{Act, Boxing, Entry, Guard, Pointer, Test};
use super::probe::ProbeAction;
use super::shared::{CLASS_AT, CLASS_SHIFT, NUMBER_AT, SLOT_SHIFT, SiteProbe, WORD_AT};
use crate::addr::CodeAddr;
use crate::arch::Width;
use crate::sequence::{Field, Label, Mem, Operand, Sequence, Source, Target, result, temp};
use crate::site::Site;
use crate::{Error, Result};

/// What the site of a cache without entries holds. All of them share it, so a first miss frees no sequence.
pub(super) static MISS: LazyLock<Sequence> = LazyLock::new(|| Sequence::new().jump(Target::Miss));

/// How an entry counts its hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counter {
    Off,
    /// Counts of several threads may be lost.
    Plain(CodeAddr),
    Atomic(CodeAddr),
}

/// The sequence that tests the entries in order and misses behind the last.
pub(super) fn chain<'e>(
    site: &Site,
    entries: impl ExactSizeIterator<Item = (&'e Entry, Counter)>,
) -> Result<Sequence> {
    let count = entries.len();
    if count == 0 {
        return Ok(MISS.clone());
    }
    let mut sequence = Sequence::new();
    for (number, (entry, counter)) in entries.enumerate() {
        let next = Label::new(number as u32);
        let last = number + 1 == count;
        let miss = if last { Target::Miss } else { next.into() };
        sequence = one(site, sequence, entry, counter, miss)?;
        if !last {
            sequence = sequence.jump(Target::End).bind(next);
        }
    }
    Ok(sequence)
}

fn one(
    site: &Site,
    mut sequence: Sequence,
    entry: &Entry,
    counter: Counter,
    miss: Target,
) -> Result<Sequence> {
    for guard in entry.guards() {
        sequence = test(site, sequence, guard, miss)?;
    }
    let (counter_at, atomic) = match counter {
        Counter::Off => return act(site, sequence, &entry.action().0),
        Counter::Plain(at) => (at, false),
        Counter::Atomic(at) => (at, true),
    };
    // The register that guards took values apart in is free again, and may be the only one for a
    // far address.
    let (sequence, base) = match entry.guards().iter().any(takes_temp) {
        true => (sequence.mov(temp(), counter_at.get()), temp()),
        false => (sequence, counter_at.into()),
    };
    let (counted, one) = (u64::at(base, 0), 1u64);
    let sequence = match atomic {
        true => sequence.atomic_add(counted, one),
        false => sequence.add_to_memory(counted, one),
    };
    act(site, sequence, &entry.action().0)
}

/// Whether the guard is tested with the help of a free register.
fn takes_temp(guard: &Guard) -> bool {
    match &guard.0 {
        Test::Equal { .. } => false,
        Test::FieldEqual { pointer, .. } => matches!(pointer.boxing, Boxing::Boxed(_)),
        Test::ThroughEqual { .. } | Test::High { .. } => true,
        Test::Masked { value, mask, .. } => part(*value, *mask).is_none(),
    }
}

fn test(site: &Site, sequence: Sequence, guard: &Guard, miss: Target) -> Result<Sequence> {
    Ok(match &guard.0 {
        Test::Equal { value, to } => sequence.guard_eq(*value, *to, miss),
        Test::FieldEqual { pointer, field, to } => {
            let (sequence, base, by) = unbox(sequence, *pointer, temp());
            let mem = field.of(base, by).ok_or_else(|| too_far(site))?;
            sequence.guard_eq(mem, *to, miss)
        }
        Test::ThroughEqual {
            pointer,
            at,
            field,
            to,
        } => {
            let (sequence, base, by) = unbox(sequence, *pointer, temp());
            let at = at.checked_add(by).ok_or_else(|| too_far(site))?;
            let mem = field.of(temp(), 0).ok_or_else(|| too_far(site))?;
            sequence.load(temp(), u64::at(base, at)).guard_eq(mem, *to, miss)
        }
        Test::Masked { value, mask, to } => match part(*value, *mask) {
            Some(part) => sequence.guard_eq(part, *to, miss),
            None => sequence
                .mov(temp(), *value)
                .and(temp(), *mask)
                .guard_eq(temp(), *to, miss),
        },
        Test::High { value, from, to } => {
            sequence
                .mov(temp(), *value)
                .shift_right(temp(), *from)
                .guard_eq(temp(), *to, miss)
        }
    })
}

/// The low bytes that the mask stands for, if it does.
fn part(value: Operand, mask: u64) -> Option<Source> {
    match mask {
        0xff => Some(u8::of(value).into()),
        0xffff => Some(u16::of(value).into()),
        0xffff_ffff => Some(u32::of(value).into()),
        u64::MAX => Some(value.into()),
        _ => None,
    }
}

/// A base to address from, and what is to be added to displacements. Boxed pointers are taken apart
/// in `into`.
fn unbox(sequence: Sequence, pointer: Pointer, into: Operand) -> (Sequence, Operand, i32) {
    match pointer.boxing {
        Boxing::Plain => (sequence, pointer.value, 0),
        Boxing::Tagged(tag) => (sequence, pointer.value, -tag),
        Boxing::Boxed(bits) => {
            let by = 64 - bits;
            let sequence = sequence
                .mov(into, pointer.value)
                .shift_left(into, by)
                .shift_right(into, by);
            (sequence, into, 0)
        }
    }
}

fn act(site: &Site, sequence: Sequence, action: &Act) -> Result<Sequence> {
    Ok(match action {
        Act::Load { from, field } => {
            let (sequence, base, by) = unbox(sequence, *from, result());
            let mem = field.of(base, by).ok_or_else(|| too_far(site))?;
            sequence.load(result(), mem)
        }
        Act::LoadThrough { pointer, at, field } => {
            // No guard comes any more, so the result can hold what is on the way.
            let (sequence, base, by) = unbox(sequence, *pointer, result());
            let at = at.checked_add(by).ok_or_else(|| too_far(site))?;
            let mem = field.of(result(), 0).ok_or_else(|| too_far(site))?;
            sequence.load(result(), u64::at(base, at)).load(result(), mem)
        }
        Act::Store { to, field, value } => {
            let (sequence, base, by) = unbox(sequence, *to, temp());
            let mem = field.of(base, by).ok_or_else(|| too_far(site))?;
            sequence.store(mem, *value)
        }
        Act::Call { target, on_return } => {
            // SAFETY: whoever made the action has promised it, see `Action::call`.
            unsafe { sequence.call(*target, *on_return) }
        }
        Act::Constant(value) => sequence.mov(result(), *value),
        Act::Custom(append) => append(sequence),
    })
}

/// The sequence that finds the class in the shared cache, or misses.
pub(super) fn probe(site: &Site, this: &SiteProbe) -> Result<Sequence> {
    let (probe, class) = (&this.probe, this.probe.class);
    let mut sequence = Sequence::new();
    for guard in &probe.guards {
        sequence = test(site, sequence, guard, Target::Miss)?;
    }
    let (width, _) = probe.class_type();
    let sequence = sequence
        .mov(temp(), class)
        .shift_right(temp(), CLASS_SHIFT)
        .add(temp(), class)
        .and(temp(), this.mask)
        .shift_left(temp(), SLOT_SHIFT)
        .add(temp(), this.slots)
        .load(temp(), u64::at(temp(), 0))
        // protection: probes-compare-the-class
        .guard_eq(low_at(CLASS_AT, width), class, Target::Miss)
        // protection: probes-compare-the-number
        .guard_eq(u32::at(temp(), NUMBER_AT), u64::from(this.number), Target::Miss);
    let word = u64::at(temp(), WORD_AT);
    Ok(match probe.action {
        ProbeAction::Constant => sequence.load(result(), word),
        ProbeAction::Load { object, field } => {
            let field = field.of(temp(), 0).ok_or_else(|| too_far(site))?;
            sequence
                .load(temp(), word)
                .add(temp(), object)
                .load(result(), field)
        }
    })
}

/// The low bytes of the 64-bit word behind the free register.
fn low_at(disp: i32, width: Width) -> Mem {
    let high = if cfg!(target_endian = "big") {
        8 - i32::from(width.bytes())
    } else {
        0
    };
    let disp = disp + high;
    match width {
        Width::B1 => u8::at(temp(), disp),
        Width::B2 => u16::at(temp(), disp),
        Width::B4 => u32::at(temp(), disp),
        Width::B8 => u64::at(temp(), disp),
    }
}

fn too_far(site: &Site) -> Error {
    Error::CacheField { site: site.name() }
}
