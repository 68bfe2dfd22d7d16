//! Who is told what an engine does.

use std::ffi::c_void;

use patchpoint::engine::{CodeKind, EngineBuilder, Event, Observer};
#[cfg(not(all(target_arch = "powerpc64", target_endian = "big")))]
use patchpoint::observe::Gdb;
use patchpoint::observe::{JitDump, PerfMap, Unwinder};

use crate::engine::{describe, pp_engine_builder};
use crate::error::{Misuse, pp_error};
use crate::guard::{Data, boundary, callback, pp_finalizer};
use crate::types::pp_str;

/// One of those that are told.
pub(crate) enum Watcher {
    Perf(PerfMap),
    Dump(JitDump),
    #[cfg(not(all(target_arch = "powerpc64", target_endian = "big")))]
    Gdb(Gdb),
    Unwinder(Unwinder),
    Callback(CObserver),
}

impl Watcher {
    pub(crate) fn add_to(self, builder: EngineBuilder) -> EngineBuilder {
        match self {
            Self::Perf(map) => builder.observer(map),
            Self::Dump(dump) => builder.observer(dump),
            #[cfg(not(all(target_arch = "powerpc64", target_endian = "big")))]
            Self::Gdb(gdb) => builder.observer(gdb),
            Self::Unwinder(unwinder) => builder.observer(unwinder),
            Self::Callback(observer) => builder.observer(observer),
        }
    }
}

/// What has happened.
#[repr(C)]
pub enum pp_event_kind {
    /// A module is registered.
    PP_EVENT_REGISTERED = 1,
    /// A module was unregistered.
    PP_EVENT_UNREGISTERED = 2,
    /// Out-of-line code of a site is in place at `address`.
    PP_EVENT_PLACED = 3,
    /// A site, at `address`, was changed.
    PP_EVENT_CHANGED = 4,
    /// What a site held out of line was moved into it.
    PP_EVENT_SETTLED = 5,
    /// A change was refused; `message` says why.
    PP_EVENT_REFUSED = 6,
    /// Out-of-line code at `address` is reclaimed: no thread is in it.
    PP_EVENT_RECLAIMED = 7,
    /// `prepared` changes of a transaction, of `of`, are prepared: told every few thousand of one that is
    /// that long. Nothing has been written for it.
    PP_EVENT_PREPARING = 8,
}

/// An event. It is lent during the call. `size` comes first, see the head of this file: a library that is
/// older than the header says less.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pp_event {
    /// The size of this structure.
    pub size: usize,
    /// One of pp_event_kind.
    pub kind: u32,
    /// Of a site that was changed: one of pp_status.
    pub status: u32,
    /// Where the site, or the code, is; 0 where there is none.
    pub address: u64,
    /// How long it is.
    pub len: u64,
    /// The ID of the site.
    pub id: u64,
    /// Counts the changes of the site.
    pub generation: u64,
    /// The function of the site, what the code is, or why a change was refused.
    pub message: pp_str,
    /// How many changes of a transaction are prepared.
    pub prepared: usize,
    /// How many it has.
    pub of: usize,
}

/// Is told of an event, on the thread that makes the change, while the engine is locked: it calls no
/// function of this interface.
pub type pp_observer = Option<unsafe extern "C-unwind" fn(event: *const pp_event, data: *mut c_void)>;

/// An observer in C.
pub(crate) struct CObserver {
    observe: unsafe extern "C-unwind" fn(*const pp_event, *mut c_void),
    data: Data,
}

impl Observer for CObserver {
    fn observe(&self, event: &Event<'_>) {
        let mut text = String::new();
        let mut told = pp_event {
            size: size_of::<pp_event>(),
            kind: 0,
            status: 0,
            address: 0,
            len: 0,
            id: 0,
            generation: 0,
            message: pp_str::EMPTY,
            prepared: 0,
            of: 0,
        };
        let site = match event {
            Event::Placed(placed) => Some(placed.site),
            Event::Changed(changed) => Some(changed.site),
            Event::Settled { site } => Some(*site),
            Event::Refused(refused) => refused.site,
            _ => None,
        };
        if let Some(site) = site {
            told.address = site.addr().get();
            told.len = site.range().len();
            told.id = site.id().get();
            text = site.function().name().into();
        }
        told.kind = match event {
            Event::Registered { .. } => pp_event_kind::PP_EVENT_REGISTERED,
            Event::Unregistered { .. } => pp_event_kind::PP_EVENT_UNREGISTERED,
            Event::Placed(placed) => {
                told.address = placed.range.start().get();
                told.len = placed.range.len();
                told.generation = placed.generation;
                text = CodeKind::name(placed.kind).into();
                pp_event_kind::PP_EVENT_PLACED
            }
            Event::Changed(changed) => {
                told.status = crate::site::status_number(changed.became);
                told.generation = changed.generation;
                pp_event_kind::PP_EVENT_CHANGED
            }
            Event::Settled { .. } => pp_event_kind::PP_EVENT_SETTLED,
            Event::Refused(refused) => {
                text = refused.error.to_string();
                pp_event_kind::PP_EVENT_REFUSED
            }
            Event::Reclaimed(reclaimed) => {
                told.address = reclaimed.range.start().get();
                told.len = reclaimed.range.len();
                told.generation = reclaimed.generation;
                pp_event_kind::PP_EVENT_RECLAIMED
            }
            Event::Preparing { prepared, of } => {
                told.prepared = *prepared;
                told.of = *of;
                pp_event_kind::PP_EVENT_PREPARING
            }
            // An event that this interface does not know yet.
            _ => return,
        } as u32;
        told.message = pp_str::of(&text);
        callback("an observer", || {
            // SAFETY: whoever gave it has promised that it can be called so.
            unsafe { (self.observe)(&told, self.data.get()) }
        });
    }
}

/// Adds an observer. Where this fails, `data` is still the caller's; afterwards the finalizer frees it.
///
/// # Safety
/// Promises that the observer can be called with `data` on any thread that makes changes. Threads: any.
/// Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_engine_builder_observer(
    builder: *mut pp_engine_builder,
    observer: pp_observer,
    data: *mut c_void,
    finalizer: pp_finalizer,
) -> *mut pp_error {
    boundary!({
        let observe = observer.ok_or(Misuse::Null("the observer"))?;
        describe(builder, |description| {
            let data = Data::new(data, finalizer);
            description
                .watchers
                .push(Watcher::Callback(CObserver { observe, data }));
            Ok(())
        })
    })
}

/// Writes the names of functions, stubs and exit stubs into a map for profilers: the file of that name,
/// or /tmp/perf-PID.map where `path` is empty.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_engine_builder_perf_map(
    builder: *mut pp_engine_builder,
    path: pp_str,
) -> *mut pp_error {
    boundary!({
        let path = path.get()?;
        describe(builder, |description| {
            let map = match path.is_empty() {
                true => PerfMap::create(),
                false => PerfMap::at(path),
            }?;
            description.watchers.push(Watcher::Perf(map));
            Ok(())
        })
    })
}

/// Writes names and bytes of code into a dump for `perf inject --jit`, in that folder.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_engine_builder_jit_dump(
    builder: *mut pp_engine_builder,
    folder: pp_str,
) -> *mut pp_error {
    boundary!({
        let folder = folder.get()?;
        describe(builder, |description| {
            let dump = JitDump::create_in(folder)?;
            description.watchers.push(Watcher::Dump(dump));
            Ok(())
        })
    })
}

/// Tells GDB of functions, stubs and exit stubs, with the way to their callers. Refused on big-endian
/// PowerPC64.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_engine_builder_gdb(builder: *mut pp_engine_builder) -> *mut pp_error {
    boundary!(describe(builder, |description| {
        #[cfg(not(all(target_arch = "powerpc64", target_endian = "big")))]
        description.watchers.push(Watcher::Gdb(Gdb::new()));
        #[cfg(all(target_arch = "powerpc64", target_endian = "big"))]
        return Err(Misuse::Order("there is no observer for GDB on big-endian PowerPC64").into());
        #[cfg(not(all(target_arch = "powerpc64", target_endian = "big")))]
        Ok(())
    }))
}

/// Tells the process's unwinder how frames are found in stubs and exit stubs, so that exceptions and
/// backtraces go through them.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_engine_builder_unwinder(builder: *mut pp_engine_builder) -> *mut pp_error {
    boundary!(describe(builder, |description| {
        description.watchers.push(Watcher::Unwinder(Unwinder::new()));
        Ok(())
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was told last.
    struct Told {
        kind: u32,
        size: usize,
        prepared: usize,
        of: usize,
    }

    unsafe extern "C-unwind" fn keep(event: *const pp_event, data: *mut c_void) {
        // SAFETY: the observer below was made with a place for it, and the event is lent.
        unsafe {
            let event = *event;
            data.cast::<Told>().write(Told {
                kind: event.kind,
                size: event.size,
                prepared: event.prepared,
                of: event.of,
            });
        }
    }

    #[test]
    fn how_far_a_transaction_is_prepared_is_told() {
        let mut told = Told {
            kind: 0,
            size: 0,
            prepared: 0,
            of: 0,
        };
        let observer = CObserver {
            observe: keep,
            data: Data::new((&raw mut told).cast(), None),
        };
        observer.observe(&Event::Preparing {
            prepared: 4096,
            of: 5000,
        });
        drop(observer);
        assert_eq!(told.kind, pp_event_kind::PP_EVENT_PREPARING as u32);
        assert_eq!(told.size, size_of::<pp_event>());
        assert_eq!((told.prepared, told.of), (4096, 5000));
    }

    /// Programs that were compiled with a header that did not have the last fields find the others
    /// where they were.
    #[test]
    fn an_event_grows_at_its_end() {
        let before = std::mem::offset_of!(pp_event, message) + size_of::<pp_str>();
        assert_eq!(std::mem::offset_of!(pp_event, prepared), before);
        assert_eq!(std::mem::offset_of!(pp_event, of), before + size_of::<usize>());
    }
}
