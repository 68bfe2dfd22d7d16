//! What writers do: transactions that close, restore and invalidate; settling; reclaiming.
//!
//! Each step is one that a core can see: a store, a change of the handler's table, a barrier, a
//! change of what may be reused. What it stands for in the engine is said at each.

mod commit;
mod reclaim;
mod settle;

use crate::rules::{Config, Failure, LeftOut, Prefetch};
use crate::state::{ModelEvent, NO_SITE, Phase, RECLAIMER, State, Step, WRITERS, Writer, each};
use commit::{begin, exchange, exchange_rest, fail, first_of_exchange, lock, note, record, refuse, undo};
use reclaim::reclaim;
use settle::{begin_opening, begin_wait, open, rewrite, settled, stay_closed, wait};

type Next = Result<State, Failure>;

/// Everything that a writer can do next.
pub(crate) fn successors(config: &Config, state: &State, number: usize, into: &mut Vec<Step>) {
    let writer = state.writers[number];
    let mut step = |what: &'static str, site: u8, next: Next| {
        let kind = (number != RECLAIMER).then_some(writer.kind);
        into.push((
            ModelEvent::Writer {
                writer: number,
                what,
                kind,
                site,
            },
            next,
        ));
    };
    let site = |site: u8| usize::from(site);
    match writer.phase {
        Phase::Idle if number == RECLAIMER => reclaim(config, state, into),
        Phase::Idle => begin(config, state, number, into),
        Phase::Prepared => {
            if !state.is_locked() {
                step("takes the lock", NO_SITE, lock(config, state, number));
            }
        }
        Phase::Note(at) => step("notes the trap", at, Ok(note(config, state, number, site(at)))),
        Phase::Exchange(at) => {
            step(
                "exchanges the gate",
                at,
                exchange(config, state, number, site(at)),
            );
            if state.faults_left > 0 {
                step("is refused the exchange", at, refuse(config, state, number));
            }
        }
        Phase::ExchangeRest(at) => step(
            "writes the rest",
            at,
            exchange_rest(config, state, number, site(at)),
        ),
        Phase::Undo(at) => step("rolls back the gate", at, undo(config, state, number, site(at))),
        Phase::Fail => step("retires what it made", NO_SITE, fail(config, state, number)),
        Phase::Record => {
            step("records the change", NO_SITE, record(config, state, number));
            if state.faults_left > 0 {
                step("finds the change refused", NO_SITE, refuse(config, state, number));
            }
        }
        Phase::Waiting => wait(config, state, number, &mut step),
        Phase::Rewrite(at, piece) => {
            let next = rewrite(config, state, number, site(at), piece.into());
            step("rewrites behind the gate", at, next);
            if state.faults_left > 0 {
                let next = stay_closed(config, state, number, site(at), Phase::Rewrite(at, 1));
                step("is refused the rewriting", at, next);
            }
        }
        Phase::Open(at) => {
            step("opens the gate", at, open(config, state, number, site(at)));
            if state.faults_left > 0 {
                let next = stay_closed(config, state, number, site(at), Phase::Open(at));
                step("is refused the opening", at, next);
            }
        }
        Phase::Settled => step(
            "records what has settled",
            NO_SITE,
            settled(config, state, number),
        ),
        Phase::BarrierBeforeGate
        | Phase::BarrierAfterChange
        | Phase::BarrierBeforeWait
        | Phase::BarrierBeforeOpening
        | Phase::BarrierAfterOpening
        | Phase::BarrierBeforeEpoch => {}
    }
}

/// By the barrier that is under way, a core serializes.
pub(crate) fn serialize(config: &Config, state: &State, core: usize, into: &mut Vec<Step>) {
    let in_barrier = (0..WRITERS).find(|number| state.writers[*number].is_in_barrier());
    let Some(number) = in_barrier.filter(|_| !state.machine.cores[core].has_serialized) else {
        return;
    };
    let mut next = *state;
    next.machine.serialize(core);
    next.machine.cores[core].has_serialized = true;
    into.push((ModelEvent::Serializes(core), end_barrier(config, next, number)));
}

/// `membarrier`, in `Publisher::serialize`: it returns when every core has serialized once. A core
/// that sees nothing old has done so as good as at once.
fn barrier(config: &Config, state: &State, number: usize, phase: Phase) -> Next {
    let mut next = *state;
    next.writers[number].phase = phase;
    for core in 0..config.cores {
        let is_current = next.machine.is_current(core) && config.prefetch == Prefetch::Followed;
        next.machine.cores[core].has_serialized = is_current;
    }
    end_barrier(config, next, number)
}

/// Goes on when every core has serialized.
fn end_barrier(config: &Config, state: State, number: usize) -> Next {
    let mut next = state;
    let cores = &mut next.machine.cores[..config.cores];
    if !cores.iter().all(|core| core.has_serialized) {
        return Ok(next);
    }
    cores.iter_mut().for_each(|core| core.has_serialized = false);
    let writer = &mut next.writers[number];
    match writer.phase {
        Phase::BarrierBeforeGate => {
            writer.phase = first_of_exchange(config, writer);
            Ok(next)
        }
        Phase::BarrierAfterChange => {
            writer.phase = Phase::Record;
            Ok(next)
        }
        Phase::BarrierBeforeWait => Ok(begin_wait(config, &next, number)),
        Phase::BarrierBeforeOpening => Ok(begin_opening(config, &next, number)),
        Phase::BarrierAfterOpening => {
            writer.phase = Phase::Settled;
            Ok(next)
        }
        Phase::BarrierBeforeEpoch => {
            next.stamp_slots(config);
            next.writers[number] = Writer::IDLE;
            Ok(next)
        }
        _ => unreachable!("only a writer in a barrier is asked"),
    }
}

/// Begins the barrier to which a writer has come.
fn go_on(config: &Config, state: &State, number: usize) -> State {
    let phase = state.writers[number].phase;
    let is_left_out = match phase {
        Phase::BarrierAfterChange => config.without(LeftOut::ImmediateSerialization),
        Phase::BarrierBeforeWait => config.without(LeftOut::SerializationAfterClosing),
        Phase::BarrierBeforeOpening => config.without(LeftOut::SerializationBeforeOpening),
        Phase::BarrierAfterOpening => {
            let writer = &state.writers[number];
            let is_trap = each(writer.done).any(|site| config.traps(site));
            !(config.serialization_after_opening && is_trap)
        }
        _ => return *state,
    };
    let mut next = *state;
    if is_left_out {
        next.machine
            .cores
            .iter_mut()
            .for_each(|core| core.has_serialized = true);
        return end_barrier(config, next, number).expect("a barrier that is left out ends at once");
    }
    barrier(config, &next, number, phase).expect("nothing fails by a barrier")
}
