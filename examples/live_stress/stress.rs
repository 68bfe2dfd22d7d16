//! The stress itself, for the example and for the test of the same name.
//!
//! Every version of a site has a number, and what the site then computes is a known function of it. The writer
//! announces a version before it commits it and confirms it afterwards; a reader looks at the confirmed version
//! before its call and at the announced one after it: the result must belong to one of the versions between.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use patchpoint::addr::CodeAddr;
use patchpoint::arch::OnReturn;
use patchpoint::deopt::Ramps;
use patchpoint::publish::{Attached, Drained, NeverStopped};
use patchpoint::sequence::{Label, Sequence, Target, arg, result};
use patchpoint::site::{Module, Site};
use patchpoint::{CallShape, Engine, Result};

use super::compiled;

/// What to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Config {
    pub(crate) seconds: f64,
    pub(crate) readers: usize,
    pub(crate) seed: u64,
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
    pub(crate) deoptimized: u64,
    pub(crate) failures: u64,
}

/// Functions per convention, and sites in all.
const KINDS: usize = 8;
const SITES: usize = 2 * KINDS;
/// How many commits a module lives.
const COMMITS_PER_MODULE: u64 = 4000;
/// How many calls a reader makes between two looks at what is current.
const BATCH: u64 = 64;
/// What LLVM's callee, where it has left a call, and the callee of sequences add.
const CALLEE: u64 = 1 << 40;
const SLOW: u64 = 1 << 41;

extern "C" fn callee(x: u64) -> u64 {
    x + CALLEE
}

/// Blocks now and then, while its caller may be patched.
extern "C" fn slow(x: u64) -> u64 {
    if x % 256 == 0 {
        std::thread::sleep(Duration::from_micros(20));
    }
    x + SLOW
}

/// xorshift64*.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// What a version of a site is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Restored,
    Calls,
    Adds,
}

fn kind(site: usize, version: u64) -> Kind {
    match (site >= KINDS, version % 8) {
        (true, 0) => Kind::Restored,
        (true, 1) => Kind::Calls,
        _ => Kind::Adds,
    }
}

/// What a version of a site adds to its argument.
fn value(site: usize, version: u64) -> u64 {
    match kind(site, version) {
        Kind::Restored if compiled::HAS_CALLEE => CALLEE,
        Kind::Restored => 0,
        Kind::Calls => SLOW + version,
        Kind::Adds => version,
    }
}

/// The sequence of a version, with a random number of guards and additions.
fn sequence(site: usize, version: u64, random: &mut Random) -> Sequence {
    if kind(site, version) == Kind::Calls {
        return Sequence::new()
            .call(CodeAddr::new(slow as *const () as u64), OnReturn::FollowsC)
            .add(result(), version);
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

/// A module that readers execute.
struct Running {
    number: u64,
    functions: [extern "C" fn(u64) -> u64; SITES],
    /// By site: the last version that may be there, and the last that certainly is.
    announced: [AtomicU64; SITES],
    confirmed: [AtomicU64; SITES],
}

/// What writer and readers share.
struct Shared {
    engine: Engine,
    current: Mutex<Arc<Running>>,
    /// The number of the module that is current.
    number: AtomicU64,
    /// By reader: the module that it executes, and no earlier one; its calls; its failures.
    at: Vec<AtomicU64>,
    executions: Vec<AtomicU64>,
    failures: AtomicU64,
    stop: AtomicBool,
}

/// Runs the stress.
///
/// # Errors
/// What the engine refuses.
pub(crate) fn run(config: Config) -> Result<Totals> {
    let deoptimized = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&deoptimized);
    let ramps = Ramps::new().on_deopt(move |frame| {
        count.fetch_add(1, Ordering::Relaxed);
        frame.resume()
    });
    let engine = Engine::builder().world(NeverStopped).exits(ramps).build()?;
    let mut writer = Writer {
        random: Random::new(config.seed),
        totals: Totals::default(),
        engine: engine.clone(),
        next: 1,
        // SAFETY: readers attach before they execute, report `quiescent` outside of all calls only, and nobody else
        // executes code while this is used.
        attached: unsafe { Attached::promise() },
    };
    let (mut module, running) = writer.module()?;
    let shared = Shared {
        engine,
        number: AtomicU64::new(running.number),
        current: Mutex::new(running),
        at: (0..config.readers).map(|_| AtomicU64::new(0)).collect(),
        executions: (0..config.readers).map(|_| AtomicU64::new(0)).collect(),
        failures: AtomicU64::new(0),
        stop: AtomicBool::new(false),
    };
    let end = Instant::now() + Duration::from_secs_f64(config.seconds);
    let written = std::thread::scope(|scope| {
        for reader in 0..config.readers {
            let shared = &shared;
            scope.spawn(move || read(shared, reader, config.seed));
        }
        let written = (|| {
            while Instant::now() < end {
                module = writer.life_of(&shared, module, end)?;
            }
            Ok(())
        })();
        shared.stop.store(true, Ordering::Release);
        written
    });
    written?;
    // The readers are gone: everything that is retired can be freed.
    writer.reclaim()?;
    writer.reclaim()?;
    Ok(Totals {
        executions: shared.executions.iter().map(|n| n.load(Ordering::Relaxed)).sum(),
        failures: shared.failures.load(Ordering::Relaxed),
        deoptimized: deoptimized.load(Ordering::Relaxed),
        ..writer.totals
    })
}

/// One reader: executes sites without pause.
fn read(shared: &Shared, reader: usize, seed: u64) {
    let handle = shared.engine.attach_thread();
    let mut random = Random::new(seed ^ (reader as u64 + 1) << 32);
    let mut running = Arc::clone(&shared.current.lock().unwrap());
    while !shared.stop.load(Ordering::Acquire) {
        handle.quiescent();
        if shared.number.load(Ordering::Acquire) != running.number {
            running = Arc::clone(&shared.current.lock().unwrap());
        }
        shared.at[reader].store(running.number, Ordering::Release);
        for _ in 0..BATCH {
            execute(shared, &running, &mut random);
            handle.checkpoint();
        }
        shared.executions[reader].fetch_add(BATCH, Ordering::Relaxed);
    }
    shared.at[reader].store(u64::MAX, Ordering::Release);
}

#[inline]
fn execute(shared: &Shared, running: &Running, random: &mut Random) {
    let number = random.next();
    let (site, x) = ((number >> 60) as usize % SITES, number & 0xf_ffff);
    let from = running.confirmed[site].load(Ordering::Acquire);
    let found = running.functions[site](x).wrapping_sub(x);
    let to = running.announced[site].load(Ordering::Acquire);
    if !(from..=to).any(|version| value(site, version) == found) {
        let failures = shared.failures.fetch_add(1, Ordering::Relaxed);
        if failures < 10 {
            eprintln!(
                "module {}, site {site}: {x:#x} became {found:#x} more, in versions {from}..={to}",
                running.number
            );
        }
    }
}

/// The writer.
struct Writer {
    random: Random,
    totals: Totals,
    engine: Engine,
    next: u64,
    attached: Attached,
}

impl Writer {
    /// Loads and registers a module, patches what has no original behaviour, and makes its functions callable.
    fn module(&mut self) -> Result<(Module, Arc<Running>)> {
        let code = self.engine.load(compiled::LIVE_STRESS, |name| {
            (name == "callee").then_some(CodeAddr::new(callee as *const () as u64))
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
            // There only they tell that the return address was saved, so that its register is free for calls.
            registration = registration.trust_live_outs();
        }
        let (module, missing) = registration.register_ids(&shapes)?;
        assert!(missing.is_empty(), "{missing:?}");
        let sites = sites(&module);
        for (number, site) in sites.iter().enumerate().take(KINDS) {
            let sequence = sequence(number, 1, &mut self.random);
            self.engine.patch_site(site, &sequence)?;
        }
        let entry = |number: usize| {
            let name = match number {
                0..KINDS => format!("any_{number}"),
                _ => format!("call_{}", number - KINDS),
            };
            let entry = module.function(&name).expect("the object has it").entry();
            // SAFETY: the IR gives every function this signature; the module stays registered while readers use it.
            unsafe { std::mem::transmute::<usize, extern "C" fn(u64) -> u64>(entry.get() as usize) }
        };
        let version = |number: usize| AtomicU64::new(u64::from(number < KINDS));
        let running = Running {
            number: self.next,
            functions: std::array::from_fn(entry),
            announced: std::array::from_fn(version),
            confirmed: std::array::from_fn(version),
        };
        self.next += 1;
        self.totals.modules += 1;
        Ok((module, Arc::new(running)))
    }

    /// Patches and restores a module's sites at random, invalidates them, and replaces the module by another.
    fn life_of(&mut self, shared: &Shared, module: Module, end: Instant) -> Result<Module> {
        let running = Arc::clone(&shared.current.lock().unwrap());
        let sites = sites(&module);
        for commit in 0..COMMITS_PER_MODULE {
            self.change(&running, &sites)?;
            if commit % 128 == 0 {
                self.reclaim()?;
                if Instant::now() >= end {
                    break;
                }
            }
        }
        let mut transaction = self.engine.transaction();
        for site in &sites {
            transaction = transaction.invalidate_site(site)?;
        }
        self.totals.invalidations += transaction.commit()?.sites as u64;
        // Readers go through the ramps for a while.
        std::thread::sleep(Duration::from_micros(200));
        drop(sites);
        let (next, current) = self.module()?;
        let number = current.number;
        *shared.current.lock().unwrap() = current;
        shared.number.store(number, Ordering::Release);
        while shared.at.iter().any(|at| at.load(Ordering::Acquire) < number) {
            std::thread::yield_now();
        }
        // SAFETY: every reader has begun to execute a later module, outside of all calls, and will not come back.
        self.engine.unregister(module, &unsafe { Drained::promise() })?;
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
            transaction = match kind(site, version) {
                Kind::Restored => transaction.restore(&sites[site])?,
                _ => transaction.patch_site(&sites[site], &sequence(site, version, &mut self.random))?,
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
                Kind::Restored => self.totals.restores += 1,
                _ => self.totals.patches += 1,
            }
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
