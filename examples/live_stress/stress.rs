//! The stress itself, for the example and for the test of the same name.
//!
//! Every version of a site has a number, and what the site then computes is a known function of it.
//! The writer announces a version before it commits it and confirms it afterwards; a reader looks
//! at the confirmed version before its call and at the announced one after it: the result must
//! belong to one of the versions between.
//!
//! | file | what is in it |
//! |---|---|
//! | `running` | what readers execute, the versions of a site, and how a result is checked |
//! | `readers`, `writer` | the threads |
//! | `parts` | the kinds of code; each has a file: `loaded`, `told` (also unaligned), `remapped`, `own_text` |
//! | `around` | what else goes on in a process: signals, forks, threads, handlers |
//! | `gates`, `behind`, `totals` | what was exercised |

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use patchpoint::deopt::ExitStubs;
use patchpoint::publish::NeverStopped;
use patchpoint::{Engine, Result};

use crate::host::{Host, SharedValue};

mod around;
mod behind;
mod gates;
mod loaded;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod own_text;
mod parts;
mod readers;
mod remapped;
mod running;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod told;
mod totals;
mod writer;

use around::{Counts, Patching, Profilers};
use gates::Settlements;
pub(crate) use parts::SiteKind;
use running::Running;
pub(crate) use running::symbols;
pub(crate) use totals::Totals;
use writer::Writer;

/// What to do.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// How long at least. It goes on until everything has been exercised, as a busy machine may do
    /// little in a few seconds.
    pub(crate) seconds: f64,
    pub(crate) readers: usize,
    pub(crate) seed: u64,
    /// How many executions at least.
    pub(crate) executions: u64,
    /// Whether profilers' signals come all the time, children are forked, threads come and go, and
    /// handlers patch. Not with code of another process.
    pub(crate) disturbed: bool,
    /// The kinds of sites that there are, of which each is available, and has a module in every
    /// generation. With code of another process loaded ones alone.
    pub(crate) sites: Vec<SiteKind>,
    /// Whether sites are settled all the time.
    pub(crate) settles: bool,
}

/// How many generations live at most after the time is over.
const GENERATIONS_AFTER: u64 = 100;

/// What writer and readers share.
struct Shared {
    engine: Engine,
    host: Host,
    current: Mutex<Arc<SharedValue<Running>>>,
    /// The number of the generation that is current.
    number: AtomicU64,
    /// By reader: the generation that it executes, and no earlier one; its calls; its failures.
    at: Vec<AtomicU64>,
    executions: Vec<AtomicU64>,
    counts: Counts,
    /// The readers that profilers sample.
    readers: Mutex<Vec<libc::pthread_t>>,
    failures: AtomicU64,
    stop: AtomicBool,
}

/// Runs the stress.
///
/// # Errors
/// What the engine refuses; the executor is gone.
pub(crate) fn run(config: &Config, host: &Host) -> Result<Totals> {
    // The program's text, and the profilers' timers, can be those of one run.
    static RUNS: Mutex<()> = Mutex::new(());
    let _alone = RUNS.lock().unwrap_or_else(PoisonError::into_inner);
    let deoptimized = Arc::new(AtomicU64::new(0));
    let patching: Arc<OnceLock<Patching>> = Arc::default();
    let (count, patches) = (Arc::clone(&deoptimized), Arc::clone(&patching));
    let exit_stubs = ExitStubs::new().on_deopt(move |frame| {
        // Now and then, as it takes much longer.
        if count.fetch_add(1, Ordering::Relaxed) % 8 == 0 {
            patches.get().inspect(|patching| patching.patch());
        }
        frame.resume()
    });
    let mut builder = host.engine().world(NeverStopped).exits(exit_stubs);
    let settlements = config.settles.then(Settlements::default);
    if let Some(settlements) = &settlements {
        builder = builder.observer(settlements.clone());
    }
    let engine = builder.build()?;
    let [callee, slow, _] = symbols();
    let called = [host.symbol(callee)?, host.symbol(slow)?];
    let mut writer = Writer::new(engine.clone(), host.clone(), config.seed, called, settlements);
    let mut places = config.readers;
    if config.disturbed {
        let mut generation = writer.generation(&[SiteKind::Loaded])?;
        let part = generation.parts.pop().expect("it is of one kind");
        let made = Patching::new(engine.downgrade(), part, generation.running);
        assert!(patching.set(made).is_ok(), "set once");
        places += around::PLACES;
    }
    let mut generation = writer.generation(&config.sites)?;
    let shared = Shared {
        engine,
        host: host.clone(),
        number: AtomicU64::new(generation.running.number),
        current: Mutex::new(Arc::clone(&generation.running)),
        at: (0..places).map(|_| AtomicU64::new(0)).collect(),
        executions: (0..places).map(|_| AtomicU64::new(0)).collect(),
        counts: Counts::default(),
        readers: Mutex::default(),
        failures: AtomicU64::new(0),
        stop: AtomicBool::new(false),
    };
    let traps_before = gates::traps_taken();
    let profilers = config.disturbed.then(Profilers::start);
    let end = Instant::now() + Duration::from_secs_f64(config.seconds);
    std::thread::scope(|scope| {
        let start = |reader: usize| {
            let shared = &shared;
            scope.spawn(move || match reader.checked_sub(config.readers) {
                None => readers::read_until_stopped(shared, reader, config.seed),
                Some(0) => around::fork_until_stopped(shared, reader, config.seed),
                Some(_) => around::come_and_go_until_stopped(shared, reader, config.seed),
            })
        };
        if config.disturbed {
            scope.spawn(|| around::sample_until_stopped(&shared));
        }
        let readers: Vec<_> = (0..places).map(start).collect();
        let written = (|| {
            let mut after = 0;
            while !shared.stop.load(Ordering::Acquire) {
                if Instant::now() >= end && shared.executed() >= config.executions {
                    after += 1;
                    writer.totals.deoptimized = deoptimized.load(Ordering::Relaxed);
                    writer.totals.behind = behind::found();
                    writer.totals.traps = gates::traps_taken() - traps_before;
                    if after > GENERATIONS_AFTER || writer.totals.has_all(config) {
                        break;
                    }
                }
                generation = writer.life_of(&shared, generation, end)?;
            }
            Ok(())
        })();
        shared.stop.store(true, Ordering::Release);
        let read = readers
            .into_iter()
            .map(|reader| reader.join().expect("no reader panics"));
        read.fold(written, |all, one| all.and(one))
    })?;
    // The readers are gone: everything that is retired can be freed.
    writer.reclaim()?;
    writer.reclaim()?;
    let by_handlers = patching.get();
    Ok(Totals {
        executions: shared.executed(),
        signals: profilers.map_or(0, |profilers| profilers.ticks()),
        behind: behind::found(),
        traps: gates::traps_taken() - traps_before,
        children: shared.counts.children.load(Ordering::Relaxed),
        threads: shared.counts.threads.load(Ordering::Relaxed),
        patches_by_handlers: by_handlers.map_or(0, Patching::patches),
        failures: shared.failures.load(Ordering::Relaxed) + by_handlers.map_or(0, Patching::failures),
        deoptimized: deoptimized.load(Ordering::Relaxed),
        ..writer.totals
    })
}

impl Shared {
    fn executed(&self) -> u64 {
        self.executions.iter().map(|n| n.load(Ordering::Relaxed)).sum()
    }
}
