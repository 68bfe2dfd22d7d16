//! Reclaiming the slots of stubs to which nothing goes any more.

use super::{barrier, end_barrier};
use crate::rules::{Config, LeftOut};
use crate::state::{ModelEvent, NO_SITE, Phase, RECLAIMER, SlotState, State, Step};

/// `Engine::reclaim_passed`: every core serializes, then the epoch begins; what every thread has
/// reported since then is freed.
pub(super) fn reclaim(config: &Config, state: &State, into: &mut Vec<Step>) {
    if state.is_locked() {
        return;
    }
    let mut step = |what, next| {
        let (writer, kind, site) = (RECLAIMER, None, NO_SITE);
        into.push((
            ModelEvent::Writer {
                writer,
                what,
                kind,
                site,
            },
            next,
        ));
    };
    if state.slots[..config.slots].contains(&SlotState::Retired) {
        let mut next = *state;
        next.writers[RECLAIMER].has_lock = true;
        if config.without(LeftOut::SerializationBeforeEpoch) {
            next.machine
                .cores
                .iter_mut()
                .for_each(|core| core.has_serialized = true);
            next.writers[RECLAIMER].phase = Phase::BarrierBeforeEpoch;
            step("begins an epoch", end_barrier(config, next, RECLAIMER));
        } else {
            step(
                "serializes all cores for an epoch",
                barrier(config, &next, RECLAIMER, Phase::BarrierBeforeEpoch),
            );
        }
    }
    for slot in (0..config.slots).filter(|slot| state.has_passed(config, *slot)) {
        let mut next = *state;
        next.free(config, slot);
        step("frees a stub", Ok(next));
    }
}
