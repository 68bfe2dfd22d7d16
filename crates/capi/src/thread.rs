//! Threads that execute code of an engine.

use std::cell::RefCell;
use std::sync::LazyLock;
use std::thread::{self, ThreadId};

use patchpoint::publish::{self, Level, Publisher, QuiescentState, SignalAttached, ThreadHandle};

use crate::engine::{EngineBody, pp_engine};
use crate::error::{Misuse, Result, pp_error};
use crate::guard::boundary;
use crate::handle::{self, HandleOut, handle};

/// A thread that is attached to an engine: for the thread alone that attached itself.
pub struct pp_thread {
    _opaque: [u8; 0],
}

/// What a thread that is not executing compiled code may still have to do with it.
#[repr(C)]
pub enum pp_quiescence {
    /// Frames of compiled code may be on its stack.
    PP_QUIESCENCE_CHECKPOINT = 0,
    /// No frame of compiled code is on its stack.
    PP_QUIESCENCE_QUIESCENT = 1,
}

/// What a thread is attached by. The first two go in this order: being offline borrows the handle.
struct Parts {
    offline: Option<publish::Offline<'static>>,
    handle: Box<ThreadHandle>,
    _signal: Option<SignalAttached>,
}

/// A thread, and what it is attached by until it is detached.
pub(crate) struct ThreadBody {
    thread: ThreadId,
    parts: RefCell<Option<Parts>>,
}

// SAFETY: `with` lets nobody but the thread itself look at the parts, and takes them out before the handle is freed.
unsafe impl Send for ThreadBody {}
// SAFETY: the same.
unsafe impl Sync for ThreadBody {}

handle!(pp_thread, ThreadBody, 0x7070_0010);

/// # Safety
/// As for `handle::get`.
unsafe fn with<T>(thread: *const pp_thread, work: impl FnOnce(&mut Option<Parts>) -> Result<T>) -> Result<T> {
    // SAFETY: the same.
    let body = unsafe { handle::get::<ThreadBody>(thread) }?;
    // protection: attached-threads-report-for-themselves
    if body.thread != thread::current().id() {
        return Err(Misuse::Thread("pp_thread").into());
    }
    let mut parts = body
        .parts
        .try_borrow_mut()
        .map_err(|_| Misuse::InUse("pp_thread"))?;
    work(&mut parts)
}

/// Uses the parts of a thread that is online.
///
/// # Safety
/// As for `handle::get`.
unsafe fn online<T>(thread: *const pp_thread, work: impl FnOnce(&mut Parts) -> Result<T>) -> Result<T> {
    // SAFETY: the same.
    unsafe {
        with(thread, |parts| {
            let parts = parts.as_mut().ok_or(Misuse::Handle("pp_thread"))?;
            // protection: who-is-offline-reports-nothing
            match parts.offline {
                Some(_) => Err(Misuse::Order("the thread is offline: call pp_thread_online() first").into()),
                None => work(parts),
            }
        })
    }
}

/// Attaches this thread: it may execute code of live modules, and code under a world that is stopped by
/// signal. To be freed by pp_thread_free(), on this thread, before it ends.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_thread_attach(
    engine: *const pp_engine,
    thread: *mut *mut pp_thread,
) -> *mut pp_error {
    boundary!({
        let to = HandleOut::<ThreadBody>::new(thread)?;
        let engine = handle::get::<EngineBody>(engine)?;
        let signal = engine.signal.as_ref().map(|world| world.attach()).transpose()?;
        to.set(ThreadBody {
            thread: thread::current().id(),
            parts: RefCell::new(Some(Parts {
                offline: None,
                handle: Box::new(engine.engine.attach_thread()),
                _signal: signal,
            })),
        });
        Ok(())
    })
}

/// Reports that the thread's program counter is not in compiled code, which is true of whatever
/// compiled code calls. Call it often, on the back edge of the interpreter's loop, say.
///
/// # Safety
/// Promises what is said above. Threads: the one that attached itself. Handlers: yes. Stopped world:
/// no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_thread_checkpoint(thread: *const pp_thread) -> *mut pp_error {
    boundary!(online(thread, |parts| {
        parts.handle.checkpoint();
        Ok(())
    }))
}

/// Reports that no frame of compiled code is on the thread's stack, nor in a suspended coroutine that
/// it may resume.
///
/// # Safety
/// Promises what is said above. Threads: the one that attached itself. Handlers: no. Stopped world: no.
/// Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_thread_quiescent(thread: *const pp_thread) -> *mut pp_error {
    boundary!(online(thread, |parts| {
        parts.handle.quiescent();
        Ok(())
    }))
}

/// Before the thread blocks: it executes no compiled code until pp_thread_online(), and nobody waits
/// for it. `state`, one of pp_quiescence, says what is on its stack meanwhile.
///
/// # Safety
/// Promises what is said above. Threads: the one that attached itself. Handlers: yes. Stopped world:
/// no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_thread_offline(thread: *mut pp_thread, state: u32) -> *mut pp_error {
    boundary!({
        let state = match state {
            0 => QuiescentState::Checkpoint,
            1 => QuiescentState::Quiescent,
            other => return Err(Misuse::Number("pp_quiescence", other.into()).into()),
        };
        online(thread, |parts| {
            let offline = parts.handle.offline(state);
            // SAFETY: the handle is in a box, and used by nobody else until this is gone, which goes before it.
            let offline =
                unsafe { std::mem::transmute::<publish::Offline<'_>, publish::Offline<'static>>(offline) };
            parts.offline = Some(offline);
            Ok(())
        })
    })
}

/// The thread is back after pp_thread_offline(). Where it was not offline nothing happens.
///
/// # Safety
/// Threads: the one that attached itself. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_thread_online(thread: *mut pp_thread) -> *mut pp_error {
    boundary!(with(thread, |parts| {
        let parts = parts.as_mut().ok_or(Misuse::Handle("pp_thread"))?;
        parts.offline = None;
        Ok(())
    }))
}

/// Detaches the thread, which executes no compiled code any more and has no frames of it.
///
/// # Safety
/// Promises what is said above. Threads: the one that attached itself. Handlers: no. Stopped world: no.
/// Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_thread_free(thread: *mut pp_thread) -> *mut pp_error {
    boundary!({
        if thread.is_null() {
            return Ok(());
        }
        let parts = with(thread, |parts| Ok(parts.take()))?;
        drop(parts);
        handle::free::<ThreadBody>(thread)
    })
}

/// Executes an instruction that makes this core forget what it has fetched: before a thread runs code
/// that was written while it was stopped, where nobody else takes care of that.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: yes. Signal handlers: yes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_serialize() {
    publish::serialize();
}

/// Found once: where membarrier is refused, it takes a signal.
static PUBLISHER: LazyLock<Publisher> = LazyLock::new(Publisher::new);

/// Makes this thread and every other of the process forget what its core has fetched, before it runs
/// anything else: for linkers, where new code lies where there was other code, and the threads that may
/// run it are not known. By membarrier, else by a signal to each thread, as the engine does it.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_serialize_all() -> *mut pp_error {
    boundary!(Ok(PUBLISHER.serialize(Level::Immediate)?))
}
