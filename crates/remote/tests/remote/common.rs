//! An executor, an engine for it, and memory that both see.
#![allow(dead_code, reason = "each test program uses some")]

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use patchpoint::addr::CodeAddr;
use patchpoint::deopt::{Answer, ExitStubs, Frame};
use patchpoint::engine::WeakEngine;
use patchpoint::memory::PlacedSegments;
use patchpoint::publish::{SingleThreaded, Stopped, Vacated, World};
use patchpoint::sequence::{Field, Sequence, Target, arg, result};
use patchpoint::site::{Candidate, Module};
use patchpoint::{CallShape, Engine};
use patchpoint_remote::{Executor, Options, Service, Thread, Token};

#[path = "../../../../examples/objects/mod.rs"]
pub(crate) mod compiled;

pub(crate) const EXECUTOR: &str = "PATCHPOINT_TEST_EXECUTOR";

/// Where the executor connects, if not by its standard input, and what it says there.
pub(crate) const PLACE: &str = "PATCHPOINT_TEST_PLACE";
pub(crate) const TOKEN: &str = "PATCHPOINT_TEST_TOKEN";

/// This program, as the executor.
pub(crate) fn command() -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["executor_process", "--exact", "--nocapture", "--test-threads=1"])
        .env(EXECUTOR, "1")
        .stdout(Stdio::null());
    command
}

/// Is the executor, if this process was started as one, and ends with it.
pub(crate) fn be_executor(with: impl FnOnce(Service) -> Service) {
    if std::env::var_os(EXECUTOR).is_none() {
        return;
    }
    let service = Service::new().symbol("nap", CodeAddr::new(nap as *const () as usize as u64));
    // What says how it ended, to who looks at the status.
    let service = with(service);
    let ended = match std::env::var(PLACE) {
        Ok(place) => {
            let token = std::env::var(TOKEN).unwrap();
            // SAFETY: the controller is the process that has started this one.
            unsafe { service.connect(&place, &Token::from_text(&token).unwrap()) }
        }
        // SAFETY: as above.
        Err(_) => unsafe { service.run_stdin() },
    };
    std::process::exit(match ended {
        Ok(()) => 0,
        Err(patchpoint_remote::Error::ControllerGone) => 3,
        Err(patchpoint_remote::Error::ControllerUnproven { .. }) => 5,
        Err(_) => 4,
    });
}

/// A function of the executor that takes as long as it is told to, in milliseconds.
extern "C" fn nap(millis: u64) -> u64 {
    std::thread::sleep(Duration::from_millis(millis));
    millis
}

pub(crate) fn executor() -> Executor {
    Options::new()
        .deadline(Duration::from_secs(60))
        .spawn(command())
        .unwrap()
}

/// Stops a process, and waits until each of its threads is.
pub(crate) fn stop(process: u32) {
    // SAFETY: a child of this process that has not been waited for.
    unsafe { libc::kill(process as i32, libc::SIGSTOP) };
    let is_stopped = || {
        let mut threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
        threads.all(|thread| {
            let stat = std::fs::read_to_string(thread.unwrap().path().join("stat"));
            stat.is_ok_and(|stat| stat.contains(") T "))
        })
    };
    while !is_stopped() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

type Handler = dyn for<'f> Fn(&Engine, &mut Frame<'f>) -> Answer<'f> + Send + Sync;

/// An engine with the object of the inline cache, all in another process.
pub(crate) struct Setup {
    pub(crate) executor: Executor,
    pub(crate) engine: Engine,
    pub(crate) module: Module,
    pub(crate) thread: Thread,
    pub(crate) misses: Arc<AtomicU64>,
    pub(crate) objects: Objects,
}

/// What the handlers do; resuming if nothing is said.
#[derive(Default)]
pub(crate) struct Handlers {
    pub(crate) miss: Option<Box<Handler>>,
    pub(crate) deopt: Option<Box<Handler>>,
    /// Whether the world's threads promise nothing, so that every change makes those of the
    /// executor serialize.
    pub(crate) immediate: bool,
}

/// One thread of the controller at a time, of which nothing more is said.
#[derive(Debug)]
struct OneAtATime;

// SAFETY: the tests call from one thread at a time, or use live modules; the work is done once.
unsafe impl World for OneAtATime {
    fn while_stopped(
        &self,
        _: &[Vacated],
        work: &mut dyn FnMut(&Stopped),
    ) -> patchpoint::publish::Result<()> {
        // SAFETY: as above.
        work(&unsafe { Stopped::promise() });
        Ok(())
    }
}

pub(crate) fn shape(candidate: &Candidate<'_>) -> Option<CallShape> {
    match candidate.id().get() {
        78 => Some(CallShape::any_reg(32).result().args(1)),
        90 => Some(CallShape::shadow(24)),
        _ => None,
    }
}

pub(crate) fn setup(handlers: Handlers, live: bool) -> Setup {
    setup_in(executor(), handlers, live)
}

pub(crate) fn setup_in(executor: Executor, handlers: Handlers, live: bool) -> Setup {
    let weak: Arc<OnceLock<WeakEngine>> = Arc::default();
    let misses = Arc::new(AtomicU64::new(0));
    let on_miss = {
        let (weak, misses) = (Arc::clone(&weak), Arc::clone(&misses));
        move |frame: &mut Frame<'_>| misses_of(&weak, &misses, frame)
    };
    let Handlers {
        miss,
        deopt,
        immediate,
    } = handlers;
    let (for_miss, for_deopt) = (Arc::clone(&weak), Arc::clone(&weak));
    let exit_stubs = ExitStubs::new()
        .on_miss(move |frame| {
            on_miss(frame);
            match &miss {
                Some(handler) => handler(&for_miss.get().unwrap().upgrade().unwrap(), frame),
                None => {
                    frame.set_result(7).unwrap();
                    frame.resume()
                }
            }
        })
        .on_deopt(move |frame| match &deopt {
            Some(handler) => handler(&for_deopt.get().unwrap().upgrade().unwrap(), frame),
            None => frame.resume(),
        });
    // SAFETY: the tests call from one thread at a time, or use live modules.
    let world = unsafe { SingleThreaded::promise() };
    let builder = match immediate {
        false => executor.engine().world(world),
        true => executor.engine().world(OneAtATime),
    };
    let engine = builder.exits(exit_stubs).build().unwrap();
    weak.set(engine.downgrade()).ok().unwrap();
    let code = engine.load(compiled::INLINE_CACHE, |_| None).unwrap();
    let registration = engine.registration(code);
    let registration = if live { registration.live() } else { registration };
    // SAFETY: what is told is true of the object's code, or refused.
    let module = unsafe { registration.register(shape) }.unwrap();
    let thread = executor.thread(256 << 10).unwrap();
    let objects = Objects::new(&executor);
    Setup {
        executor,
        engine,
        module,
        thread,
        misses,
        objects,
    }
}

fn misses_of(_: &OnceLock<WeakEngine>, misses: &AtomicU64, _: &Frame<'_>) {
    misses.fetch_add(1, Ordering::Relaxed);
}

impl Setup {
    pub(crate) fn entry(&self, name: &str) -> CodeAddr {
        self.module.release();
        self.module.function(name).unwrap().entry().unwrap()
    }

    pub(crate) fn get(&mut self, object: u64) -> patchpoint_remote::Result<u64> {
        let get = self.entry("get");
        self.thread.call(get, &[object])
    }
}

/// If the word at 8 is that shape, the word at 24, or at 16.
pub(crate) fn hit(shape: u32, at: i32) -> Sequence {
    Sequence::new()
        .guard_eq(u64::at(arg(0), 8), u64::from(shape), Target::Miss)
        .load(result(), u64::at(arg(0), at))
}

/// Objects of four words in memory that both processes see.
pub(crate) struct Objects {
    memory: PlacedSegments,
    used: Mutex<u64>,
}

impl Objects {
    pub(crate) fn new(executor: &Executor) -> Self {
        Self::try_new(executor).unwrap()
    }

    pub(crate) fn try_new(executor: &Executor) -> patchpoint_remote::Result<Self> {
        Ok(Self {
            memory: executor.share(64 << 10)?,
            used: Mutex::new(0),
        })
    }

    /// Puts words there, and says where.
    pub(crate) fn put(&self, words: &[u64]) -> u64 {
        let mut used = self.used.lock().unwrap();
        let whole = self.memory.segments()[0].range;
        let at = whole.start().get() + *used;
        *used += words.len() as u64 * 8;
        assert!(*used <= whole.len());
        for (index, word) in words.iter().enumerate() {
            // SAFETY: within the memory, which only this value hands out.
            unsafe { ((at as *mut u64).add(index)).write_volatile(*word) };
        }
        at
    }
}
