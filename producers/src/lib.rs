//! One thread executes sites of another producer's code and checks every result, while another one
//! patches, restores and settles them.
//!
//! Every version of a site has a number, and what the function around the site then returns is known.
//! The writer announces a version before it commits it and confirms it afterwards; the reader looks
//! at the confirmed version before its call and at the announced one after it: the result must
//! belong to one of the versions between.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use patchpoint::addr::CodeAddr;
use patchpoint::arch::OnReturn;
use patchpoint::engine::LoadedCode;
use patchpoint::image::Adoption;
use patchpoint::memory::{Strategy, StrategyChoice};
use patchpoint::publish::trap::Traps;
use patchpoint::publish::{Attached, GracePeriod, NeverStopped};
use patchpoint::sequence::{Sequence, arg, result};
use patchpoint::site::{Module, Site};
use patchpoint::{Engine, Result};

/// What a compiled function here is.
pub type Function = extern "C" fn(u64) -> u64;

/// What such a function does.
pub type Computes = fn(u64) -> u64;

/// The sequence of a version.
pub type Sequences = fn(u64) -> Sequence;

/// What a function returns in a version of its site, for an argument.
pub type Values = fn(version: u64, x: u64) -> u64;

/// A site and the function that executes it, as a function of the version that the site has.
pub struct Subject {
    /// The site.
    pub site: Site,
    /// The function that executes it once.
    pub function: Function,
    /// What the function returns while the site is as it was compiled; `None` if that is nothing
    /// that could be executed: then the site is patched before it runs, and never restored.
    pub original: Option<Computes>,
    /// The sequence of a version.
    pub sequence: Sequences,
    /// What the function returns in that version.
    pub value: Values,
}

impl Subject {
    fn is_restored(&self, version: u64) -> bool {
        self.original.is_some() && version.is_multiple_of(4)
    }

    fn expected(&self, version: u64, x: u64) -> u64 {
        match self.original {
            Some(original) if self.is_restored(version) => original(x),
            _ => (self.value)(version, x),
        }
    }
}

/// What was done.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "they are printed under these names")]
pub struct Figures {
    pub producer: &'static str,
    pub strategy: String,
    pub lives: u32,
    pub sites: usize,
    pub patches: u64,
    pub restores: u64,
    pub settled: u64,
    pub executions: u64,
    pub mismatches: u64,
    /// Of the process, while the module was patched.
    pub traps: u64,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: strategy {}, {} modules, {} sites, {} patches, {} restores, {} settled, {} executions by the other thread, \
             {} mismatches, {} traps taken",
            self.producer,
            self.strategy,
            self.lives,
            self.sites,
            self.patches,
            self.restores,
            self.settled,
            self.executions,
            self.mismatches,
            self.traps
        )
    }
}

/// An engine in whose world no thread is ever stopped.
pub fn engine() -> Engine {
    let engine = Engine::builder().world(NeverStopped).build();
    engine.expect("this machine is one that engines are built for")
}

impl Figures {
    /// Nothing yet.
    pub fn of(producer: &'static str) -> Self {
        Self {
            producer,
            strategy: String::new(),
            lives: 0,
            sites: 0,
            patches: 0,
            restores: 0,
            settled: 0,
            executions: 0,
            mismatches: 0,
            traps: 0,
        }
    }

    /// Prints them.
    ///
    /// # Panics
    /// A result was that of no version that may have been there, or something was never done.
    pub fn finish(self) {
        println!("{self}");
        assert_eq!(self.mismatches, 0);
        assert!(self.patches > 0 && self.restores > 0 && self.executions > 0);
    }
}

/// How long each test runs: `PRODUCERS_SECONDS`, or two seconds.
pub fn duration() -> Duration {
    let asked = std::env::var("PRODUCERS_SECONDS").ok();
    let seconds = asked.map(|text| text.parse().expect("PRODUCERS_SECONDS is a number"));
    Duration::from_secs_f64(seconds.unwrap_or(2.0))
}

/// How often code is compiled, adopted, patched and given back in that time, and how long each time.
pub fn lives() -> (u32, Duration) {
    let lives = duration().as_secs_f64().ceil().max(4.0) as u32;
    (lives, duration() / lives)
}

/// How many commits a life has at least, however long it takes, and how many there are between two
/// calls of `settle`, of `reclaim_passed`, and of what the test does besides.
const LEAST_COMMITS: u64 = 500;
const SETTLED_AFTER: u64 = 8;
const RECLAIMED_AFTER: u64 = 64;
const OTHERS_AFTER: u64 = 256;
/// How many times settling is tried: the reader has to report meanwhile.
const ATTEMPTS: usize = 32;
/// How many executions there are between two reports that the reader is outside of all code.
const BATCH: u64 = 64;

/// What both threads share.
struct Shared<'a> {
    subjects: &'a [Subject],
    announced: Vec<AtomicU64>,
    confirmed: Vec<AtomicU64>,
    executions: AtomicU64,
    mismatches: AtomicU64,
    stop: AtomicBool,
}

/// Patches, restores and settles the sites of a live module, which is released by this, while
/// another thread executes them. Now and then it calls `beside`.
///
/// # Errors
/// What the engine refuses.
pub fn exercise(
    engine: &Engine,
    module: &Module,
    subjects: &[Subject],
    duration: Duration,
    figures: &mut Figures,
    mut beside: impl FnMut(),
) -> Result<()> {
    let first = |subject: &Subject| u64::from(subject.original.is_none());
    for subject in subjects.iter().filter(|subject| subject.original.is_none()) {
        engine.patch_site(&subject.site, &(subject.sequence)(1))?;
    }
    module.release();
    let versions = || {
        subjects
            .iter()
            .map(|subject| AtomicU64::new(first(subject)))
            .collect()
    };
    let shared = Shared {
        subjects,
        announced: versions(),
        confirmed: versions(),
        executions: AtomicU64::new(0),
        mismatches: AtomicU64::new(0),
        stop: AtomicBool::new(false),
    };
    let traps = || Traps::install().map(|traps| traps.taken());
    let taken = traps()?;
    figures.strategy = format!("{:?}", module.areas()[0].strategy());
    figures.lives += 1;
    figures.sites += subjects.len();
    let end = Instant::now() + duration;
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| read(engine, &shared));
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        let mut written = Ok(());
        let mut commits = 0;
        while written.is_ok() && (Instant::now() < end || commits < LEAST_COMMITS) {
            commits += 1;
            written = write(engine, &shared, &mut random, commits, figures);
            if commits.is_multiple_of(OTHERS_AFTER) {
                beside();
            }
        }
        shared.stop.store(true, Ordering::Release);
        reader.join().expect("the reader does not panic");
        written
    })?;
    figures.executions += shared.executions.load(Ordering::Relaxed);
    figures.traps += traps()? - taken;
    figures.mismatches += shared.mismatches.load(Ordering::Relaxed);
    Ok(())
}

/// Does something while another thread executes functions, and checks that they do what they did
/// when they were compiled. Those without a known result are left out.
fn while_executed<T>(engine: &Engine, functions: &[(Function, Computes)], what: impl FnOnce() -> T) -> T {
    let (stop, executions) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let handle = engine.attach_thread();
            while !stop.load(Ordering::Acquire) {
                for (function, original) in functions {
                    let x = executions.fetch_add(1, Ordering::Relaxed);
                    assert_eq!(function(x), original(x));
                }
                handle.quiescent();
            }
        });
        let wait = |least| {
            while executions.load(Ordering::Relaxed) < least && !reader.is_finished() {
                std::thread::yield_now();
            }
        };
        wait(1000);
        let done = what();
        wait(executions.load(Ordering::Relaxed) + 1000);
        stop.store(true, Ordering::Release);
        reader.join().expect("every result was right");
        done
    })
}

/// Adopts code by the strategy that the engine chooses.
///
/// # Safety
/// As for [`Adoption::promise`], and nobody has executed the code unless `has_run` says so.
///
/// # Panics
/// The engine refuses it.
pub unsafe fn adopt(engine: &Engine, adoption: Adoption, has_run: bool) -> LoadedCode {
    let adoption = match has_run {
        true => adoption,
        false => adoption.not_yet_run(),
    };
    // SAFETY: the caller's promise.
    let code = unsafe { adoption.promise() }.expect("it is described");
    let adopted = engine.adopt(code, StrategyChoice::Auto);
    adopted.expect("it is private memory")
}

/// Registers a module, which is found to be remapped; while another thread executes these functions of
/// it, if it has run.
pub fn registered(
    engine: &Engine,
    executed: Option<&[(Function, Computes)]>,
    register: impl FnOnce() -> Module,
) -> Module {
    let module = match executed {
        Some(functions) => while_executed(engine, functions, register),
        None => register(),
    };
    assert_eq!(module.areas()[0].strategy(), Strategy::Remap);
    module
}

/// Restores all sites that had something to restore.
///
/// # Errors
/// What the engine refuses.
pub fn restore(engine: &Engine, subjects: &[Subject]) -> Result<()> {
    let mut transaction = engine.transaction();
    for subject in subjects.iter().filter(|subject| subject.original.is_some()) {
        transaction.restore(&subject.site)?;
    }
    transaction.commit()?;
    Ok(())
}

/// Unregisters a module whose code is not executed any more.
///
/// # Safety
/// No thread is in the code of the module, or will execute it before this returns, nor afterwards
/// unless its sites were restored and were nops when they were registered.
///
/// # Errors
/// What the engine refuses.
pub unsafe fn unregister(engine: &Engine, module: Module) -> Result<()> {
    // SAFETY: the caller's promise.
    let grace_period = unsafe { GracePeriod::promise() };
    engine.unregister(module, &grace_period)?;
    engine.reclaim(&grace_period)?;
    Ok(())
}

/// One transaction, and now and then what a runtime does besides.
fn write(
    engine: &Engine,
    shared: &Shared<'_>,
    random: &mut Random,
    commits: u64,
    figures: &mut Figures,
) -> Result<()> {
    let count = shared.subjects.len();
    let first = random.next() as usize % count;
    let together = match random.next() % 8 {
        0 => count.min(3),
        _ => 1,
    };
    let chosen = || (first..first + together).map(|at| at % count);
    let mut transaction = engine.transaction();
    for at in chosen() {
        let subject = &shared.subjects[at];
        let version = shared.announced[at].load(Ordering::Relaxed) + 1;
        if subject.is_restored(version) {
            transaction.restore(&subject.site)?;
        } else {
            transaction.patch_site(&subject.site, &(subject.sequence)(version))?;
        }
    }
    let prepared = transaction.prepare()?;
    for at in chosen() {
        shared.announced[at].fetch_add(1, Ordering::AcqRel);
    }
    prepared.commit()?;
    for at in chosen() {
        let version = shared.confirmed[at].fetch_add(1, Ordering::AcqRel) + 1;
        match shared.subjects[at].is_restored(version) {
            true => figures.restores += 1,
            false => figures.patches += 1,
        }
    }
    // SAFETY: the reader is attached, and reports `quiescent` outside of all compiled code only; nobody
    // else executes it.
    let attached = unsafe { Attached::promise() };
    if commits.is_multiple_of(SETTLED_AFTER) {
        for _ in 0..ATTEMPTS {
            let done = engine.settle(&attached)?;
            figures.settled += done.settled as u64;
            if done.waiting == 0 {
                break;
            }
            std::thread::sleep(Duration::from_micros(50));
        }
    }
    if commits.is_multiple_of(RECLAIMED_AFTER) {
        engine.reclaim_passed(&attached)?;
    }
    Ok(())
}

/// Executes sites until it is stopped.
fn read(engine: &Engine, shared: &Shared<'_>) {
    let handle = engine.attach_thread();
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    while !shared.stop.load(Ordering::Acquire) {
        for _ in 0..BATCH {
            let number = random.next();
            let (at, x) = (number as usize % shared.subjects.len(), number >> 44);
            let subject = &shared.subjects[at];
            let from = shared.confirmed[at].load(Ordering::Acquire);
            let found = (subject.function)(x);
            let to = shared.announced[at].load(Ordering::Acquire);
            if !(from..=to).any(|version| subject.expected(version, x) == found) {
                shared.mismatches.fetch_add(1, Ordering::Relaxed);
                eprintln!("site {at}: {x:#x} became {found:#x}, in versions {from}..={to}");
            }
            handle.checkpoint();
        }
        shared.executions.fetch_add(BATCH, Ordering::Relaxed);
        handle.quiescent();
    }
}

/// xorshift64*.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

/// What [`callee`] and [`other_callee`] add to their argument.
pub const CALLEE: u64 = 1 << 40;
/// See [`CALLEE`].
pub const OTHER_CALLEE: u64 = 1 << 41;

/// A function that compiled code calls.
pub extern "C" fn callee(x: u64) -> u64 {
    x + CALLEE
}

/// A function that sequences call.
pub extern "C" fn other_callee(x: u64) -> u64 {
    x + OTHER_CALLEE
}

/// The address of [`callee`] or [`other_callee`].
pub fn address(function: Function) -> CodeAddr {
    CodeAddr::new(function as *const () as u64)
}

/// A sequence for a site with one argument and a result: their sum with the version.
pub fn adding(version: u64) -> Sequence {
    Sequence::new().mov(result(), arg(0)).add(result(), version)
}

/// What [`adding`] computes.
pub fn added(version: u64, x: u64) -> u64 {
    x + version
}

/// As [`adding`], for a site at which functions can be called: now and then one is.
pub fn adding_or_calling(version: u64) -> Sequence {
    match version % 4 {
        1 => {
            // SAFETY: that function takes the site's argument and returns its result.
            let call = unsafe { Sequence::new().call(address(other_callee), OnReturn::FollowsC) };
            call.add(result(), version)
        }
        _ => adding(version),
    }
}

/// What [`adding_or_calling`] computes.
pub fn added_or_called(version: u64, x: u64) -> u64 {
    match version % 4 {
        1 => x + OTHER_CALLEE + version,
        _ => x + version,
    }
}

/// A sequence for the entry of a function of one argument: it returns for it, or hands over to
/// another.
pub fn returning_or_handing_over(version: u64) -> Sequence {
    match version % 4 {
        // SAFETY: that function takes and returns what the other does.
        1 => Sequence::new().jump(unsafe { patchpoint::sequence::Target::addr(address(other_callee)) }),
        _ => adding(version).ret(),
    }
}

/// What [`returning_or_handing_over`] computes.
pub fn returned_or_handed_over(version: u64, x: u64) -> u64 {
    match version % 4 {
        1 => x + OTHER_CALLEE,
        _ => x + version,
    }
}
