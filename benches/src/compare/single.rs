//! The library's ways of changing one site, and the least that each strategy needs: both as `ratios`
//! and `speeds` measure them.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use patchpoint::memory::StrategyChoice;

use super::{Contender, Job, Offer};
use crate::commits::{Commits, SITES};
use crate::limits::{self, Copied, Limit, Pwritten, Toggled};
use crate::measure::time;
use crate::pages::{self, PAGE};
use crate::speeds::Patches;

/// Commits of each strategy with its limit; whole patches; b.
pub(super) fn offers(job: Job) -> Vec<Offer> {
    if job != Job::Single {
        return Vec::new();
    }
    let foreign = Commits::foreign;
    let pairs = [
        against("alias", Commits::loaded(), "limit-copy", Copied::new(1)),
        against(
            "procmem",
            foreign(StrategyChoice::ProcMem),
            "limit-pwrite",
            Pwritten::new(),
        ),
        against(
            "toggle",
            foreign(StrategyChoice::Toggle),
            "limit-mprotect",
            Toggled,
        ),
    ];
    let mut ways = vec![stores(), patches("alias-patch", false)];
    ways.extend(pairs.into_iter().flatten());
    ways.into_iter().map(Ok).collect()
}

/// b.
pub(super) fn stores() -> Contender {
    let view = pages::writable_view_of_code(PAGE);
    let batch = move || time(|| limits::stores(view, SITES));
    Contender::new("limit-store", SITES, batch)
}

/// `patch(id, sequence)` of a shape that was seen before.
pub(super) fn patches(who: &'static str, live: bool) -> Contender {
    let mut patches = Patches::new(live);
    Contender::new(who, Patches::COUNT, move || patches.batch())
}

fn one_by_one(who: &'static str, batch: impl FnMut() -> Duration + 'static) -> Contender {
    Contender {
        one_by_one: true,
        ..Contender::new(who, SITES, batch)
    }
}

fn against(
    who: &'static str,
    commits: Commits,
    bare: &'static str,
    limit: impl Limit + 'static,
) -> [Contender; 2] {
    let ours = Rc::new(RefCell::new(commits));
    let same = Rc::clone(&ours);
    [
        one_by_one(who, move || ours.borrow_mut().commits()),
        one_by_one(bare, move || same.borrow().bare(&limit)),
    ]
}
