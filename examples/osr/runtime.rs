//! The runtime of the example, which its test uses too.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use patchpoint::addr::CodeAddr;
use patchpoint::deopt::{Answer, Arg, ExitStubs, Frame, UnwindInfo};
use patchpoint::publish::SingleThreaded;
use patchpoint::sequence::{Cond, Field, Sequence, Target};
use patchpoint::site::{Function, Module, Site};
use patchpoint::{CallShape, Engine, Error};

/// The objects of this machine's architecture: without optimization, and with it.
macro_rules! objects {
    ($($folder:literal if $cfg:meta),* $(,)?) => {
        $(
            #[cfg($cfg)]
            const OBJECTS: (&[u8], &[u8]) = (
                include_bytes!(concat!("../objects/osr/", $folder, "/baseline.o")),
                include_bytes!(concat!("../objects/osr/", $folder, "/optimized.o")),
            );
        )*
    };
}
objects! {
    "x86_64" if target_arch = "x86_64",
    "aarch64" if target_arch = "aarch64",
    "powerpc64le" if all(target_arch = "powerpc64", target_endian = "little"),
    "powerpc64" if all(target_arch = "powerpc64", target_endian = "big"),
    "s390x" if target_arch = "s390x",
    "riscv64" if target_arch = "riscv64",
}

/// The ID of the patchpoint at the head of the loop of `weigh`.
const HEAD: u64 = 10;
/// The ID of the patchpoint of `weigh_osr` at an item that is too large for it.
const RARE: u64 = 20;

/// What the compiled code computes.
pub(crate) fn weigh(items: &[u64]) -> u64 {
    let weight = |item: &u64| if *item < 1000 { item * 2 } else { *item };
    items.iter().map(weight).sum()
}

/// The two versions of the loop.
struct LoopVersions {
    baseline: Module,
    weigh: Function,
    head: Site,
    unwind: UnwindInfo,
    better: CodeAddr,
}

/// What the handlers share.
#[derive(Default)]
struct Shared {
    code: OnceLock<LoopVersions>,
    /// The rounds of the loop in the baseline: the sequence at its head counts them.
    rounds: AtomicU64,
    up: AtomicU64,
    down: AtomicU64,
}

impl Shared {
    /// The counter is full: the loop goes on in better code, with the variables that the frame has
    /// in its slots.
    fn go_up<'f>(&self, frame: &Frame<'f>) -> Result<Answer<'f>, Error> {
        let code = self.code.get().ok_or(Error::ModuleForeign)?;
        let mut args = [Arg::Int(0); 4];
        for (index, arg) in args.iter_mut().enumerate() {
            let slot = frame.live_value(index)?.u64().unwrap_or(0);
            // SAFETY: the record says that the variable has a slot of the frame there.
            *arg = Arg::Int(unsafe { *(slot as *const u64) });
        }
        let new = frame.replacement()?;
        // SAFETY: the better code takes the four variables, and returns what the loop's function would.
        let new = unsafe { new.call(code.better, &args) }?;
        self.rounds.store(0, Ordering::Relaxed);
        self.up.fetch_add(1, Ordering::Relaxed);
        Ok(frame.replace(new))
    }

    /// An item is too large for the better code: the loop goes on in a frame of the baseline,
    /// behind its head.
    fn go_down<'f>(&self, frame: &Frame<'f>) -> Result<Answer<'f>, Error> {
        let code = self.code.get().ok_or(Error::ModuleForeign)?;
        let mut new = frame.replacement()?;
        // SAFETY: below, its one variable is put where the code behind the head expects it.
        let mut weigh = unsafe { new.push_compiled(&code.weigh, code.head.end(), &code.unwind) }?;
        let (record, _) = code.head.record().ok_or(Error::ModuleForeign)?;
        for (index, slot) in record.locations().enumerate() {
            weigh.set(slot, frame.live_value(index)?)?;
        }
        self.down.fetch_add(1, Ordering::Relaxed);
        Ok(frame.replace(new))
    }
}

/// The runtime, with its code loaded and patched.
pub(crate) struct Runtime {
    _engine: Engine,
    shared: Arc<Shared>,
}

impl Runtime {
    /// One whose baseline goes up after `limit` rounds.
    pub(crate) fn new(limit: u64) -> Result<Self, Error> {
        let shared: Arc<Shared> = Arc::default();
        let (ups, downs) = (Arc::clone(&shared), Arc::clone(&shared));
        // A frame that cannot be replaced goes on where it is, but for an item that the better code
        // has no way to weigh.
        let exit_stubs = ExitStubs::new()
            .on_miss(move |frame| ups.go_up(frame).unwrap_or_else(|_| frame.resume()))
            .on_deopt(move |frame| downs.go_down(frame).unwrap());
        // SAFETY: the example has one thread.
        let world = unsafe { SingleThreaded::promise() };
        let engine = Engine::builder().world(world).exits(exit_stubs).build()?;
        let load = |object: &[u8]| {
            let code = engine.load(object, |_| None)?;
            // SAFETY: every patchpoint of these objects reserves 48 bytes and returns nothing; the sequences count in a word of
            // this process's.
            unsafe { engine.register(code, |_| CallShape::c(48)) }
        };
        let (baseline, optimized) = (load(OBJECTS.0)?, load(OBJECTS.1)?);
        let counter = CodeAddr::new(shared.rounds.as_ptr() as u64);
        let count = Sequence::new().count(counter).jump_if(
            Cond::AboveOrEqual,
            u64::at(counter, 0),
            limit,
            Target::Miss,
        );
        engine.patch(HEAD, &count)?;
        engine.patch(RARE, &Sequence::new().jump(Target::Deopt))?;
        let weigh = baseline.function("weigh")?;
        let head = weigh
            .sites()
            .next()
            .ok_or(Error::NoSuchSite { id: HEAD.into() })?;
        // Their code may run from now on.
        baseline.release();
        optimized.release();
        let code = LoopVersions {
            unwind: UnwindInfo::of(&weigh)?,
            weigh,
            head,
            better: optimized.function("weigh_osr")?.entry()?,
            baseline,
        };
        // Nobody else has it yet.
        drop(shared.code.set(code));
        Ok(Self {
            _engine: engine,
            shared,
        })
    }

    /// Calls `weigh`.
    pub(crate) fn weigh(&self, items: &[u64]) -> u64 {
        let code = self.shared.code.get().unwrap();
        let entry = code.baseline.function("weigh").unwrap().entry().unwrap().get();
        // SAFETY: that is the function's signature in the IR; the module stays registered.
        let weigh: extern "C" fn(*const u64, u64) -> u64 = unsafe { std::mem::transmute(entry as usize) };
        weigh(items.as_ptr(), items.len() as u64)
    }

    /// How often a frame went up, and down.
    pub(crate) fn moves(&self) -> (u64, u64) {
        (
            self.shared.up.load(Ordering::Relaxed),
            self.shared.down.load(Ordering::Relaxed),
        )
    }
}
