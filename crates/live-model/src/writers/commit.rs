//! Transactions: preparing, exchanging, publishing, rolling back, recording.

use super::settle::begin_settling;
use super::{Next, barrier, go_on};
use crate::machine::{Content, Piece};
use crate::rules::{ChangeKind, Config, Failure, Gate, LeftOut, SITES};
use crate::state::{
    Entry, Form, INVALID, ModelEvent, NO_SITE, Phase, RECLAIMER, SiteState, SlotState, State, Step, Tail,
    Writer, each,
};

// ---- preparing ----

/// `Engine::transaction`, and `prepare`: a transaction of any kind, of any of the sites that can
/// have it. Stubs are taken from the pool and filled; nothing goes there yet.
pub(super) fn begin(config: &Config, state: &State, number: usize, into: &mut Vec<Step>) {
    let is_first_idle = (0..number).all(|other| state.writers[other].phase != Phase::Idle);
    let busy = state.writers[..RECLAIMER]
        .iter()
        .filter(|writer| writer.phase != Phase::Idle);
    if !is_first_idle || busy.count() >= config.writers || state.changes_left == 0 {
        return;
    }
    for kind in config.kinds {
        for sites in 1_u8..1 << SITES {
            let mut chosen = each(sites);
            if !chosen.all(|site| can_have(config, state, *kind, site)) {
                continue;
            }
            let Some(next) = prepare(config, state, number, *kind, sites) else {
                continue;
            };
            let site = if sites.count_ones() == 1 {
                sites.trailing_zeros() as u8
            } else {
                NO_SITE
            };
            let (writer, what, kind) = (number, "prepares the change", Some(*kind));
            into.push((
                ModelEvent::Writer {
                    writer,
                    what,
                    kind,
                    site,
                },
                Ok(next),
            ));
        }
    }
}

/// Whether a site can have such a change as it is now.
pub(super) fn can_have(config: &Config, state: &State, kind: ChangeKind, site: usize) -> bool {
    let SiteState {
        installed,
        form,
        codes,
        ..
    } = state.sites[site];
    let is_out_of_place = matches!(form, Form::Stub(_) | Form::End);
    let head = state.machine.sites[site][0];
    // Invalidation is for good.
    let is_valid = installed != INVALID;
    match kind {
        ChangeKind::Arm => installed == 0 && form == Form::InPlace,
        ChangeKind::Patch => is_valid && codes < Piece::CODES,
        ChangeKind::Restore => is_valid && installed != 0,
        ChangeKind::Invalidate => is_valid,
        ChangeKind::Settle => is_out_of_place && config.sites[site] != Gate::Call,
        ChangeKind::SettleAsJump => head == Piece::TRAP,
    }
}

fn prepare(config: &Config, state: &State, number: usize, kind: ChangeKind, sites: u8) -> Option<State> {
    let mut next = *state;
    let mut writer = Writer {
        phase: Phase::Prepared,
        kind,
        sites,
        ..Writer::IDLE
    };
    if writer.makes_stubs() {
        for site in each(sites) {
            let slot = next.free_slot(config)?;
            next.slots[slot] = SlotState::Used;
            writer.slots[site] = slot as u8;
            if kind == ChangeKind::Patch {
                writer.codes[site] = next.sites[site].codes;
                next.sites[site].codes += 1;
            }
            if !config.without(LeftOut::StubBeforeGate) {
                fill(config, &mut next, &writer, site);
            }
        }
    }
    next.changes_left -= 1;
    next.writers[number] = writer;
    Some(next)
}

/// `StubPool::fill`, and `Publisher::maintain` of it.
fn fill(config: &Config, state: &mut State, writer: &Writer, site: usize) {
    let content = Content::of(site as u8, writer.codes[site]);
    state
        .machine
        .store_slot(config, writer.slots[site].into(), content);
}

// ---- committing ----

/// `with_states`, then `check_current`: what has changed since it was prepared is refused, and its
/// stubs are freed at once, as nothing has gone there.
pub(super) fn lock(config: &Config, state: &State, number: usize) -> Next {
    let mut next = *state;
    let mut writer = next.writers[number];
    if writer.is_settling() {
        return begin_settling(config, state, number);
    }
    if writer.is_stale && !config.without(LeftOut::StillCurrent) {
        free_made(config, &mut next, &writer);
        next.writers[number] = Writer::IDLE;
        return Ok(next);
    }
    writer.has_lock = true;
    for site in each(writer.sites) {
        writer.old[site] = (next.machine.sites[site][0], next.sites[site].entry);
    }
    writer.phase = first_of_exchange(config, &writer);
    next.writers[number] = writer;
    match config.serialization_before_gate && writer.makes_stubs() {
        true => barrier(config, &next, number, Phase::BarrierBeforeGate),
        false => Ok(next),
    }
}

fn free_made(config: &Config, state: &mut State, writer: &Writer) {
    if writer.makes_stubs() {
        for site in each(writer.sites) {
            state.free(config, writer.slots[site].into());
        }
    }
}

/// Traps are noted before anything is written.
pub(super) fn first_of_exchange(config: &Config, writer: &Writer) -> Phase {
    match next_trap(config, writer, 0) {
        Some(site) if !config.without(LeftOut::TrapNotedFirst) => Phase::Note(site),
        _ => Phase::Exchange(writer.next_site(0).expect("a transaction has sites")),
    }
}

pub(super) fn next_trap(config: &Config, writer: &Writer, from: usize) -> Option<u8> {
    let mut sites = each(writer.sites).filter(|site| *site >= from && config.traps(*site));
    sites.next().map(|site| site as u8)
}

/// Where the gate of a site is to go by a transaction. The original comes back in place by one
/// store only where its bytes are behind the gate still.
fn wanted(config: &Config, state: &State, writer: &Writer, site: usize) -> Form {
    let is_behind = state.sites[site].tail == Tail::Whole(Piece::code(0));
    match writer.kind {
        ChangeKind::Arm | ChangeKind::Patch => Form::Stub(writer.slots[site]),
        ChangeKind::Invalidate => Form::Exit,
        ChangeKind::Restore if is_behind || config.without(LeftOut::OriginalBehindTheGate) => Form::InPlace,
        ChangeKind::Restore => Form::End,
        // A site that is closed by a jump, and is closed by a trap before it is rewritten.
        ChangeKind::Settle | ChangeKind::SettleAsJump => state.sites[site].form,
    }
}

fn wanted_code(state: &State, writer: &Writer, site: usize) -> u8 {
    match writer.kind {
        ChangeKind::Arm | ChangeKind::Patch => writer.codes[site],
        ChangeKind::Invalidate => INVALID,
        ChangeKind::Restore => 0,
        ChangeKind::Settle | ChangeKind::SettleAsJump => state.sites[site].installed,
    }
}

/// The first piece of a site whose gate goes there.
pub(super) fn gate_to(form: Form) -> Piece {
    match form {
        Form::InPlace => Piece::code(0),
        Form::Stub(slot) => Piece::jump(slot),
        Form::End => Piece::END,
        Form::Exit => Piece::EXIT,
    }
}

/// `live::note_traps`: from here on whoever is at a trap of the site goes there. Where the site is
/// closed by a trap already, this is the change.
pub(super) fn note(config: &Config, state: &State, number: usize, site: usize) -> State {
    let mut next = *state;
    let mut writer = next.writers[number];
    let form = wanted(config, state, &writer, site);
    if form != Form::InPlace {
        next.sites[site].permitted |= 1 << wanted_code(state, &writer, site);
        next.sites[site].entry = Entry::To(form);
        writer.noted |= 1 << site;
    }
    writer.phase = match next_trap(config, &writer, site + 1) {
        Some(site) => Phase::Note(site),
        None if config.without(LeftOut::TrapNotedFirst) => after_exchange(&writer),
        None => Phase::Exchange(writer.next_site(0).expect("a transaction has sites")),
    };
    next.writers[number] = writer;
    go_on(config, &next, number)
}

/// `JumpExchange::make`: one aligned store, which leaves the rest of the quadword as it is. Of a
/// site that is closed by a trap, it writes the trap, or its first byte again.
pub(super) fn exchange(config: &Config, state: &State, number: usize, site: usize) -> Next {
    let mut next = *state;
    let mut writer = next.writers[number];
    if state.sites[site].installed == INVALID && !writer.is_settling() {
        return Err(Failure::Revived);
    }
    let form = wanted(config, state, &writer, site);
    let gate = match form {
        Form::InPlace => Piece::code(0),
        _ if config.traps(site) => Piece::TRAP,
        form => gate_to(form),
    };
    next.sites[site].permitted |= 1 << wanted_code(state, &writer, site);
    let by_two_stores = config.without(LeftOut::TrapGate) && config.sites[site] != Gate::PatchableJump;
    if by_two_stores {
        next.machine.store(config, site, 0, &[gate, gate]);
    } else if config.without(LeftOut::PreservedBytes) && form != Form::InPlace {
        next.machine.store(config, site, 0, &[gate, Piece::FILLER]);
    } else {
        next.machine.store(config, site, 0, &[gate]);
    }
    if form == Form::InPlace {
        next.void_stamp(config, site);
    }
    if config.without(LeftOut::StubBeforeGate) && writer.makes_stubs() {
        // By another step, so that a core can come in between.
        writer.phase = Phase::ExchangeRest(site as u8);
    } else if by_two_stores {
        writer.phase = Phase::ExchangeRest(site as u8);
    } else {
        writer.phase = after_one(config, &writer, site);
    }
    writer.done |= 1 << site;
    next.writers[number] = writer;
    Ok(go_on(config, &next, number))
}

/// What comes after a site, of steps that are left out.
pub(super) fn exchange_rest(config: &Config, state: &State, number: usize, site: usize) -> Next {
    let mut next = *state;
    let mut writer = next.writers[number];
    if config.without(LeftOut::StubBeforeGate) {
        fill(config, &mut next, &writer, site);
    } else {
        let gate = next.machine.sites[site][0];
        next.machine.store(config, site, 2, &[gate]);
        next.sites[site].tail = Tail::Whole(gate);
    }
    writer.phase = after_one(config, &writer, site);
    next.writers[number] = writer;
    Ok(go_on(config, &next, number))
}

fn after_one(config: &Config, writer: &Writer, site: usize) -> Phase {
    match writer.next_site(site + 1) {
        Some(site) => Phase::Exchange(site),
        None if config.without(LeftOut::TrapNotedFirst) => match next_trap(config, writer, 0) {
            Some(site) => Phase::Note(site),
            None => after_exchange(writer),
        },
        None => after_exchange(writer),
    }
}

/// `live::publish`: an Immediate change serializes every core.
fn after_exchange(writer: &Writer) -> Phase {
    match writer.kind {
        ChangeKind::Arm | ChangeKind::Patch => Phase::Record,
        ChangeKind::Restore | ChangeKind::Invalidate => Phase::BarrierAfterChange,
        ChangeKind::Settle | ChangeKind::SettleAsJump => Phase::BarrierBeforeWait,
    }
}

/// An exchange is refused, or publishing them, or what is read back is something else: those before
/// it are rolled back. Where it closes a site again before it is rewritten, the site stays as it
/// is.
pub(super) fn refuse(config: &Config, state: &State, number: usize) -> Next {
    let mut next = *state;
    next.faults_left -= 1;
    let mut writer = next.writers[number];
    if writer.is_settling() {
        next.writers[number] = Writer::IDLE;
        return Ok(next);
    }
    writer.phase = match config.without(LeftOut::RollBack) {
        true => Phase::Fail,
        false => last_to_undo(&writer),
    };
    next.writers[number] = writer;
    Ok(next)
}

fn last_to_undo(writer: &Writer) -> Phase {
    let last = each(writer.done | writer.noted).last();
    last.map_or(Phase::Fail, |site| Phase::Undo(site as u8))
}

/// `live::undo`: the old gate comes back by one store; whoever is at the trap executes the site
/// again, or goes where it went before.
pub(super) fn undo(config: &Config, state: &State, number: usize, site: usize) -> Next {
    let mut next = *state;
    let mut writer = next.writers[number];
    let (gate, entry) = writer.old[site];
    if writer.done & 1 << site != 0 {
        next.machine.store(config, site, 0, &[gate]);
    }
    if config.traps(site) {
        next.sites[site].entry = match entry {
            Entry::None => Entry::Again,
            before => before,
        };
    }
    // What stays to be known for `fail` is that there was something.
    let rest = Writer {
        done: writer.done & ((1 << site) - 1),
        noted: writer.noted & ((1 << site) - 1),
        ..writer
    };
    writer.phase = last_to_undo(&rest);
    next.writers[number] = writer;
    Ok(next)
}

/// `ChangeSet::fail`: what it has made is retired if a core can have gone there.
pub(super) fn fail(config: &Config, state: &State, number: usize) -> Next {
    let mut next = *state;
    let writer = next.writers[number];
    for site in each(writer.sites) {
        let (gate, entry) = writer.old[site];
        let went_to = next.sites[site].entry;
        let goes_back = went_to == entry || (entry == Entry::None && went_to == Entry::Again);
        if next.machine.sites[site][0] != gate || !goes_back {
            return Err(Failure::NotRolledBack);
        }
    }
    let was_exposed = match config.left_out {
        Some(LeftOut::RolledBackIsRetired) => false,
        Some(LeftOut::NotedIsRetired) => writer.done != 0,
        _ => writer.done | writer.noted != 0,
    };
    if !was_exposed {
        free_made(config, &mut next, &writer);
    } else if writer.makes_stubs() {
        for site in each(writer.sites) {
            next.retire(config, writer.slots[site].into());
        }
    }
    next.writers[number] = Writer::IDLE;
    Ok(next)
}

/// `ChangeSet::record`, and `settle` in it: the sites' states; the stubs of what was replaced are
/// retired. Transactions that were prepared before are stale.
pub(super) fn record(config: &Config, state: &State, number: usize) -> Next {
    let mut next = *state;
    let writer = next.writers[number];
    for site in each(writer.sites) {
        let form = wanted(config, state, &writer, site);
        let code = wanted_code(state, &writer, site);
        if let Form::Stub(slot) = next.sites[site].form {
            next.retire(config, slot.into());
        }
        let known = &mut next.sites[site];
        (known.form, known.installed) = (form, code);
        match writer.kind {
            ChangeKind::Arm | ChangeKind::Patch => known.permitted |= 1 << code,
            _ => known.permitted = 1 << code,
        }
        if form == Form::InPlace && config.traps(site) {
            known.entry = forgotten(config, known.entry);
        }
    }
    make_stale(&mut next, number, writer.sites);
    next.writers[number] = Writer::IDLE;
    Ok(next)
}

/// Of a site that is open, a core may still be on its way to the handler.
pub(super) fn forgotten(config: &Config, entry: Entry) -> Entry {
    match config.left_out {
        Some(LeftOut::TrapKept) => Entry::None,
        Some(LeftOut::TrapFollowsOpening) => entry,
        _ => Entry::Again,
    }
}

pub(super) fn make_stale(state: &mut State, number: usize, sites: u8) {
    for (other, writer) in state.writers.iter_mut().enumerate() {
        if other != number && writer.phase == Phase::Prepared && !writer.is_settling() {
            writer.is_stale |= writer.sites & sites != 0;
        }
    }
}
