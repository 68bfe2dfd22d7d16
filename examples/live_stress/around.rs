//! What else goes on in a process: profilers' signals, forks whose children execute what they have
//! inherited, threads that come and go, handlers that patch.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::{mem, ptr};

use patchpoint::engine::WeakEngine;
use patchpoint::publish::QuiescentState;
use patchpoint::sequence::{Sequence, arg, result};
use patchpoint::site::{Module, Site};
use patchpoint::{Error, Result};

use super::parts::Part;
use super::readers::{current_for, read_some};
use super::running::{MOST_SITES, Random, Running, batch};
use super::{Shared, behind};

/// How many threads of these there are, each of which needs a place in [`Shared::at`]: one that
/// forks, and two whose threads come and go.
pub(super) const PLACES: usize = 3;

/// What was exercised.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) children: AtomicU64,
    pub(super) threads: AtomicU64,
}

/// How many of the profilers' signals were handled.
static TICKS: AtomicU64 = AtomicU64::new(0);

extern "C" fn on_tick(_: libc::c_int, _: *const libc::siginfo_t, context: *const libc::c_void) {
    let number = TICKS.fetch_add(1, Ordering::Relaxed);
    behind::look(number, context);
}

/// Timers that send signals, 1000 a second each: one as time passes, one as it is used. The system
/// mostly gives them to the writer, and as often as its clock ticks; so the readers get more of them,
/// see [`sample_until_stopped`]. Handled on the threads' alternate stacks, which the standard
/// library gives to all.
pub(super) struct Profilers(());

impl Profilers {
    pub(super) fn start() -> Self {
        let signals = [libc::SIGALRM, libc::SIGPROF];
        for signal in signals {
            // SAFETY: all zeros is a valid action.
            let mut action = unsafe { mem::zeroed::<libc::sigaction>() };
            // One does not interrupt the other: two frames with all registers, and what is called in both, are
            // more than an alternate stack has.
            for other in signals {
                // SAFETY: the set is the action's, and both are signals.
                unsafe { libc::sigaddset(&raw mut action.sa_mask, other) };
            }
            action.sa_sigaction = on_tick as *const () as libc::sighandler_t;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
            // SAFETY: the handler is async-signal-safe and lives as long as the process.
            let done = unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) };
            assert_eq!(done, 0);
        }
        set_timers(1000);
        Self(())
    }

    pub(super) fn ticks(&self) -> u64 {
        TICKS.load(Ordering::Relaxed)
    }
}

impl Drop for Profilers {
    fn drop(&mut self) {
        set_timers(0);
    }
}

/// How long it is at least between two signals for readers.
const SAMPLED_EVERY: Duration = Duration::from_micros(200);

/// Sends the profilers' signal to one reader after the other.
pub(super) fn sample_until_stopped(shared: &Shared) {
    for round in 0_usize.. {
        if shared.stop.load(Ordering::Acquire) {
            break;
        }
        std::thread::sleep(SAMPLED_EVERY);
        let readers = shared.readers.lock().unwrap();
        if let Some(reader) = readers.get(round % readers.len().max(1)) {
            // SAFETY: a reader takes itself out, which the lock lets it do before or afterwards.
            unsafe { libc::pthread_kill(*reader, libc::SIGPROF) };
        }
    }
}

/// A reader is sent signals as long as this is there.
pub(super) struct Sampled<'s>(&'s Shared, libc::pthread_t);

impl<'s> Sampled<'s> {
    pub(super) fn this_thread(shared: &'s Shared) -> Self {
        // SAFETY: asks for no more than the thread's name.
        let thread = unsafe { libc::pthread_self() };
        shared.readers.lock().unwrap().push(thread);
        Self(shared, thread)
    }
}

impl Drop for Sampled<'_> {
    fn drop(&mut self) {
        self.0.readers.lock().unwrap().retain(|thread| *thread != self.1);
    }
}

/// Lets both timers run out every so many microseconds, or never.
fn set_timers(every: libc::suseconds_t) {
    let every = libc::timeval {
        tv_sec: 0,
        tv_usec: every,
    };
    let times = libc::itimerval {
        it_interval: every,
        it_value: every,
    };
    for timer in [libc::ITIMER_REAL, libc::ITIMER_PROF] {
        // SAFETY: reads the times, which live as long as the call.
        let done = unsafe { libc::setitimer(timer, &raw const times, ptr::null_mut()) };
        assert_eq!(done, 0);
    }
}

/// Makes children, which execute the code that they have inherited while this process goes on to
/// patch its own.
pub(super) fn fork_until_stopped(shared: &Shared, place: usize, seed: u64) -> Result<()> {
    let mut handle = shared.engine.attach_thread();
    let mut random = Random::new(seed);
    while !shared.stop.load(Ordering::Acquire) {
        handle.quiescent();
        let running = current_for(shared, place);
        // SAFETY: the child executes compiled code, makes system calls, and ends at once.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: a child that hangs is ended, by a signal that nobody handles any more.
            unsafe {
                libc::signal(libc::SIGALRM, libc::SIG_DFL);
                libc::alarm(120);
            }
            let is_right = inherited(shared, &running, &mut random);
            // SAFETY: ends the child.
            unsafe { libc::_exit(i32::from(!is_right)) };
        }
        let mut status = 0;
        // SAFETY: the child is this thread's.
        let ended = child > 0 && unsafe { libc::waitpid(child, &raw mut status, 0) } == child;
        if !ended || status != 0 {
            eprintln!("a child ended with status {status:#x}");
            shared.failures.fetch_add(1, Ordering::Relaxed);
        }
        shared.counts.children.fetch_add(1, Ordering::Relaxed);
        random.next();
        // While a child lives nobody is told that this thread is outside of all code; now it is.
        let _offline = handle.offline(QuiescentState::Quiescent);
        std::thread::sleep(Duration::from_millis(1));
    }
    // The writer waits for nobody who is not there any more.
    shared.at[place].store(u64::MAX, Ordering::Release);
    Ok(())
}

/// In a child: whether every site is as it was when the child was made, and stays so, and cannot be
/// changed.
fn inherited(shared: &Shared, running: &Running, random: &mut Random) -> bool {
    // Not one that `slow` sleeps for.
    let x = random.next() | 1;
    let mut first = [0; MOST_SITES];
    let first = &mut first[..running.count()];
    for (site, found) in first.iter_mut().enumerate() {
        *found = running.call(site, x);
    }
    for _ in 0..50 {
        let is_same = |(site, found): (usize, &u64)| running.call(site, x) == *found;
        if !first.iter().enumerate().all(is_same) {
            return false;
        }
        if batch(running, random, 16, || ()).failures != 0 {
            return false;
        }
    }
    let mut modules = shared.engine.modules().into_iter();
    let site = modules.find_map(|module| module.sites().next());
    site.is_none_or(|site| {
        shared.engine.restore_site(&site) == Err(Error::Memory(patchpoint::memory::Error::EngineForked))
    })
}

/// Starts threads that execute sites for a while and end.
pub(super) fn come_and_go_until_stopped(shared: &Shared, place: usize, seed: u64) -> Result<()> {
    let mut read = Ok(());
    while read.is_ok() && !shared.stop.load(Ordering::Acquire) {
        let number = shared.counts.threads.fetch_add(1, Ordering::Relaxed);
        read = std::thread::scope(|scope| {
            let thread = scope.spawn(move || read_some(shared, place, seed ^ number, Some(100)));
            thread.join().expect("no thread panics")
        });
    }
    shared.at[place].store(u64::MAX, Ordering::Release);
    read
}

/// A site that only handlers patch: those of the sites that are invalidated.
pub(super) struct Patching {
    engine: WeakEngine,
    site: Site,
    running: Arc<super::SharedValue<Running>>,
    version: Mutex<u64>,
    patches: AtomicU64,
    failures: AtomicU64,
    /// Registered as long as this is there.
    _module: Module,
}

impl Patching {
    /// The first site of a module that nobody else changes, or executes.
    pub(super) fn new(engine: WeakEngine, part: Part, running: Arc<super::SharedValue<Running>>) -> Self {
        Self {
            engine,
            site: part.sites[0].clone(),
            running,
            version: Mutex::new(0),
            patches: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            _module: part.module,
        }
    }

    /// Patches the site, and executes it, unless another handler is doing so.
    pub(super) fn patch(&self) {
        let (Some(engine), Ok(mut version)) = (self.engine.upgrade(), self.version.try_lock()) else {
            return;
        };
        let next = *version + 1;
        let sequence = Sequence::new().mov(result(), arg(0)).add(result(), next);
        let patched = engine.patch_site(&self.site, &sequence);
        match &patched {
            Ok(_) => *version = next,
            // In a child, which goes on with what it has.
            Err(Error::Memory(patchpoint::memory::Error::EngineForked)) => return,
            Err(error) => eprintln!("a handler's patch: {error}"),
        }
        self.patches.fetch_add(1, Ordering::Relaxed);
        let is_right = patched.is_ok() && self.running.call(0, 1000) == 1000 + next;
        self.failures.fetch_add(u64::from(!is_right), Ordering::Relaxed);
    }

    pub(super) fn patches(&self) -> u64 {
        self.patches.load(Ordering::Relaxed)
    }

    pub(super) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }
}
