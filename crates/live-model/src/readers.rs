//! What cores do: they come to sites, execute, trap, and report.

use crate::machine::{At, Content, Fetched, Held};
use crate::rules::{Config, Failure, LeftOut, SITES};
use crate::state::{Entry, Form, INVALID, ModelEvent, SlotState, State, Step};

/// Everything that a core can do next.
pub(crate) fn successors(config: &Config, state: &State, core: usize, into: &mut Vec<Step>) {
    match state.machine.cores[core].at {
        At::Outside => {
            reports(config, state, core, true, into);
            for site in 0..SITES {
                executes(config, state, core, (site, 0), None, into);
            }
        }
        At::Site { site, code, offset } => {
            executes(config, state, core, (site.into(), offset), Some(code), into);
        }
        At::Stub {
            slot,
            site,
            code,
            second,
        } => {
            let event = ModelEvent::InStub { core, slot };
            for (content, machine) in state.machine.look_into(config, core, slot.into()) {
                let mut next = State { machine, ..*state };
                next.machine.cores[core].at = match second {
                    true => At::Outside,
                    false if config.calls => At::Callee { slot, site, code },
                    false => At::Stub {
                        slot,
                        site,
                        code,
                        second: true,
                    },
                };
                let is_same = content == Content::of(site, code);
                into.push((
                    event,
                    if is_same {
                        Ok(next)
                    } else {
                        Err(Failure::StubMemory)
                    },
                ));
            }
        }
        At::Callee { slot, site, code } => {
            reports(config, state, core, false, into);
            let mut next = *state;
            next.machine.cores[core].at = At::Stub {
                slot,
                site,
                code,
                second: true,
            };
            into.push((ModelEvent::Returns { core, slot }, Ok(next)));
        }
        At::Handler { site } => {
            let event = ModelEvent::Handler { core, site };
            let site = usize::from(site);
            match state.sites[site].entry {
                Entry::None => into.push((event, Err(Failure::UnknownTrap))),
                Entry::Again => {
                    let mut next = *state;
                    next.machine.cores[core].at = At::Outside;
                    into.push((event, Ok(next)));
                }
                Entry::To(form) => continues(config, state, core, (site, form), event, into),
            }
        }
    }
}

/// A core reports, where anybody waits for that.
fn reports(config: &Config, state: &State, core: usize, is_quiescent: bool, into: &mut Vec<Step>) {
    let any_time = config.without(LeftOut::ReportsSinceTheEpoch);
    let mut next = *state;
    let reporting = &mut next.machine.cores[core];
    for site in 0..SITES {
        if any_time || state.sites[site].is_stamped {
            reporting.reported_sites |= 1 << site;
        }
    }
    if is_quiescent || config.without(LeftOut::QuiescenceForCalls) {
        for slot in 0..config.slots {
            let used = any_time && state.slots[slot] != SlotState::Free;
            if used || state.slots[slot] == SlotState::Stamped {
                reporting.reported_slots |= 1 << slot;
            }
        }
    }
    if next.machine.cores[core] != state.machine.cores[core] {
        let event = match is_quiescent {
            true => ModelEvent::Reports(core),
            false => ModelEvent::ReportsCheckpoint(core),
        };
        into.push((event, Ok(next)));
    }
}

/// A core executes the instruction at an offset of a site, in all ways in which it may see it.
fn executes(
    config: &Config,
    state: &State,
    core: usize,
    (site, offset): (usize, u8),
    begun: Option<u8>,
    into: &mut Vec<Step>,
) {
    let event = ModelEvent::Executes { core, site, offset };
    for (fetched, machine) in state.machine.fetch(config, core, site, offset) {
        let mut next = State { machine, ..*state };
        let (held, len) = match fetched {
            Fetched::Whole(held, len) => (held, len),
            Fetched::Fails(failure) => {
                into.push((event, Err(failure)));
                continue;
            }
        };
        match (held, begun) {
            (Held::Code(code), begun) => {
                let permitted = match begun {
                    None => state.begin(site, code),
                    Some(begun) if begun == code => Ok(()),
                    Some(_) => Err(Failure::Mixture),
                };
                let offset = offset + len;
                next.machine.cores[core].at = match offset == config.len(site) {
                    true => At::Outside,
                    false => At::Site {
                        site: site as u8,
                        code,
                        offset,
                    },
                };
                into.push((event, permitted.map(|()| next)));
            }
            // Behind the gate there is only code.
            (_, Some(_)) | (Held::Filler, None) => into.push((event, Err(Failure::Mixture))),
            (Held::Trap, None) => {
                next.machine.cores[core].at = At::Handler { site: site as u8 };
                into.push((event, Ok(next)));
            }
            (Held::Jump(slot), None) => {
                continues(config, &next, core, (site, Form::Stub(slot)), event, into);
            }
            (Held::End, None) => continues(config, &next, core, (site, Form::End), event, into),
            (Held::Exit, None) => continues(config, &next, core, (site, Form::Exit), event, into),
        }
    }
}

/// A core goes where a gate goes, and begins the code that it finds there.
fn continues(
    config: &Config,
    state: &State,
    core: usize,
    (site, form): (usize, Form),
    event: ModelEvent,
    into: &mut Vec<Step>,
) {
    let leaves = |code| {
        let mut next = *state;
        next.machine.cores[core].at = At::Outside;
        state.begin(site, code).map(|()| next)
    };
    match form {
        Form::Stub(slot) => {
            for (content, machine) in state.machine.look_into(config, core, slot.into()) {
                let mut next = State { machine, ..*state };
                let begun = match content.code() {
                    Some((of, code)) if usize::from(of) == site => {
                        let (site, second) = (of, false);
                        next.machine.cores[core].at = At::Stub {
                            slot,
                            site,
                            code,
                            second,
                        };
                        state.begin(site.into(), code).map(|()| next)
                    }
                    _ => Err(Failure::StubMemory),
                };
                into.push((event, begun));
            }
        }
        Form::End => into.push((event, leaves(0))),
        Form::Exit => into.push((event, leaves(INVALID))),
        Form::InPlace => unreachable!("no gate goes to its own site"),
    }
}
