//! What the two processes do together, moment by moment: for somebody to kill one of them in the
//! midst of it.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use patchpoint::Engine;
use patchpoint::addr::CodeAddr;
use patchpoint::deopt::ExitStubs;
use patchpoint::memory::{Reach, SegmentKind, SegmentNeed};
use patchpoint::publish::{GracePeriod, SingleThreaded};
use patchpoint_remote::{Error, Executor, Options, Result};

use crate::common::{self, Objects, hit, shape};

macro_rules! moments {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What is being done.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u32)]
        pub(crate) enum Moment { $($(#[$doc])* $name,)* }

        pub(crate) const MOMENTS: &[Moment] = &[$(Moment::$name,)*];
    };
}

moments! {
    /// The executor is started, and says who it is.
    Starting,
    /// An object is loaded and registered: memory is mapped in both, stubs are written.
    Loading,
    /// New memory is mapped in both, code and data.
    Mapping,
    /// It is freed.
    Unmapping,
    StartingThread,
    EndingThread,
    Patching,
    /// A patch that every thread of the executor has to have seen.
    Publishing,
    Restoring,
    Invalidating,
    /// Code runs there, and comes back.
    Calling,
    /// It runs for a while.
    Napping,
    /// The handler of a miss runs here.
    Missing,
    /// The handler of a deoptimization does.
    Leaving,
    /// Everything is shut down in good order.
    Ending,
}

/// The moment, in memory that the one who kills sees.
pub(crate) struct Marker(&'static AtomicU32);

static MARKER: OnceLock<Marker> = OnceLock::new();

impl Marker {
    /// In a file of four bytes, which another process maps too.
    pub(crate) fn in_file(path: &Path) -> Self {
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .unwrap();
        file.set_len(4).unwrap();
        let (protection, fd) = (libc::PROT_READ | libc::PROT_WRITE, file.as_raw_fd());
        // SAFETY: a new mapping, which stays.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), 4, protection, libc::MAP_SHARED, fd, 0) };
        assert_ne!(at, libc::MAP_FAILED);
        // SAFETY: mapped for good, aligned; used by atomics only.
        Self(unsafe { AtomicU32::from_ptr(at.cast()) })
    }

    /// In this process.
    pub(crate) fn here() -> Self {
        static HERE: AtomicU32 = AtomicU32::new(0);
        Self(&HERE)
    }

    /// The moment; `None` before the first.
    pub(crate) fn moment(&self) -> Option<Moment> {
        MOMENTS.get(self.0.load(Ordering::SeqCst) as usize).copied()
    }

    /// Nothing has been done yet.
    pub(crate) fn reset(&self) {
        self.0.store(u32::MAX, Ordering::SeqCst);
    }

    /// Waits for a moment to come, and then as long as is said; until it is not wanted any more.
    pub(crate) fn wait_for(&self, moment: Moment, then: Duration, wanted: impl Fn() -> bool) {
        while wanted() && self.moment() != Some(moment) {
            std::hint::spin_loop();
        }
        let until = Instant::now() + then;
        while Instant::now() < until {
            std::hint::spin_loop();
        }
    }

    /// What this process does is marked here, if it does not mark another place already.
    pub(crate) fn install(self) -> &'static Self {
        MARKER.get_or_init(|| self)
    }
}

fn mark(moment: Moment) {
    if let Some(marker) = MARKER.get() {
        marker.0.store(moment as u32, Ordering::SeqCst);
    }
}

/// Does something as that moment.
fn at<T>(moment: Moment, what: impl FnOnce() -> T) -> T {
    mark(moment);
    what()
}

/// A handler runs for that long.
const HANDLING: Duration = Duration::from_micros(300);

/// The life of an executor: everything that it is asked, so many times over.
///
/// # Errors
/// The first that there was. Whatever is asked after it fails because the executor is gone.
pub(crate) fn life(rounds: u32) -> Result<()> {
    let executor = at(Moment::Starting, || {
        Options::new()
            .deadline(Duration::from_secs(60))
            .spawn(common::command())
    })?;
    let exit_stubs = ExitStubs::new()
        .on_miss(|frame| {
            at(Moment::Missing, || std::thread::sleep(HANDLING));
            mark(Moment::Calling);
            frame.set_result(7).unwrap();
            frame.resume()
        })
        .on_deopt(|frame| {
            at(Moment::Leaving, || std::thread::sleep(HANDLING));
            mark(Moment::Calling);
            frame.resume()
        });
    // SAFETY: one thread calls and patches.
    let world = unsafe { SingleThreaded::promise() };
    let engine = executor.engine().world(world).exits(exit_stubs).build()?;
    let lived = (0..rounds).try_for_each(|round| one_round(&executor, &engine, round % 2 == 0));
    if lived.is_err() {
        for again in [executor.check(), executor.thread(64 << 10).map(drop)] {
            assert!(matches!(again, Err(Error::ExecutorGone { .. })), "{again:?}");
        }
        return lived;
    }
    mark(Moment::Ending);
    drop((engine, executor));
    Ok(())
}

fn one_round(executor: &Executor, engine: &Engine, live: bool) -> Result<()> {
    let module = at(Moment::Loading, || {
        let code = engine.load(common::compiled::INLINE_CACHE, |_| None)?;
        let registration = engine.registration(code);
        let registration = if live { registration.live() } else { registration };
        // SAFETY: what is told is true of the object's code, or refused.
        unsafe { registration.register(shape) }
    })?;
    let objects = at(Moment::Mapping, || {
        let code = SegmentNeed {
            kind: SegmentKind::Code,
            len: 3 << 20,
            align: 16,
        };
        drop(executor.arena().place(&[code], Reach::Anywhere)?);
        Objects::try_new(executor)
    })?;
    at(Moment::Unmapping, || executor.arena().trim());
    let mut thread = at(Moment::StartingThread, || executor.thread(64 << 10))?;
    let nap = executor.symbol("nap")?.unwrap_or(CodeAddr::new(0));
    at(Moment::Napping, || thread.call(nap, &[1]))?;
    let known = objects.put(&[0, 0x17, 111, 1234]);
    let other = objects.put(&[0, 0x18, 111, 1234]);
    module.release();
    let get = module.function("get")?.entry()?;
    for (number, place) in [16, 24, 16, 24].into_iter().enumerate() {
        if number % 2 == 0 {
            at(Moment::Patching, || engine.patch(78, &hit(0x17, place)))?;
        } else {
            let mut change = engine.transaction();
            change.immediate();
            at(Moment::Publishing, || {
                change.patch(78, &hit(0x17, place))?.commit()
            })?;
        }
        mark(Moment::Calling);
        assert_eq!(thread.call(get, &[known])?, if place == 16 { 111 } else { 1234 });
        assert_eq!(thread.call(get, &[other])?, 7, "the handler's result");
    }
    at(Moment::Restoring, || engine.restore(78))?;
    at(Moment::Patching, || engine.patch(78, &hit(0x17, 24)))?;
    at(Moment::Invalidating, || {
        engine.invalidate(&module.function("get")?)
    })?;
    mark(Moment::Calling);
    thread.call(get, &[known])?;
    at(Moment::EndingThread, || drop(thread));
    mark(Moment::Unmapping);
    drop(objects);
    // SAFETY: the only thread has ended.
    engine.unregister(module, &unsafe { GracePeriod::promise() })?;
    Ok(())
}

/// How often something was killed at each moment.
#[derive(Default)]
pub(crate) struct Counts(BTreeMap<String, u64>);

impl Counts {
    pub(crate) fn count(&mut self, what: impl Into<String>) {
        *self.0.entry(what.into()).or_default() += 1;
    }

    /// Fails if, of many, nobody was killed at some moment. Of a few, chance may leave one out: the
    /// moments are short.
    pub(crate) fn check(&self) {
        let all: u64 = self.0.values().sum();
        for moment in MOMENTS.iter().filter(|_| all >= 20 * MOMENTS.len() as u64) {
            assert!(self.0.contains_key(&format!("{moment:?}")), "none at {moment:?}");
        }
    }

    pub(crate) fn print(&self, title: &str) {
        eprintln!("{title}");
        for (what, count) in &self.0 {
            eprintln!("  {count:>6} {what}");
        }
    }
}
