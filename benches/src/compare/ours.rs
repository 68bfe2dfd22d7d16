//! The library's ways: commits of transactions that were prepared before.

use std::hint::black_box;
use std::time::Duration;

use patchpoint::engine::Engine;
use patchpoint::memory::StrategyChoice;
use patchpoint::publish::GracePeriod;
use patchpoint::site::{Module, Site};

use super::{Contender, Job, Offer, cannot, single};
use crate::many::{commit_all, hundreds, transactions};
use crate::measure::time;
use crate::subject::{self, Copies};

/// The sites of one load of the object.
const HUNDRED: usize = 100;
/// So many single ones are timed in a batch.
const SINGLES: usize = 32;
const THOUSAND: usize = 1000;

/// Alias, in live mode too, ProcMem, Toggle.
pub(super) fn offers(job: Job) -> Vec<Offer> {
    let foreign = |ask| Sites::foreign(THOUSAND, ask);
    let only_alias = |ways: Vec<Contender>| {
        let why = "not while threads execute the site: it has no aligned store";
        let others = ["procmem", "toggle"].map(|who| cannot(who, why));
        ways.into_iter().map(Ok).chain(others).collect()
    };
    match job {
        Job::Single => Vec::new(),
        Job::Batch => vec![
            Ok(way("alias", Sites::loaded(THOUSAND, false), THOUSAND, false)),
            Ok(way("procmem", foreign(StrategyChoice::ProcMem), THOUSAND, false)),
            Ok(way("toggle", foreign(StrategyChoice::Toggle), THOUSAND, false)),
        ],
        Job::Eventual => only_alias(vec![
            way("alias", Sites::loaded(SINGLES, true), 1, false),
            single::patches("alias-patch", true),
        ]),
        Job::Immediate => only_alias(vec![way("alias", Sites::loaded(SINGLES, true), 1, true)]),
        Job::Invalidate => vec![Ok(invalidate())],
    }
}

/// Property reads that are patched.
struct Sites {
    engine: Engine,
    /// Keep the code.
    _modules: Vec<Module>,
    sites: Vec<Site>,
    live: bool,
    turn: usize,
}

impl Sites {
    /// In memory of the library.
    fn loaded(count: usize, live: bool) -> Self {
        let engine = subject::engine();
        let modules = hundreds(&engine, count.div_ceil(HUNDRED), live);
        Self::of(modules, engine, count, live)
    }

    /// In memory of a JIT.
    fn foreign(count: usize, ask: StrategyChoice) -> Self {
        let engine = subject::engine();
        let code = Copies::new(&engine, count, 0).adopt(&engine, ask).unwrap();
        // SAFETY: what is told is true of the object's code, or refused.
        let module = unsafe { engine.register(code, subject::shape) }.unwrap();
        Self::of(vec![module], engine, count, false)
    }

    fn of(modules: Vec<Module>, engine: Engine, count: usize, live: bool) -> Self {
        let all: Vec<Site> = modules.iter().flat_map(subject::reads).collect();
        let step = (all.len() / count).max(1);
        Self {
            sites: all.into_iter().step_by(step).take(count).collect(),
            engine,
            _modules: modules,
            live,
            turn: 0,
        }
    }

    /// Changes all sites by transactions of `size` each, which are prepared before.
    fn change(&mut self, size: usize, immediate: bool) -> Duration {
        self.turn += 1;
        let prepared = transactions(&self.engine, &self.sites, size, self.turn, immediate);
        let took = commit_all(prepared);
        if self.live {
            // SAFETY: no thread executes them.
            self.engine.reclaim(&unsafe { GracePeriod::promise() }).unwrap();
        }
        took
    }
}

fn way(who: &'static str, mut sites: Sites, size: usize, immediate: bool) -> Contender {
    Contender::new(who, sites.sites.len(), move || sites.change(size, immediate))
}

/// The whole of it, with making exit stubs: invalidating is for good, so each time it is a function
/// of its own.
fn invalidate() -> Contender {
    let engine = subject::engine();
    Contender::new("alias", 1, move || {
        let module = hundreds(&engine, 1, false).remove(0);
        let function = module.function("hundred").unwrap();
        let took = time(|| _ = black_box(engine.invalidate(&function).unwrap()));
        drop(function);
        // SAFETY: no thread executes it.
        engine
            .unregister(module, &unsafe { GracePeriod::promise() })
            .unwrap();
        took
    })
}
