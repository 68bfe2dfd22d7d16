//! Settling: what is in a stub comes into the site. In the engine:
//! `live::settle`.

use super::commit::{can_have, first_of_exchange, forgotten, gate_to, make_stale, next_trap};
use super::{Next, go_on};
use crate::machine::{Held, Piece};
use crate::rules::{ChangeKind, Config, Failure, LeftOut};
use crate::state::{Form, NO_SITE, Phase, State, Tail, Writer, each};

/// The first half of `Engine::settle`: closed sites; those that are closed by an unaligned jump are
/// closed by a trap first.
pub(super) fn begin_settling(config: &Config, state: &State, number: usize) -> Next {
    let mut next = *state;
    let mut writer = next.writers[number];
    for site in each(writer.sites) {
        if !can_have(config, state, writer.kind, site) {
            writer.sites &= !(1 << site);
        }
    }
    if writer.sites == 0 {
        next.writers[number] = Writer::IDLE;
        return Ok(next);
    }
    writer.has_lock = true;
    writer.phase = match next_trap(config, &writer, 0) {
        Some(_) => first_of_exchange(
            config,
            &Writer {
                sites: traps_of(config, &writer),
                ..writer
            },
        ),
        None => Phase::BarrierBeforeWait,
    };
    // The others are closed: they have nothing to exchange, and are exchanged for what they are.
    next.writers[number] = writer;
    Ok(go_on(config, &next, number))
}

fn traps_of(config: &Config, writer: &Writer) -> u8 {
    let traps = each(writer.sites).filter(|site| config.traps(*site));
    traps.fold(0, |sites, site| sites | 1 << site)
}

/// Every core has serialized since the sites were closed: reports count from here on. The lock is
/// given back.
pub(super) fn begin_wait(config: &Config, state: &State, number: usize) -> State {
    let mut next = *state;
    let writer = next.writers[number];
    for site in each(writer.sites) {
        next.stamp_site(config, site);
    }
    let mut waiting = Writer {
        phase: Phase::Waiting,
        kind: writer.kind,
        sites: writer.sites,
        ..Writer::IDLE
    };
    if config.without(LeftOut::StillClosed) {
        each(waiting.sites)
            .for_each(|site| waiting.codes[site] = state.code_of(state.sites[site].form, site));
    }
    waiting.has_lock = config.without(LeftOut::LockGivenBack);
    next.writers[number] = waiting;
    next
}

/// The second half, when every thread has reported; or nobody asks again, and the sites stay
/// closed.
pub(super) fn wait(
    config: &Config,
    state: &State,
    number: usize,
    step: &mut impl FnMut(&'static str, u8, Next),
) {
    let mut given_up = *state;
    given_up.writers[number] = Writer::IDLE;
    if !state.writers[number].has_lock {
        step("gives up: its sites stay closed", NO_SITE, Ok(given_up));
        if state.is_locked() {
            return;
        }
    }
    let mut next = *state;
    let mut writer = next.writers[number];
    let mut all_passed = true;
    for site in each(state.writers[number].sites) {
        let is_closed = can_have(config, state, writer.kind, site)
            && state.sites[site].is_stamped
            && (!config.traps(site) || state.machine.sites[site][0] == Piece::TRAP);
        let form = state.sites[site].form;
        let anyway = config.without(LeftOut::StillClosed) && matches!(form, Form::InPlace | Form::Stub(_));
        if !is_closed && !anyway {
            writer.sites &= !(1 << site);
            continue;
        }
        let needs_wait = state.needs_wait(config, site) && !config.without(LeftOut::Wait);
        all_passed &= !needs_wait || state.has_reported_site(config, site) || (anyway && !is_closed);
    }
    if !all_passed {
        return;
    }
    match writer.next_site(0) {
        Some(site) => {
            writer.has_lock = true;
            writer.phase = match config.without(LeftOut::Rewriting) {
                true => Phase::Open(site),
                false => Phase::Rewrite(site, 1),
            };
            next.writers[number] = writer;
            step("finds that the wait is over", NO_SITE, Ok(next));
        }
        None => {
            next.writers[number] = Writer::IDLE;
            step("finds its sites changed", NO_SITE, Ok(next));
        }
    }
}

/// What a settled site holds.
fn settled_piece(config: &Config, state: &State, writer: &Writer, site: usize) -> Piece {
    let form = state.sites[site].form;
    match writer.kind {
        ChangeKind::SettleAsJump => gate_to(form),
        // What it was when the wait began.
        _ if config.without(LeftOut::StillClosed) => Piece::code(writer.codes[site]),
        _ => Piece::code(state.code_of(form, site)),
    }
}

/// One store behind the gate. The gate, which lies in the same quadword, stays as it is.
pub(super) fn rewrite(config: &Config, state: &State, number: usize, site: usize, piece: usize) -> Next {
    let mut next = *state;
    let mut writer = next.writers[number];
    let new = settled_piece(config, state, &writer, site);
    next.machine.store(config, site, piece, &[new]);
    next.sites[site].tail = Tail::Torn;
    writer.phase = match (piece, writer.next_site(site + 1)) {
        (1, _) => Phase::Rewrite(site as u8, 2),
        (_, Some(site)) => Phase::Rewrite(site, 1),
        (_, None) => Phase::BarrierBeforeOpening,
    };
    next.writers[number] = writer;
    Ok(go_on(config, &next, number))
}

/// A store is refused: the site stays closed, whatever is behind its gate, and the others go on.
pub(super) fn stay_closed(config: &Config, state: &State, number: usize, site: usize, phase: Phase) -> Next {
    let mut next = *state;
    next.faults_left -= 1;
    let mut writer = next.writers[number];
    writer.sites &= !(1 << site);
    writer.phase = match (phase, writer.next_site(site + 1)) {
        (Phase::Rewrite(..), Some(site)) => Phase::Rewrite(site, 1),
        (Phase::Rewrite(..), None) if writer.sites != 0 => Phase::BarrierBeforeOpening,
        (Phase::Open(_), Some(site)) => Phase::Open(site),
        (_, _) => Phase::BarrierAfterOpening,
    };
    next.writers[number] = writer;
    Ok(go_on(config, &next, number))
}

/// Every core has serialized since what is behind the gates was rewritten.
pub(super) fn begin_opening(config: &Config, state: &State, number: usize) -> State {
    let mut next = *state;
    let mut writer = next.writers[number];
    for site in each(writer.sites) {
        next.sites[site].tail = Tail::Whole(settled_piece(config, state, &writer, site));
    }
    writer.phase = writer
        .next_site(0)
        .map_or(Phase::BarrierAfterOpening, Phase::Open);
    next.writers[number] = writer;
    go_on(config, &next, number)
}

/// The gate is exchanged for the first bytes of the new code: one store, or the trap's own byte.
pub(super) fn open(config: &Config, state: &State, number: usize, site: usize) -> Next {
    let mut next = *state;
    let mut writer = next.writers[number];
    let new = settled_piece(config, state, &writer, site);
    next.machine.store(config, site, 0, &[new]);
    next.void_stamp(config, site);
    writer.done |= 1 << site;
    writer.phase = writer
        .next_site(site + 1)
        .map_or(Phase::BarrierAfterOpening, Phase::Open);
    next.writers[number] = writer;
    Ok(go_on(config, &next, number))
}

/// The stubs of what is in place now are retired.
pub(super) fn settled(config: &Config, state: &State, number: usize) -> Next {
    let mut next = *state;
    let writer = next.writers[number];
    for site in each(writer.done) {
        let new = settled_piece(config, state, &writer, site);
        if next.machine.sites[site] != [new; 3] {
            return Err(Failure::NotInPlace);
        }
        if config.traps(site) {
            next.sites[site].entry = forgotten(config, next.sites[site].entry);
        }
        if let (Held::Code(code), form) = (new.is(), next.sites[site].form) {
            if code != next.sites[site].installed {
                return Err(Failure::NotInPlace);
            }
            next.sites[site].form = Form::InPlace;
            if let Form::Stub(slot) = form {
                next.retire(config, slot.into());
            }
        }
    }
    make_stale(&mut next, number, writer.done);
    next.writers[number] = Writer::IDLE;
    Ok(next)
}
