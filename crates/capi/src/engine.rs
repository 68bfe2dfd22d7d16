//! Engines, and how they are described.

use std::ffi::c_void;

use parking_lot::Mutex;
use patchpoint::Engine;
use patchpoint::deopt::ExitStubs;
use patchpoint::publish::{NeverStopped, SignalWorld, SingleThreaded};

use crate::arena::{ArenaBody, pp_arena};
use crate::cache::{CachesBody, pp_caches};
use crate::error::{Failure, Misuse, Result, pp_error};
use crate::frame::{Handler, pp_handler};
use crate::guard::{boundary, pp_finalizer};
use crate::handle::{self, HandleOut, handle};
use crate::observe::Watcher;
use crate::world::{CWorld, pp_world};

/// Describes an engine.
pub struct pp_engine_builder {
    _opaque: [u8; 0],
}

/// Patches the sites of registered modules.
pub struct pp_engine {
    _opaque: [u8; 0],
}

/// No wait is longer than a day: a clock cannot say when it would be over.
const LONGEST_MS: u64 = 24 * 60 * 60 * 1000;

/// How threads are stopped.
enum WorldChoice {
    Single,
    Never,
    Signal(SignalWorld),
    Callbacks(CWorld),
}

/// What has been said of an engine.
#[derive(Default)]
pub(crate) struct Description {
    world: Option<WorldChoice>,
    miss: Option<(Handler, bool)>,
    deopt: Option<Handler>,
    caches: Option<patchpoint::ic::Caches>,
    pub(crate) watchers: Vec<Watcher>,
    arena: Option<patchpoint::memory::Arena>,
    journal: Option<usize>,
    image_limit: Option<u64>,
}

pub(crate) type BuilderBody = Mutex<Description>;
handle!(pp_engine_builder, BuilderBody, 0x7070_0002);

/// An engine, with what its world is attached by.
#[derive(Clone)]
pub(crate) struct EngineBody {
    pub(crate) engine: Engine,
    pub(crate) signal: Option<SignalWorld>,
}
handle!(pp_engine, EngineBody, 0x7070_0003);

/// Changes what has been said.
///
/// # Safety
/// As for `handle::get`.
pub(crate) unsafe fn describe<T>(
    builder: *mut pp_engine_builder,
    change: impl FnOnce(&mut Description) -> Result<T>,
) -> Result<()> {
    // SAFETY: the same.
    let builder = unsafe { handle::get::<BuilderBody>(builder) }?;
    let replaced = change(&mut builder.lock())?;
    // Not under the lock: a finalizer may describe an engine.
    drop(replaced);
    Ok(())
}

/// Starts to describe an engine. To be freed by pp_engine_builder_free().
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_engine_builder_new(builder: *mut *mut pp_engine_builder) -> *mut pp_error {
    boundary!({
        let out = HandleOut::<BuilderBody>::new(builder)?;
        out.set(Mutex::new(Description::default()));
        Ok(())
    })
}

/// Frees a description; callbacks that no engine was made with are finalized.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_engine_builder_free(builder: *mut pp_engine_builder) -> *mut pp_error {
    boundary!(handle::free::<BuilderBody>(builder))
}

/// The world is one of a single thread: while any thread is in a call that patches, no other thread,
/// and no signal handler, executes code that the engine may patch; and a thread that executes such
/// code after another has patched it has synchronized with that thread in between.
///
/// # Safety
/// Promises what is said above. Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_engine_builder_world_single_threaded(
    builder: *mut pp_engine_builder,
) -> *mut pp_error {
    boundary!({
        describe(builder, |description| {
            Ok(description.world.replace(WorldChoice::Single))
        })
    })
}

/// The world is never stopped: only sites of modules that are registered live can be changed.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_engine_builder_world_never_stopped(
    builder: *mut pp_engine_builder,
) -> *mut pp_error {
    boundary!({
        describe(builder, |description| {
            Ok(description.world.replace(WorldChoice::Never))
        })
    })
}

/// The world is stopped by a real-time signal: each thread that executes code of the engine is
/// attached by pp_thread_attach() while it does and while it has frames of such code, executes it on
/// its own stack, not on a coroutine's, and nobody else changes what the signal does. 0 as `signal`
/// takes the highest real-time signal that nobody handles. A change waits `wait_ms` milliseconds for
/// threads that are inside of what it changes, and is refused then; a thread may take `patience_ms`
/// to answer.
///
/// # Safety
/// Promises what is said above. Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_engine_builder_world_signal(
    builder: *mut pp_engine_builder,
    signal: i32,
    wait_ms: u64,
    patience_ms: u64,
) -> *mut pp_error {
    use patchpoint::publish::WhenInside;
    use std::time::Duration;
    boundary!({
        describe(builder, |description| {
            // SAFETY: the caller promises it.
            let world = SignalWorld::with_signal((signal != 0).then_some(signal))?;
            let when_inside = match wait_ms {
                0 => WhenInside::Fail,
                some => WhenInside::Wait(Duration::from_millis(some)),
            };
            let world = world.when_inside(when_inside);
            let world = world.patience(Duration::from_millis(patience_ms.min(LONGEST_MS)));
            Ok(description.world.replace(WorldChoice::Signal(world)))
        })
    })
}

/// The world is stopped by the caller's own callbacks: see pp_world. Where this fails, `world.data`
/// is still the caller's; afterwards its finalizer frees it.
///
/// # Safety
/// Promises what pp_world says. Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_engine_builder_world_callbacks(
    builder: *mut pp_engine_builder,
    world: *const pp_world,
) -> *mut pp_error {
    boundary!({
        describe(builder, |description| {
            Ok(description
                .world
                .replace(WorldChoice::Callbacks(CWorld::read(world)?)))
        })
    })
}

/// Who is called where code has no answer: sequences go there by the target `miss`. Without an answer
/// of its own the code goes on behind the site; the handler sets the result by pp_frame_set_result().
/// Where this fails, `data` is still the caller's; afterwards the finalizer frees it.
///
/// # Safety
/// Promises that the handler can be called with `data` from every thread that executes compiled code,
/// from several at once and again while it runs. Threads: any. Handlers: yes. Stopped world: no.
/// Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_engine_builder_on_miss(
    builder: *mut pp_engine_builder,
    handler: pp_handler,
    data: *mut c_void,
    finalizer: pp_finalizer,
) -> *mut pp_error {
    boundary!({
        describe(builder, |description| {
            Ok(description
                .miss
                .replace((Handler::new(handler, data, finalizer)?, false)))
        })
    })
}

/// As pp_engine_builder_on_miss(), for a handler that only computes the result: where the record says
/// what is live just that is saved, which is faster. Its frames show no other registers, and cannot be
/// left: the only answer is to resume.
///
/// # Safety
/// As for pp_engine_builder_on_miss(). Threads: any. Handlers: yes. Stopped world: no. Signal
/// handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_engine_builder_on_live_register_miss(
    builder: *mut pp_engine_builder,
    handler: pp_handler,
    data: *mut c_void,
    finalizer: pp_finalizer,
) -> *mut pp_error {
    boundary!({
        describe(builder, |description| {
            Ok(description
                .miss
                .replace((Handler::new(handler, data, finalizer)?, true)))
        })
    })
}

/// Who is called from invalidated sites, and from sequences by the target `deopt`. Without an answer
/// of its own the code goes on as if nothing had happened. Where this fails, `data` is still the
/// caller's; afterwards the finalizer frees it.
///
/// # Safety
/// As for pp_engine_builder_on_miss(). Threads: any. Handlers: yes. Stopped world: no. Signal
/// handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_engine_builder_on_deopt(
    builder: *mut pp_engine_builder,
    handler: pp_handler,
    data: *mut c_void,
    finalizer: pp_finalizer,
) -> *mut pp_error {
    boundary!({
        describe(builder, |description| {
            Ok(description.deopt.replace(Handler::new(handler, data, finalizer)?))
        })
    })
}

/// The engine's misses go to these inline caches, in place of a handler of misses. They are a handle
/// of their own, which stays the caller's.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_engine_builder_caches(
    builder: *mut pp_engine_builder,
    caches: *const pp_caches,
) -> *mut pp_error {
    boundary!({
        let caches = handle::get::<CachesBody>(caches)?;
        describe(builder, |description| {
            Ok(description.caches.replace(caches.caches.clone()))
        })
    })
}

/// Where loaded code, stubs and exit stubs are placed, where memory of the engine's own does not suit.
/// The arena stays the caller's.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_engine_builder_arena(
    builder: *mut pp_engine_builder,
    arena: *const pp_arena,
) -> *mut pp_error {
    boundary!({
        let arena = handle::get::<ArenaBody>(arena)?;
        describe(builder, |description| {
            Ok(description.arena.replace(arena.clone()))
        })
    })
}

/// How many changes the journal keeps, where 1024 do not suit; 0 for none.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_engine_builder_journal(
    builder: *mut pp_engine_builder,
    changes: usize,
) -> *mut pp_error {
    boundary!(describe(builder, |description| Ok(description
        .journal
        .replace(changes))))
}

/// How many bytes an image that is loaded may have, where 256 MiB do not suit; at most 1 GiB.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_engine_builder_image_limit(
    builder: *mut pp_engine_builder,
    bytes: u64,
) -> *mut pp_error {
    boundary!(describe(builder, |description| Ok(description
        .image_limit
        .replace(bytes))))
}

/// Makes the engine. What was said of it goes into it, also where this fails: the builder is as new.
/// The engine lives until its last handle is freed; keep one as long as its code is executed.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_engine_build(
    builder: *mut pp_engine_builder,
    engine: *mut *mut pp_engine,
) -> *mut pp_error {
    boundary!({
        let out = HandleOut::<EngineBody>::new(engine)?;
        let builder = handle::get::<BuilderBody>(builder)?;
        let taken = std::mem::take(&mut *builder.lock());
        out.set(build(taken)?);
        Ok(())
    })
}

fn build(description: Description) -> Result<EngineBody> {
    let mut builder = Engine::builder();
    let mut signal = None;
    builder = match description.world {
        None => builder,
        // SAFETY: whoever chose it has promised it.
        Some(WorldChoice::Single) => builder.world(unsafe { SingleThreaded::promise() }),
        Some(WorldChoice::Never) => builder.world(NeverStopped),
        Some(WorldChoice::Signal(world)) => {
            signal = Some(world.clone());
            builder.world(world)
        }
        Some(WorldChoice::Callbacks(world)) => builder.world(world),
    };
    let has_exits = description.miss.is_some() || description.deopt.is_some();
    let mut exit_stubs = ExitStubs::new();
    if let Some((handler, only_live)) = description.miss {
        if description.caches.is_some() {
            return Err(Misuse::Order(
                "the engine has a handler of misses, and caches to which its misses go: say one of them",
            )
            .into());
        }
        let handle = handler.for_engine(signal.clone());
        exit_stubs = match only_live {
            true => exit_stubs.on_live_register_miss(handle),
            false => exit_stubs.on_miss(handle),
        };
    }
    if let Some(handler) = description.deopt {
        exit_stubs = exit_stubs.on_deopt(handler.for_engine(signal.clone()));
    }
    builder = match description.caches {
        Some(caches) => builder.exits(caches.exits(exit_stubs)),
        None if has_exits => builder.exits(exit_stubs),
        None => builder,
    };
    for watcher in description.watchers {
        builder = watcher.add_to(builder);
    }
    if let Some(arena) = description.arena {
        builder = builder.arena(arena);
    }
    if let Some(journal) = description.journal {
        builder = builder.journal(journal);
    }
    if let Some(limit) = description.image_limit {
        builder = builder.image_limit(limit);
    }
    let engine = builder.build().map_err(Failure::from)?;
    Ok(EngineBody { engine, signal })
}

/// One more handle of the same engine.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_engine_clone(
    engine: *const pp_engine,
    clone: *mut *mut pp_engine,
) -> *mut pp_error {
    boundary!({
        let out = HandleOut::<EngineBody>::new(clone)?;
        out.set(handle::get::<EngineBody>(engine)?.clone());
        Ok(())
    })
}

/// Frees a handle of an engine. With the last one the engine goes, with its stubs: no thread executes
/// its code then, or returns to it.
///
/// # Safety
/// Promises what is said above. Threads: any. Handlers: yes, where it is not the last handle. Stopped
/// world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_engine_free(engine: *mut pp_engine) -> *mut pp_error {
    boundary!(handle::free::<EngineBody>(engine))
}
