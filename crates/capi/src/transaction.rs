//! Changes of many sites that are made together.

use std::sync::Arc;

use parking_lot::Mutex;
use patchpoint::Engine;
use patchpoint::addr::CodeAddr;
use patchpoint::engine::{Prepared, Transaction};
use patchpoint::publish::GracePeriod;

use crate::change::{pp_receipt, receive};
use crate::engine::{EngineBody, pp_engine};
use crate::error::{Misuse, Result, pp_error};
use crate::guard::boundary;
use crate::handle::{self, HandleOut, handle};
use crate::module::{FunctionBody, pp_function};
use crate::sequence::{self, pp_sequence};
use crate::site::{SiteBody, pp_site};
use crate::text::{TextBody, pp_text};
use crate::types::{GrowingOut, pp_str};

/// Changes that are made as one: all of them, or none. A change that is refused leaves the
/// transaction as it was.
pub struct pp_transaction {
    _opaque: [u8; 0],
}

/// A transaction that is assembled and checked, to be looked at and committed.
pub struct pp_prepared {
    _opaque: [u8; 0],
}

/// What borrows an engine, with that engine.
struct WithEngine<T> {
    /// Before what it borrows, so that it goes first.
    what: T,
    _engine: Arc<Engine>,
}

/// An engine that is borrowed for as long as whoever has the other half keeps it.
fn borrowed(engine: &Engine) -> (&'static Engine, Arc<Engine>) {
    let kept = Arc::new(engine.clone());
    let at: *const Engine = Arc::as_ptr(&kept);
    // SAFETY: a `WithEngine` keeps it there until what borrows it is gone, and lends that for no longer.
    (unsafe { &*at }, kept)
}

pub(crate) struct TransactionBody(Mutex<WithEngine<Transaction<'static>>>);
handle!(pp_transaction, TransactionBody, 0x7070_000e);

/// What is prepared; `None` when it has been committed.
pub(crate) struct PreparedBody(Mutex<Option<WithEngine<Prepared<'static>>>>);
handle!(pp_prepared, PreparedBody, 0x7070_000f);

/// # Safety
/// As for `handle::get`.
unsafe fn change<T>(
    transaction: *mut pp_transaction,
    work: impl FnOnce(&mut Transaction<'static>) -> patchpoint::Result<T>,
) -> Result<T> {
    // SAFETY: the same.
    let body = unsafe { handle::get::<TransactionBody>(transaction) }?;
    let mut with_engine = body.0.lock();
    Ok(work(&mut with_engine.what)?)
}

/// Starts a transaction. To be freed by pp_transaction_free(), which changes nothing.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_transaction_new(
    engine: *const pp_engine,
    transaction: *mut *mut pp_transaction,
) -> *mut pp_error {
    boundary!({
        let to = HandleOut::<TransactionBody>::new(transaction)?;
        let engine = handle::get::<EngineBody>(engine)?;
        let (lent, kept) = borrowed(&engine.engine);
        to.set(TransactionBody(Mutex::new(WithEngine {
            what: lent.transaction(),
            _engine: kept,
        })));
        Ok(())
    })
}

/// Adds: every valid site with that ID gets the sequence.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_transaction_patch(
    transaction: *mut pp_transaction,
    id: u64,
    sequence: *const pp_sequence,
) -> *mut pp_error {
    boundary!({
        let sequence = sequence::get(sequence)?;
        change(transaction, |changes| changes.patch(id, &sequence).map(drop))
    })
}

/// Adds: the site gets the sequence.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_transaction_patch_site(
    transaction: *mut pp_transaction,
    site: *const pp_site,
    sequence: *const pp_sequence,
) -> *mut pp_error {
    boundary!({
        let (site, sequence) = (handle::get::<SiteBody>(site)?, sequence::get(sequence)?);
        change(transaction, |changes| {
            changes.patch_site(&site, &sequence).map(drop)
        })
    })
}

/// Adds: the site gets its original bytes back.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_transaction_restore_site(
    transaction: *mut pp_transaction,
    site: *const pp_site,
) -> *mut pp_error {
    boundary!({
        let site = handle::get::<SiteBody>(site)?;
        change(transaction, |changes| changes.restore(&site).map(drop))
    })
}

/// Adds: every patchpoint, shadow and told site of the function goes to the handler of
/// deoptimizations, for good.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_transaction_invalidate(
    transaction: *mut pp_transaction,
    function: *const pp_function,
) -> *mut pp_error {
    boundary!({
        let function = handle::get::<FunctionBody>(function)?;
        change(transaction, |changes| changes.invalidate(&function).map(drop))
    })
}

/// Adds: the site goes to the handler of deoptimizations, for good.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_transaction_invalidate_site(
    transaction: *mut pp_transaction,
    site: *const pp_site,
) -> *mut pp_error {
    boundary!({
        let site = handle::get::<SiteBody>(site)?;
        change(transaction, |changes| changes.invalidate_site(&site).map(drop))
    })
}

/// Adds: the entry sites of the function jump to that address.
///
/// # Safety
/// As for pp_engine_redirect(). Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_transaction_redirect(
    transaction: *mut pp_transaction,
    function: *const pp_function,
    address: u64,
) -> *mut pp_error {
    boundary!({
        let function = handle::get::<FunctionBody>(function)?;
        // SAFETY: the caller promises the same.
        change(transaction, |changes| unsafe {
            changes.redirect(&function, CodeAddr::new(address)).map(drop)
        })
    })
}

/// Adds: every recorded call of the function of that name goes to that address.
///
/// # Safety
/// As for pp_engine_retarget(). Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_transaction_retarget(
    transaction: *mut pp_transaction,
    function: pp_str,
    address: u64,
) -> *mut pp_error {
    boundary!({
        let function = function.get()?;
        // SAFETY: the caller promises the same.
        change(transaction, |changes| unsafe {
            changes.retarget(function, CodeAddr::new(address)).map(drop)
        })
    })
}

/// Adds: every recorded call of the function of that name goes where it was linked to.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_transaction_restore_calls(
    transaction: *mut pp_transaction,
    function: pp_str,
) -> *mut pp_error {
    boundary!({
        let function = function.get()?;
        change(transaction, |changes| changes.restore_calls(function).map(drop))
    })
}

/// No return address points into the sites of the transaction: their return offsets need not be
/// kept. It holds for one attempt to prepare or commit.
///
/// # Safety
/// Promises what is said above. Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_transaction_grace_period(transaction: *mut pp_transaction) -> *mut pp_error {
    boundary!({
        change(transaction, |changes| {
            // SAFETY: the caller promises the same.
            changes.grace_period(unsafe { GracePeriod::promise() });
            Ok(())
        })
    })
}

/// The return offsets need not be kept: the world, which is stopped by signal, finds out whether a
/// thread is in a site or returns there.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_transaction_quiescent(transaction: *mut pp_transaction) -> *mut pp_error {
    boundary!({
        change(transaction, |changes| {
            changes.quiescent();
            Ok(())
        })
    })
}

/// When the commit returns, no thread begins to execute what the sites held before, also of live
/// ones.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_transaction_immediate(transaction: *mut pp_transaction) -> *mut pp_error {
    boundary!({
        change(transaction, |changes| {
            changes.immediate();
            Ok(())
        })
    })
}

/// Prepares the changes and makes them: all, or none. The transaction is as new then; where it fails
/// it has its changes still. `receipt` may be NULL.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_transaction_commit(
    transaction: *mut pp_transaction,
    receipt: *mut pp_receipt,
) -> *mut pp_error {
    boundary!({
        let to = GrowingOut::maybe(receipt)?;
        receive(to, change(transaction, Transaction::commit)?);
        Ok(())
    })
}

/// Assembles and checks the changes, and changes no site. The transaction is as new then; where it
/// fails it has its changes still. What is prepared is to be freed by pp_prepared_free().
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_transaction_prepare(
    transaction: *mut pp_transaction,
    prepared: *mut *mut pp_prepared,
) -> *mut pp_error {
    boundary!({
        let to = HandleOut::<PreparedBody>::new(prepared)?;
        let body = handle::get::<TransactionBody>(transaction)?;
        let mut with_engine = body.0.lock();
        let kept = Arc::clone(&with_engine._engine);
        let what = with_engine.what.prepare()?;
        to.set(PreparedBody(Mutex::new(Some(WithEngine { what, _engine: kept }))));
        Ok(())
    })
}

/// Frees a transaction; what it has not committed is not made.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_transaction_free(transaction: *mut pp_transaction) -> *mut pp_error {
    boundary!(handle::free::<TransactionBody>(transaction))
}

const COMMITTED: Misuse =
    Misuse::Order("what was prepared has been committed: prepare the changes once more");

/// Shows what was prepared: of each site address, slack and disassembly before and after. The text is
/// to be freed by pp_text_free().
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_prepared_text(
    prepared: *const pp_prepared,
    text: *mut *mut pp_text,
) -> *mut pp_error {
    boundary!({
        let to = HandleOut::<TextBody>::new(text)?;
        let body = handle::get::<PreparedBody>(prepared)?;
        let prepared = body.0.lock();
        to.set(TextBody::new(
            prepared.as_ref().ok_or(COMMITTED)?.what.to_string(),
        ));
        Ok(())
    })
}

/// Makes the changes that were prepared: all, or none. It is refused where a site was changed
/// meanwhile. `receipt` may be NULL. What was prepared is used up, and still to be freed.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_prepared_commit(
    prepared: *mut pp_prepared,
    receipt: *mut pp_receipt,
) -> *mut pp_error {
    boundary!({
        let to = GrowingOut::maybe(receipt)?;
        let body = handle::get::<PreparedBody>(prepared)?;
        let taken = body.0.lock().take();
        let WithEngine { what, _engine } = taken.ok_or(COMMITTED)?;
        receive(to, what.commit()?);
        Ok(())
    })
}

/// Frees what was prepared; what is not committed is not made.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_prepared_free(prepared: *mut pp_prepared) -> *mut pp_error {
    boundary!(handle::free::<PreparedBody>(prepared))
}
