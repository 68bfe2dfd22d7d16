//! The stress itself, for the example and for the test of the same name.
//!
//! Every version of a site has a number, and what the site then computes is a known function of it.
//! The writer announces a version before it commits it and confirms it afterwards; a reader looks
//! at the confirmed version before its call and at the announced one after it: the result must
//! belong to one of the versions between.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use patchpoint::addr::CodeAddr;
use patchpoint::arch::OnReturn;
use patchpoint::deopt::ExitStubs;
use patchpoint::publish::{Attached, GracePeriod, NeverStopped};
use patchpoint::sequence::{Label, Sequence, Target, arg, result};
use patchpoint::site::{Module, Site};
use patchpoint::{CallShape, Engine, Result};

use super::compiled;
use crate::host::{Host, SharedValue};

mod around;
mod running;

use around::{Counts, Patching, Profilers};
pub(crate) use running::symbols;
use running::{Batch, KINDS, Random, Running, SITES, VersionKind, batch, kind};

/// What to do.
#[derive(Clone, Copy, Debug)]
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
    /// Whether sites are settled all the time.
    pub(crate) settles: bool,
}

/// What was done.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) executions: u64,
    pub(crate) patches: u64,
    pub(crate) restores: u64,
    pub(crate) invalidations: u64,
    pub(crate) modules: u64,
    pub(crate) reclaimed: u64,
    /// Gates that were opened, and sites that waited for a grace period.
    pub(crate) opens: u64,
    pub(crate) waits: u64,
    pub(crate) deoptimized: u64,
    /// Profilers' signals, children, threads that came and went, patches by handlers.
    pub(crate) signals: u64,
    pub(crate) children: u64,
    pub(crate) threads: u64,
    pub(crate) patches_by_handlers: u64,
    pub(crate) failures: u64,
}

impl Totals {
    /// Whether the writer has done everything at least once.
    fn has_all(&self, settles: bool) -> bool {
        let counts = [self.patches, self.restores, self.invalidations, self.reclaimed];
        counts.iter().all(|count| *count > 0) && (self.opens > 0 || !settles)
    }
}

/// How many modules live at most after the time is over.
const MODULES_AFTER: u64 = 100;
/// How many commits a module lives at least: long enough that stubs are reclaimed.
const LEAST_COMMITS: u64 = 512;
/// How many commits a module lives at most.
const COMMITS_PER_MODULE: u64 = 4000;
/// How many commits there are before sites are settled, and how many times that is tried: readers
/// have to report meanwhile.
const SETTLED_AFTER: u64 = 8;
const ATTEMPTS: usize = 32;
/// How many executions a reader makes between two reports that it is outside of all code. A call
/// into another process takes as long as a thousand of them.
const BATCH: u32 = 64;
const BATCH_THERE: u32 = 1 << 14;

/// The sequence of a version, with a random number of guards and additions.
fn sequence(site: usize, version: u64, slow: CodeAddr, random: &mut Random) -> Sequence {
    if kind(site, version) == VersionKind::Calls {
        // SAFETY: the function takes the site's word and returns one.
        let call = unsafe { Sequence::new().call(slow, OnReturn::FollowsC) };
        return call.add(result(), version);
    }
    let never = Label::new(0);
    let mut sequence = Sequence::new();
    for guard in 0..random.below(5) {
        sequence = sequence.guard_ne(arg(0), u64::MAX / 2 + guard * 0x10001, never);
    }
    sequence = sequence.mov(result(), arg(0));
    let mut rest = version;
    for _ in 0..random.below(4) {
        let part = random.below(rest + 1);
        sequence = sequence.add(result(), part);
        rest -= part;
    }
    sequence.add(result(), rest).jump(Target::End).bind(never).trap()
}

/// What writer and readers share.
struct Shared {
    engine: Engine,
    host: Host,
    current: Mutex<Arc<SharedValue<Running>>>,
    /// The number of the module that is current.
    number: AtomicU64,
    /// By reader: the module that it executes, and no earlier one; its calls; its failures.
    at: Vec<AtomicU64>,
    executions: Vec<AtomicU64>,
    counts: Counts,
    failures: AtomicU64,
    stop: AtomicBool,
}

/// Runs the stress.
///
/// # Errors
/// What the engine refuses; the executor is gone.
pub(crate) fn run(config: Config, host: &Host) -> Result<Totals> {
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
    let engine = host.engine().world(NeverStopped).exits(exit_stubs).build()?;
    let [callee, slow, _] = symbols();
    let mut writer = Writer {
        random: Random::new(config.seed),
        totals: Totals::default(),
        settles: config.settles,
        engine: engine.clone(),
        host: host.clone(),
        callee: host.symbol(callee)?,
        slow: host.symbol(slow)?,
        next: 1,
        // SAFETY: readers attach before they execute, report `quiescent` outside of all calls only, and nobody else
        // executes code while this is used.
        attached: unsafe { Attached::promise() },
    };
    let mut places = config.readers;
    if config.disturbed {
        let (module, running) = writer.module()?;
        let made = Patching::new(engine.downgrade(), module, running);
        assert!(patching.set(made).is_ok(), "set once");
        places += around::PLACES;
    }
    let (mut module, running) = writer.module()?;
    let shared = Shared {
        engine,
        host: host.clone(),
        number: AtomicU64::new(running.number),
        current: Mutex::new(running),
        at: (0..places).map(|_| AtomicU64::new(0)).collect(),
        executions: (0..places).map(|_| AtomicU64::new(0)).collect(),
        counts: Counts::default(),
        failures: AtomicU64::new(0),
        stop: AtomicBool::new(false),
    };
    let profilers = config.disturbed.then(Profilers::start);
    let end = Instant::now() + Duration::from_secs_f64(config.seconds);
    std::thread::scope(|scope| {
        let start = |reader: usize| {
            let shared = &shared;
            scope.spawn(move || match reader.checked_sub(config.readers) {
                None => read_until_stopped(shared, reader, config.seed),
                Some(0) => around::fork_until_stopped(shared, reader, config.seed),
                Some(_) => around::come_and_go_until_stopped(shared, reader, config.seed),
            })
        };
        let readers: Vec<_> = (0..places).map(start).collect();
        let written = (|| {
            let mut after = 0;
            let is_done = |writer: &Writer| {
                writer.totals.has_all(config.settles) && deoptimized.load(Ordering::Relaxed) > 0
            };
            while !shared.stop.load(Ordering::Acquire) {
                if Instant::now() >= end && shared.executed() >= config.executions {
                    after += 1;
                    if after > MODULES_AFTER || is_done(&writer) {
                        break;
                    }
                }
                module = writer.life_of(&shared, module, end)?;
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

/// The module that is current, which stays until the reader of that place is at a later one.
fn current_for(shared: &Shared, place: usize) -> Arc<SharedValue<Running>> {
    // First: the writer, which makes another one current and looks here then, finds it, or has done
    // so before.
    shared.at[place].store(0, Ordering::SeqCst);
    let running = Arc::clone(&shared.current.lock().unwrap());
    shared.at[place].store(running.number, Ordering::Release);
    running
}

fn read_until_stopped(shared: &Shared, reader: usize, seed: u64) -> Result<()> {
    read_some(shared, reader, seed, None)
}

/// The same, for so many batches at most.
fn read_some(shared: &Shared, reader: usize, seed: u64, batches: Option<u32>) -> Result<()> {
    let read = read(shared, reader, seed, batches);
    // The writer waits for nobody who is not there any more.
    shared.at[reader].store(u64::MAX, Ordering::Release);
    if read.is_err() {
        shared.stop.store(true, Ordering::Release);
    }
    read
}

/// One reader: executes sites without pause.
fn read(shared: &Shared, reader: usize, seed: u64, batches: Option<u32>) -> Result<()> {
    let handle = shared.engine.attach_thread();
    let [.., loops] = symbols();
    let (mut caller, loops) = (shared.host.caller()?, shared.host.symbol(loops)?);
    let mut random = Random::new(seed ^ (reader as u64 + 1) << 32);
    let mut running = current_for(shared, reader);
    let mut left = batches;
    while !shared.stop.load(Ordering::Acquire) && left != Some(0) {
        left = left.map(|left| left - 1);
        handle.quiescent();
        if shared.number.load(Ordering::Acquire) != running.number {
            running = Arc::clone(&shared.current.lock().unwrap());
        }
        shared.at[reader].store(running.number, Ordering::Release);
        let done = match shared.host {
            Host::Here => batch(&running, &mut random, BATCH, || handle.checkpoint()),
            Host::There(_) => {
                let args = [running.addr(), random.next(), u64::from(BATCH_THERE)];
                // SAFETY: the function is one of these arguments; what it executes stays until the writer has seen
                // this reader at a later module.
                Batch::of_number(unsafe { caller.call(loops, args) }?)
            }
        };
        shared.executions[reader].fetch_add(done.executions.into(), Ordering::Relaxed);
        shared.failures.fetch_add(done.failures.into(), Ordering::Relaxed);
    }
    Ok(())
}

/// The writer.
struct Writer {
    random: Random,
    totals: Totals,
    settles: bool,
    engine: Engine,
    host: Host,
    /// The target of LLVM's calls, where it has left some, and of those of sequences.
    callee: CodeAddr,
    slow: CodeAddr,
    next: u64,
    attached: Attached,
}

impl Writer {
    /// Loads and registers a module, patches what has no original behaviour, and makes its
    /// functions callable.
    fn module(&mut self) -> Result<(Module, Arc<SharedValue<Running>>)> {
        let code = self.engine.load(compiled::LIVE_STRESS, |name| {
            (name == "callee").then_some(self.callee)
        })?;
        let shapes: HashMap<_, _> = (0..KINDS as u32)
            .flat_map(|k| {
                let any = CallShape::any_reg(compiled::any_reserved(k)).result().args(1);
                let call = CallShape::c(compiled::call_reserved(k)).result().args(1);
                [(100 + u64::from(k), any), (200 + u64::from(k), call)]
            })
            .map(|(id, shape)| (id.into(), shape))
            .collect();
        let mut registration = self.engine.registration(code).live();
        if cfg!(target_arch = "riscv64") {
            // There only they tell that the return address was saved, so that its register is free
            // for calls.
            registration = registration.trust_live_outs();
        }
        // SAFETY: the shapes are those of the object's IR; no thread is in the code yet.
        let (module, missing) = unsafe { registration.register_ids(&shapes) }?;
        assert!(missing.is_empty(), "{missing:?}");
        let sites = sites(&module);
        for (number, site) in sites.iter().enumerate().take(KINDS) {
            let sequence = sequence(number, 1, self.slow, &mut self.random);
            self.engine.patch_site(site, &sequence)?;
        }
        module.release();
        let entry = |number: usize| {
            let name = match number {
                0..KINDS => format!("any_{number}"),
                _ => format!("call_{}", number - KINDS),
            };
            let entry = module.function(&name).and_then(|function| function.entry());
            entry.expect("the object has it, and may run").get()
        };
        // SAFETY: the IR gives every function this signature; the module stays registered while readers use it.
        let running = unsafe { Running::new(self.next, std::array::from_fn(entry)) };
        let running = self.host.place(running)?;
        self.next += 1;
        self.totals.modules += 1;
        Ok((module, Arc::new(running)))
    }

    /// Patches and restores a module's sites at random, invalidates them, and replaces the module
    /// by another.
    fn life_of(&mut self, shared: &Shared, module: Module, end: Instant) -> Result<Module> {
        let running = Arc::clone(&shared.current.lock().unwrap());
        let sites = sites(&module);
        for commit in 1..=COMMITS_PER_MODULE {
            self.change(&running, &sites)?;
            if self.settles && commit % SETTLED_AFTER == 0 {
                self.settle()?;
            }
            if commit % 128 == 0 {
                self.reclaim()?;
                if commit >= LEAST_COMMITS && Instant::now() >= end {
                    break;
                }
            }
        }
        let mut transaction = self.engine.transaction();
        for site in &sites {
            transaction.invalidate_site(site)?;
        }
        self.totals.invalidations += transaction.commit()?.sites as u64;
        // Readers go through the exit stubs for a while.
        std::thread::sleep(Duration::from_micros(200));
        drop(sites);
        let (next, current) = self.module()?;
        let number = current.number;
        *shared.current.lock().unwrap() = current;
        shared.number.store(number, Ordering::Release);
        running.end();
        while shared.at.iter().any(|at| at.load(Ordering::Acquire) < number) {
            std::thread::yield_now();
        }
        // SAFETY: every reader has begun to execute a later module, outside of all calls, and will not come back.
        let grace_period = unsafe { GracePeriod::promise() };
        self.engine.unregister(module, &grace_period)?;
        Ok(next)
    }

    /// One transaction of one to three sites.
    fn change(&mut self, running: &Running, sites: &[Site]) -> Result<()> {
        let first = self.random.below(SITES as u64) as usize;
        let count = match self.random.below(8) {
            0 => 3,
            _ => 1,
        };
        let mut transaction = self.engine.transaction();
        let chosen = (first..first + count).map(|number| number % SITES);
        for site in chosen.clone() {
            let version = running.announced[site].load(Ordering::Relaxed) + 1;
            match kind(site, version) {
                VersionKind::Restored => transaction.restore(&sites[site])?,
                _ => {
                    let sequence = sequence(site, version, self.slow, &mut self.random);
                    transaction.patch_site(&sites[site], &sequence)?
                }
            };
        }
        let prepared = transaction.prepare()?;
        for site in chosen.clone() {
            running.announced[site].fetch_add(1, Ordering::AcqRel);
        }
        prepared.commit()?;
        for site in chosen {
            let version = running.confirmed[site].fetch_add(1, Ordering::AcqRel) + 1;
            match kind(site, version) {
                VersionKind::Restored => self.totals.restores += 1,
                _ => self.totals.patches += 1,
            }
        }
        Ok(())
    }

    /// Settles what was patched, or some of it: readers may take their time.
    fn settle(&mut self) -> Result<()> {
        for _ in 0..ATTEMPTS {
            let done = self.engine.settle(&self.attached)?;
            self.totals.opens += done.settled as u64;
            self.totals.waits += done.waiting as u64;
            if done.waiting == 0 {
                break;
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        Ok(())
    }

    fn reclaim(&mut self) -> Result<()> {
        self.totals.reclaimed += self.engine.reclaim_passed(&self.attached)? as u64;
        Ok(())
    }
}

/// The sites in the order of their numbers.
fn sites(module: &Module) -> Vec<Site> {
    let mut sites: Vec<Site> = module.sites().collect();
    sites.sort_by_key(|site| site.id());
    sites
}
