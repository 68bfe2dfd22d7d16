//! Changes of sites that are made at once, and what is freed after them.

use std::fmt::Write;

use patchpoint::addr::CodeAddr;
use patchpoint::engine::{Receipt, Settled};
use patchpoint::publish::{Attached, GracePeriod};

use crate::engine::{EngineBody, pp_engine};
use crate::error::{Misuse, pp_error};
use crate::guard::boundary;
use crate::handle::{self, HandleOut};
use crate::module::{FunctionBody, ModuleBody, pp_function, pp_module};
use crate::sequence::{self, pp_sequence};
use crate::site::{SiteBody, pp_site};
use crate::text::{TextBody, pp_text};
use crate::types::{Growing, GrowingOut, out, pp_str};

/// What a change has done. `size` comes first, see the head of this file.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pp_receipt {
    /// The size of this structure, written by the caller.
    pub size: usize,
    /// How many sites were written; those that were as asked for already are not.
    pub sites: u64,
    /// How many sites of an ID were left as they are, as they have been invalidated.
    pub invalidated: u64,
}

// SAFETY: numbers.
unsafe impl Growing for pp_receipt {}

/// Writes a receipt for who wants one.
pub(crate) fn receive(to: Option<GrowingOut<pp_receipt>>, receipt: Receipt) {
    if let Some(to) = to {
        to.set(pp_receipt {
            size: 0,
            sites: receipt.sites as u64,
            invalidated: receipt.invalidated as u64,
        });
    }
}

/// What pp_engine_settle() has done. `size` comes first, see the head of this file.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pp_settled {
    /// The size of this structure, written by the caller.
    pub size: usize,
    /// How many sites execute their code in place from now on.
    pub settled: u64,
    /// How many wait until every attached thread has reported.
    pub waiting: u64,
    /// How many of those that were patched since the last call stay in their stubs.
    pub staying: u64,
}

// SAFETY: numbers.
unsafe impl Growing for pp_settled {}

/// Figures of an engine. `size` comes first, see the head of this file.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pp_stats {
    /// The size of this structure, written by the caller.
    pub size: usize,
    /// Bytes that are reserved for stubs.
    pub stub_bytes_reserved: u64,
    /// Bytes of stubs and exit stubs that are in use.
    pub stub_bytes_in_use: u64,
    /// Bytes of them that were ever freed.
    pub stub_bytes_reclaimed: u64,
    /// How many stubs and exit stubs there are.
    pub stubs: u64,
    /// How many retired stubs wait for pp_engine_reclaim() or pp_engine_reclaim_by_signal().
    pub retired: u64,
    /// How many modules are registered.
    pub modules: u64,
}

// SAFETY: numbers.
unsafe impl Growing for pp_stats {}

/// Writes the sequence into every valid site with that ID, of all modules: all of them, or none. Those
/// that were invalidated stay so, and are counted. `receipt` may be NULL.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_engine_patch(
    engine: *const pp_engine,
    id: u64,
    sequence: *const pp_sequence,
    receipt: *mut pp_receipt,
) -> *mut pp_error {
    boundary!({
        let to = GrowingOut::maybe(receipt)?;
        let (engine, sequence) = (handle::get::<EngineBody>(engine)?, sequence::get(sequence)?);
        receive(to, engine.engine.patch(id, &sequence)?);
        Ok(())
    })
}

/// The same for the sites of one module.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_module_patch(
    module: *const pp_module,
    id: u64,
    sequence: *const pp_sequence,
    receipt: *mut pp_receipt,
) -> *mut pp_error {
    boundary!({
        let to = GrowingOut::maybe(receipt)?;
        let (module, sequence) = (handle::get::<ModuleBody>(module)?, sequence::get(sequence)?);
        receive(to, module.patch(id, &sequence)?);
        Ok(())
    })
}

/// Writes the sequence into one site.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_site_patch(
    site: *const pp_site,
    sequence: *const pp_sequence,
    receipt: *mut pp_receipt,
) -> *mut pp_error {
    boundary!({
        let to = GrowingOut::maybe(receipt)?;
        let (site, sequence) = (handle::get::<SiteBody>(site)?, sequence::get(sequence)?);
        receive(to, site.patch(&sequence)?);
        Ok(())
    })
}

/// Puts the original bytes back into every valid site with that ID.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_engine_restore(
    engine: *const pp_engine,
    id: u64,
    receipt: *mut pp_receipt,
) -> *mut pp_error {
    boundary!({
        let to = GrowingOut::maybe(receipt)?;
        receive(to, handle::get::<EngineBody>(engine)?.engine.restore(id)?);
        Ok(())
    })
}

/// The same for the sites of one module.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_module_restore(
    module: *const pp_module,
    id: u64,
    receipt: *mut pp_receipt,
) -> *mut pp_error {
    boundary!({
        let to = GrowingOut::maybe(receipt)?;
        receive(to, handle::get::<ModuleBody>(module)?.restore(id)?);
        Ok(())
    })
}

/// Puts the original bytes back into one site.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_site_restore(site: *const pp_site, receipt: *mut pp_receipt) -> *mut pp_error {
    boundary!({
        let to = GrowingOut::maybe(receipt)?;
        receive(to, handle::get::<SiteBody>(site)?.restore()?);
        Ok(())
    })
}

/// Assembles and checks the sequence for every site with that ID, changes nothing, and shows it: of
/// each site address, slack and disassembly before and after. The text is to be freed by
/// pp_text_free().
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_engine_plan(
    engine: *const pp_engine,
    id: u64,
    sequence: *const pp_sequence,
    text: *mut *mut pp_text,
) -> *mut pp_error {
    boundary!({
        let to = HandleOut::<TextBody>::new(text)?;
        let (engine, sequence) = (handle::get::<EngineBody>(engine)?, sequence::get(sequence)?);
        to.set(TextBody::new(engine.engine.plan(id, &sequence)?.to_string()));
        Ok(())
    })
}

/// Makes every patchpoint, shadow and told site of the function go to the handler of deoptimizations,
/// for good. When it returns no thread begins to execute what a site held.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_engine_invalidate(
    engine: *const pp_engine,
    function: *const pp_function,
    receipt: *mut pp_receipt,
) -> *mut pp_error {
    boundary!({
        let to = GrowingOut::maybe(receipt)?;
        let engine = handle::get::<EngineBody>(engine)?;
        let function = handle::get::<FunctionBody>(function)?;
        receive(to, engine.engine.invalidate(&function)?);
        Ok(())
    })
}

/// Makes one site go to the handler of deoptimizations, for good.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_engine_invalidate_site(
    engine: *const pp_engine,
    site: *const pp_site,
    receipt: *mut pp_receipt,
) -> *mut pp_error {
    boundary!({
        let to = GrowingOut::maybe(receipt)?;
        let (engine, site) = (handle::get::<EngineBody>(engine)?, handle::get::<SiteBody>(site)?);
        receive(to, engine.engine.invalidate_site(&site)?);
        Ok(())
    })
}

/// Makes the entry sites of the function jump to that address: nobody enters its code any more.
///
/// # Safety
/// Promises, as long as a thread may enter the function, that code there can be entered in its place.
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_engine_redirect(
    engine: *const pp_engine,
    function: *const pp_function,
    address: u64,
    receipt: *mut pp_receipt,
) -> *mut pp_error {
    boundary!({
        let to = GrowingOut::maybe(receipt)?;
        let engine = handle::get::<EngineBody>(engine)?;
        let function = handle::get::<FunctionBody>(function)?;
        // SAFETY: the caller promises the same.
        let done = unsafe { engine.engine.redirect(&function, CodeAddr::new(address)) };
        receive(to, done?);
        Ok(())
    })
}

/// Makes every recorded call of the function of that name, in all modules, go to that address.
///
/// # Safety
/// Promises, as long as a recorded call may be made, that the function there can be called in its
/// place. Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_engine_retarget(
    engine: *const pp_engine,
    function: pp_str,
    address: u64,
    receipt: *mut pp_receipt,
) -> *mut pp_error {
    boundary!({
        let to = GrowingOut::maybe(receipt)?;
        let engine = handle::get::<EngineBody>(engine)?;
        // SAFETY: the caller promises the same.
        let done = unsafe { engine.engine.retarget(function.get()?, CodeAddr::new(address)) };
        receive(to, done?);
        Ok(())
    })
}

/// Makes every recorded call of the function of that name go where it was linked to.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_engine_restore_calls(
    engine: *const pp_engine,
    function: pp_str,
    receipt: *mut pp_receipt,
) -> *mut pp_error {
    boundary!({
        let to = GrowingOut::maybe(receipt)?;
        let engine = handle::get::<EngineBody>(engine)?;
        let mut changes = engine.engine.transaction();
        receive(to, changes.restore_calls(function.get()?)?.commit()?);
        Ok(())
    })
}

/// Puts a sequence into a stub of its own near the site, for sequences of this site to jump to. It
/// stays until the module is unregistered.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_engine_publish_stub(
    engine: *const pp_engine,
    site: *const pp_site,
    sequence: *const pp_sequence,
    address: *mut u64,
) -> *mut pp_error {
    boundary!({
        let to = out(address, 0)?;
        let (engine, site) = (handle::get::<EngineBody>(engine)?, handle::get::<SiteBody>(site)?);
        let sequence = sequence::get(sequence)?;
        *to = engine.engine.publish_stub(&site, &sequence)?.get();
        Ok(())
    })
}

/// Moves installed code of live sites from stubs into the sites, where it fits. Nothing waits: sites
/// that were patched since the last call are settled by the next one after the reports of all attached
/// threads. `settled` may be NULL.
///
/// # Safety
/// Promises that every thread that executes code of live modules is attached by pp_thread_attach(),
/// and that what the threads report is true. Threads: any. Handlers: yes. Stopped world: no. Signal
/// handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_engine_settle(
    engine: *const pp_engine,
    settled: *mut pp_settled,
) -> *mut pp_error {
    boundary!({
        let to = GrowingOut::maybe(settled)?;
        let engine = handle::get::<EngineBody>(engine)?;
        // SAFETY: the caller promises the same.
        let Settled {
            settled,
            waiting,
            staying,
            ..
        } = engine.engine.settle(&unsafe { Attached::promise() })?;
        if let Some(to) = to {
            to.set(pp_settled {
                size: 0,
                settled: settled as u64,
                waiting: waiting as u64,
                staying: staying as u64,
            });
        }
        Ok(())
    })
}

/// Frees the stubs of live modules that nothing branches to any more and that every attached thread
/// has left since, as it reports. Nothing waits. `count` becomes how many.
///
/// # Safety
/// As for pp_engine_settle(). Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_engine_reclaim_passed(
    engine: *const pp_engine,
    count: *mut usize,
) -> *mut pp_error {
    boundary!({
        let to = out(count, 0)?;
        let engine = handle::get::<EngineBody>(engine)?;
        // SAFETY: the caller promises the same.
        *to = engine.engine.reclaim_passed(&unsafe { Attached::promise() })?;
        Ok(())
    })
}

/// Frees the stubs that nothing branches to any more but into which a callee could have returned.
///
/// # Safety
/// Promises that no thread is in such a stub or will return to one, suspended coroutines included.
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_engine_reclaim(engine: *const pp_engine, count: *mut usize) -> *mut pp_error {
    boundary!({
        let to = out(count, 0)?;
        let engine = handle::get::<EngineBody>(engine)?;
        // SAFETY: the caller promises the same.
        *to = engine.engine.reclaim(&unsafe { GracePeriod::promise() })?;
        Ok(())
    })
}

/// The same for an engine whose world is stopped by signal, which asks the attached threads where they
/// are, and waits until none is in these stubs or returns there.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_engine_reclaim_by_signal(
    engine: *const pp_engine,
    count: *mut usize,
) -> *mut pp_error {
    boundary!({
        let to = out(count, 0)?;
        let engine = handle::get::<EngineBody>(engine)?;
        let world = engine.signal.as_ref().ok_or(Misuse::Order(
            "the engine's world is not stopped by signal: call pp_engine_reclaim() when no thread is in a stub",
        ))?;
        let grace_period = world.grace_period(&engine.engine.retired())?;
        *to = engine.engine.reclaim(&grace_period)?;
        Ok(())
    })
}

/// Figures of the engine.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_engine_stats(engine: *const pp_engine, stats: *mut pp_stats) -> *mut pp_error {
    boundary!({
        let to = GrowingOut::new(stats)?;
        let engine = &handle::get::<EngineBody>(engine)?.engine;
        let stubs = engine.stub_stats();
        to.set(pp_stats {
            size: 0,
            stub_bytes_reserved: stubs.reserved,
            stub_bytes_in_use: stubs.in_use,
            stub_bytes_reclaimed: stubs.reclaimed,
            stubs: stubs.slots,
            retired: engine.retired().len() as u64,
            modules: engine.modules().len() as u64,
        });
        Ok(())
    })
}

/// The last changes that were made, one in a line, oldest first: its number, what the site became, the
/// site. The text is to be freed by pp_text_free().
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_engine_journal_text(
    engine: *const pp_engine,
    text: *mut *mut pp_text,
) -> *mut pp_error {
    boundary!({
        let to = HandleOut::<TextBody>::new(text)?;
        let engine = handle::get::<EngineBody>(engine)?;
        let mut lines = String::new();
        for entry in engine.engine.journal() {
            let name = match &entry.name {
                Some(name) => name.to_string(),
                None => format!("a site at {}, of a module that is gone", entry.addr),
            };
            let became = format!("{:?}", entry.became).to_lowercase();
            writeln!(lines, "{} {became} {name}", entry.number).expect("a string takes any text");
        }
        to.set(TextBody::new(lines));
        Ok(())
    })
}
