//! Entries of inline caches: guards over a site's values, and what to do where they hold.

use parking_lot::Mutex;
use patchpoint::addr::CodeAddr;
use patchpoint::ic::{Action, Entry, Guard, Pointer};

use crate::error::{Misuse, Result, pp_error};
use crate::guard::boundary;
use crate::handle::{self, HandleOut, handle};
use crate::operand::{of_type, on_return, pp_operand, pp_source};

/// What a cache does for values of some kind. It always applies, until it gets guards.
pub struct pp_entry {
    _opaque: [u8; 0],
}

pub(crate) type EntryBody = Mutex<Entry>;
handle!(pp_entry, EntryBody, 0x7070_0017);

/// How a pointer is in a value.
#[repr(C)]
pub enum pp_boxing {
    /// The value is the pointer.
    PP_BOXING_PLAIN = 0,
    /// The value is the pointer plus `amount`, a tag below its alignment.
    PP_BOXING_TAGGED = 1,
    /// The pointer is in the lower `amount` bits of the value.
    PP_BOXING_BOXED = 2,
}

/// A pointer to an object, in a value of the site. The function pp_pointer_to(), below, makes a plain
/// one.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pp_pointer {
    /// The value.
    pub value: pp_operand,
    /// One of pp_boxing.
    pub boxing: u32,
    /// See pp_boxing.
    pub amount: u32,
}

impl pp_pointer {
    fn get(self) -> Result<Pointer> {
        let value = self.value.get()?;
        let amount = u8::try_from(self.amount)
            .map_err(|_| Misuse::Number("amount of a pp_pointer", self.amount.into()));
        Ok(match self.boxing {
            0 => Pointer::plain(value),
            1 => Pointer::tagged(value, amount?),
            2 => Pointer::boxed(value, amount?),
            other => return Err(Misuse::Number("pp_boxing", other.into()).into()),
        })
    }
}

/// # Safety
/// As for [`HandleOut::new`].
unsafe fn new(entry: *mut *mut pp_entry, action: impl FnOnce() -> Result<Action>) -> Result<()> {
    // SAFETY: the same.
    let to = unsafe { HandleOut::<EntryBody>::new(entry) }?;
    to.set(Mutex::new(Entry::new(action()?)));
    Ok(())
}

/// An entry whose result is the field of that type (one of pp_type) at `disp` in the object. To be
/// freed by pp_entry_free().
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_entry_load(
    from: pp_pointer,
    type_: u32,
    disp: i32,
    entry: *mut *mut pp_entry,
) -> *mut pp_error {
    boundary!(new(entry, || {
        let from = from.get()?;
        of_type!(type_, T => Action::load::<T>(from, disp))
    }))
}

/// An entry whose result is the field of that type at `disp` in what the pointer at `at` in the object
/// points to.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_entry_load_through(
    pointer: pp_pointer,
    at: i32,
    type_: u32,
    disp: i32,
    entry: *mut *mut pp_entry,
) -> *mut pp_error {
    boundary!(new(entry, || {
        let pointer = pointer.get()?;
        of_type!(type_, T => Action::load_through::<T>(pointer, at, disp))
    }))
}

/// An entry that stores a value in the field of that type at `disp` in the object.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_entry_store(
    to: pp_pointer,
    type_: u32,
    disp: i32,
    value: pp_source,
    entry: *mut *mut pp_entry,
) -> *mut pp_error {
    boundary!(new(entry, || {
        let (to, value) = (to.get()?, value.get()?);
        of_type!(type_, T => Action::store::<T>(to, disp, value))
    }))
}

/// An entry whose result is this number.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_entry_constant(value: u64, entry: *mut *mut pp_entry) -> *mut pp_error {
    boundary!(new(entry, || Ok(Action::constant(value))))
}

/// An entry that calls the function at that address with the site's arguments. `on_return` is one of
/// pp_on_return.
///
/// # Safety
/// Promises what pp_sequence_call() promises. Threads: any. Handlers: yes. Stopped world: no. Signal
/// handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_entry_call(
    address: u64,
    on_return: u32,
    entry: *mut *mut pp_entry,
) -> *mut pp_error {
    boundary!(new(entry, || {
        let on_return = self::on_return(on_return)?;
        // SAFETY: the caller promises the same.
        Ok(unsafe { Action::call(CodeAddr::new(address), on_return) })
    }))
}

/// # Safety
/// As for `handle::get`.
unsafe fn change(entry: *mut pp_entry, change: impl FnOnce(Entry) -> Entry) -> Result<()> {
    // SAFETY: the same.
    let body = unsafe { handle::get::<EntryBody>(entry) }?;
    let mut body = body.lock();
    let before = body.clone();
    *body = change(before);
    Ok(())
}

/// The entry applies only where the value is this number.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_entry_guard_equal(
    entry: *mut pp_entry,
    value: pp_source,
    number: u64,
) -> *mut pp_error {
    boundary!({
        let value = value.get()?;
        change(entry, |entry| entry.guard(Guard::equal(value, number)))
    })
}

/// The entry applies only where the field of that type at `disp` in the object is this number.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_entry_guard_field(
    entry: *mut pp_entry,
    pointer: pp_pointer,
    type_: u32,
    disp: i32,
    number: u64,
) -> *mut pp_error {
    boundary!({
        let pointer = pointer.get()?;
        let guard = of_type!(type_, T => Guard::field::<T>(pointer, disp, number))?;
        change(entry, |entry| entry.guard(guard))
    })
}

/// The entry applies only where the field of that type at `disp`, in what the pointer at `at` in the
/// object points to, is this number.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_entry_guard_through(
    entry: *mut pp_entry,
    pointer: pp_pointer,
    at: i32,
    type_: u32,
    disp: i32,
    number: u64,
) -> *mut pp_error {
    boundary!({
        let pointer = pointer.get()?;
        let guard = of_type!(type_, T => Guard::through::<T>(pointer, at, disp, number))?;
        change(entry, |entry| entry.guard(guard))
    })
}

/// The entry applies only where the bits of the value that the mask has are this number.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_entry_guard_masked(
    entry: *mut pp_entry,
    value: pp_operand,
    mask: u64,
    number: u64,
) -> *mut pp_error {
    boundary!({
        let value = value.get()?;
        change(entry, |entry| entry.guard(Guard::masked(value, mask, number)))
    })
}

/// The entry applies only where the bits of the value from bit `from` on are this number.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_entry_guard_high_bits(
    entry: *mut pp_entry,
    value: pp_operand,
    from: u8,
    number: u64,
) -> *mut pp_error {
    boundary!({
        let value = value.get()?;
        change(entry, |entry| entry.guard(Guard::high_bits(value, from, number)))
    })
}

/// The entry is valid only until the key is retracted by pp_caches_retract().
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_entry_depends_on(entry: *mut pp_entry, key: u64) -> *mut pp_error {
    boundary!(change(entry, |entry| entry.depends_on(key)))
}

/// Frees an entry; caches keep what they have learnt.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_entry_free(entry: *mut pp_entry) -> *mut pp_error {
    boundary!(handle::free::<EntryBody>(entry))
}
