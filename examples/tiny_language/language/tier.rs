//! Tiers: which functions have compiled code, making it, and discarding it.
//!
//! One lock is held while the tiers change. Compiled code runs on meanwhile: where there are
//! several threads its modules are live. Callers ask for an entry without the lock; one that has
//! got it just before the code was discarded still comes to the code's first invalidated site, and
//! is deoptimized there.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use patchpoint::addr::CodeAddr;
use patchpoint::deopt::{Assumptions, ExitStubs};
use patchpoint::ic::{Caches, Chain, Counting, Totals};
use patchpoint::publish::{Attached, GracePeriod, NeverStopped, SingleThreaded, ThreadHandle};
use patchpoint::sequence::{Sequence, Target};
use patchpoint::site::Function;
use patchpoint::{Engine, Result};

use super::bytecode::{FUNCTIONS, FunctionId};
use super::compiled::{self, BytecodePlace, SitePurpose, Version};
use super::figures::Figures;
use super::interpreter;
use super::isolate::Isolate;
use super::lookup::{class_key, code_key, lookup, probe};
use super::object::ClassId;
use super::value::Word;
use crate::host::Host;

/// What the hopeful version of `total` takes for granted: that no isolate has another `scale`.
const SCALE_IS_ONE: &str = "scale is 1";

/// How a runtime compiles.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    /// Whether several threads run isolates.
    pub(crate) threads: bool,
    /// Calls of a function after which it is compiled.
    pub(crate) hot: u32,
    /// Executions of rare cases after which its code is discarded.
    pub(crate) patience: u32,
    pub(crate) counting: Counting,
}

/// The entry of compiled code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry(CodeAddr);

impl Entry {
    pub(crate) fn addr(self) -> CodeAddr {
        self.0
    }
}

/// What callers see of a function's code.
#[derive(Debug, Default)]
struct Tier {
    /// 0 where there is none.
    entry: AtomicU64,
    calls: AtomicU32,
    rare: AtomicU32,
}

/// The code that functions have, and how many isolates have another `scale`.
#[derive(Default)]
struct TierState {
    code: [Option<(Function, Version)>; FUNCTIONS.len()],
    scaled: usize,
}

/// See above.
pub(crate) struct Tiers {
    host: Host,
    engine: Engine,
    caches: Caches,
    assumptions: Assumptions,
    options: Options,
    tiers: [Tier; FUNCTIONS.len()],
    state: Mutex<TierState>,
    attached: Attached,
    figures: Arc<Figures>,
}

impl Tiers {
    pub(crate) fn new(options: Options, host: &Host, figures: &Arc<Figures>) -> Result<Self> {
        let policy = Chain {
            cool_down: 64,
            ..Chain::default()
        };
        let caches = Caches::builder()
            .policy(policy)
            .counting(options.counting)
            .shared_cache(256, probe)
            .lookup(lookup);
        let exits = caches.exits(ExitStubs::new().on_deopt(super::deopt::leave));
        let builder = match options.threads {
            true => host.engine().world(NeverStopped),
            // SAFETY: the runtime's only isolate is on one thread.
            false => host.engine().world(unsafe { SingleThreaded::promise() }),
        };
        Ok(Self {
            host: host.clone(),
            engine: builder.exits(exits).build()?,
            caches,
            assumptions: Assumptions::new(),
            options,
            tiers: Default::default(),
            state: Mutex::default(),
            // SAFETY: every isolate attaches its thread, and reports only between programs.
            attached: unsafe { Attached::promise() },
            figures: Arc::clone(figures),
        })
    }

    /// Who executes the code.
    pub(crate) fn host(&self) -> &Host {
        &self.host
    }

    fn lock(&self) -> MutexGuard<'_, TierState> {
        self.state.lock().unwrap()
    }

    fn tier(&self, function: FunctionId) -> &Tier {
        &self.tiers[function as usize]
    }

    // ---- entering ----

    /// The compiled code of a function. A function that is called often enough gets some.
    pub(crate) fn entry(&self, function: FunctionId) -> Option<Entry> {
        let tier = self.tier(function);
        let known = || match tier.entry.load(Ordering::Acquire) {
            0 => None,
            addr => Some(Entry(CodeAddr::new(addr))),
        };
        known().or_else(|| {
            let calls = tier.calls.fetch_add(1, Ordering::Relaxed) + 1;
            if calls >= self.options.hot {
                self.tier_up(function).expect("the objects are sound");
            }
            known()
        })
    }

    /// Gives a function compiled code: as hopeful as it may be.
    fn tier_up(&self, function: FunctionId) -> Result<()> {
        let mut state = self.lock();
        let may_hope = !self.assumptions.is_broken(SCALE_IS_ONE);
        let Some(object) = compiled::object(function, may_hope) else {
            return Ok(());
        };
        if state.code[function as usize].is_some() {
            return Ok(());
        }
        self.figures.tier_ups.of(|| {
            let code = self.engine.load(object.bytes, |_| None)?;
            let mut registration = self
                .engine
                .registration(code)
                .describe(|site| BytecodePlace::of(site.id()));
            if let Some(entry) = object.entry() {
                registration = registration.entry(entry);
            }
            if self.options.threads {
                registration = registration.live();
            }
            if cfg!(target_arch = "riscv64") {
                // There only they tell that the return address was saved, so that its register is
                // free for calls.
                registration = registration.trust_live_outs();
            }
            // SAFETY: the language's compiler gives each patchpoint its ID by its place, and so its shape; no thread is in the
            // code yet. Caches and handlers deal in words of the language, which are what the code computes with.
            let module = unsafe { registration.register(|record| BytecodePlace::of(record.id())?.shape()) }?;
            for site in module.sites() {
                match BytecodePlace::of(site.id()).map(|place| place.kind) {
                    Some(SitePurpose::Operation) => drop(self.caches.attach(&self.engine, &site)?),
                    Some(SitePurpose::Rare) => {
                        let leave = Sequence::new().jump(Target::Deopt);
                        self.engine.patch_site(&site, &leave)?;
                    }
                    _ => {}
                }
            }
            let compiled = module.function(object.name)?;
            if object.version == Version::Hopeful {
                self.assumptions.depend(&compiled, [SCALE_IS_ONE])?;
            }
            module.release();
            let entry = compiled.entry()?.get();
            state.code[function as usize] = Some((compiled, object.version));
            self.tier(function).entry.store(entry, Ordering::Release);
            Ok(())
        })
    }

    // ---- discarding code ----

    /// A class has another method or constant: what caches know of it is over.
    pub(crate) fn class_changed(&self, class: ClassId) {
        let retract = || self.caches.retract(&[class_key(class)]);
        self.figures
            .retractions
            .of(retract)
            .expect("the caches can be changed");
    }

    /// An isolate has another `scale` than 1: the hopeful versions are invalidated, if they were
    /// not yet.
    pub(crate) fn scale_set(&self) {
        let mut state = self.lock();
        state.scaled += 1;
        if state.scaled > 1 {
            return;
        }
        let broken = self.figures.breaks.of(|| {
            self.assumptions.break_one(&self.engine, SCALE_IS_ONE)?;
            self.retire_all(&mut state, Version::Hopeful)
        });
        broken.expect("every site has room for a way to its exit stub");
    }

    /// An isolate's `scale` is 1 again. If all are, `total` may be compiled hopefully again.
    pub(crate) fn scale_reset(&self) {
        let mut state = self.lock();
        state.scaled -= 1;
        if state.scaled == 0 {
            self.assumptions.renew(SCALE_IS_ONE);
            let hopeful = FunctionId::Total;
            if matches!(state.code[hopeful as usize], Some((_, Version::Careful))) {
                let retired = self.figures.retired.of(|| self.retire(&mut state, hopeful));
                retired.expect("every site has room for a way to its exit stub");
            }
        }
    }

    /// A function's code has come to what it was not compiled for. If that is not rare, it is worth
    /// nothing.
    pub(crate) fn rare_exits(&self, function: FunctionId) {
        let rare = self.tier(function).rare.fetch_add(1, Ordering::Relaxed) + 1;
        let mut state = self.lock();
        if rare >= self.options.patience && state.code[function as usize].is_some() {
            let retired = self.figures.retired.of(|| self.retire(&mut state, function));
            retired.expect("every site has room for a way to its exit stub");
        }
    }

    fn retire_all(&self, state: &mut TierState, version: Version) -> Result<()> {
        for function in FUNCTIONS {
            if matches!(&state.code[function as usize], Some((_, found)) if *found == version) {
                self.retire(state, function)?;
            }
        }
        Ok(())
    }

    /// Nobody enters the function's code any more, and who is in it leaves it at the next site.
    fn retire(&self, state: &mut TierState, function: FunctionId) -> Result<()> {
        let Some((code, _)) = state.code[function as usize].take() else {
            return Ok(());
        };
        let tier = self.tier(function);
        tier.entry.store(0, Ordering::Release);
        tier.calls.store(0, Ordering::Relaxed);
        tier.rare.store(0, Ordering::Relaxed);
        let mut change = self.engine.transaction();
        change.invalidate(&code)?;
        // Who enters nevertheless, in a call that was on its way, interprets from the start.
        // Another process cannot jump to the interpreter: there the first site is a way out all the
        // same.
        let is_here = matches!(self.host, Host::Here);
        if is_here && code.sites().any(|site| !site.is_recorded()) {
            // SAFETY: the bridge of a function takes what its code takes, and returns a word as that does.
            unsafe { change.redirect(&code, bridge(function)) }?;
        }
        change.commit()?;
        self.caches.retract(&[code_key(function)])?;
        Ok(())
    }

    // ---- threads, figures ----

    /// The thread of an isolate.
    pub(crate) fn attach_thread(&self) -> ThreadHandle {
        self.engine.attach_thread()
    }

    /// Frees the stubs that no thread is in any more, and what was retracted from the shared cache.
    /// Puts chains in order. To be called where this thread has no compiled code on its stack.
    pub(crate) fn reclaim(&self) -> usize {
        self.caches.reorder().expect("either order can be had");
        let reclaimed = match self.options.threads {
            true => self
                .caches
                .reclaim_passed(&self.attached)
                .and_then(|_| self.engine.reclaim_passed(&self.attached)),
            false => {
                // SAFETY: the only thread is here.
                let here = unsafe { GracePeriod::promise() };
                self.caches
                    .reclaim(&here)
                    .and_then(|_| self.engine.reclaim(&here))
            }
        };
        reclaimed.expect("the memory takes its bytes back")
    }

    pub(crate) fn caches(&self) -> Totals {
        self.caches.totals()
    }

    /// How many entries have been in the shared cache.
    pub(crate) fn shared(&self) -> u64 {
        let stats = self.caches.shared_stats();
        stats.map_or(0, |stats| stats.entries as u64 + stats.retracted)
    }

    pub(crate) fn stub_bytes(&self) -> u64 {
        self.engine.stub_stats().in_use
    }
}

impl Drop for Tiers {
    fn drop(&mut self) {
        // SAFETY: the isolates are gone, and nobody else has entries.
        let grace_period = unsafe { GracePeriod::promise() };
        for module in self.engine.modules() {
            let done = self.engine.unregister(module, &grace_period);
            done.expect("the memory takes its bytes back");
        }
    }
}

/// The target of a redirected entry: a function that interprets.
fn bridge(function: FunctionId) -> CodeAddr {
    extern "C" fn interpret<const FUNCTION: u64>(_globals: u64, a: Word, b: Word) -> Word {
        let function = FunctionId::from_number(FUNCTION).expect("it is one of `FUNCTIONS`");
        interpreter::call(Isolate::current(), function, [a, b])
    }
    let bridge: extern "C" fn(u64, Word, Word) -> Word = match function {
        FunctionId::Area => interpret::<{ FunctionId::Area as u64 }>,
        FunctionId::Grow => interpret::<{ FunctionId::Grow as u64 }>,
        FunctionId::Total => interpret::<{ FunctionId::Total as u64 }>,
        FunctionId::Fold => interpret::<{ FunctionId::Fold as u64 }>,
        FunctionId::Plus => interpret::<{ FunctionId::Plus as u64 }>,
        FunctionId::Put => interpret::<{ FunctionId::Put as u64 }>,
        _ => interpret::<{ FunctionId::Adder as u64 }>,
    };
    CodeAddr::new(bridge as usize as u64)
}
