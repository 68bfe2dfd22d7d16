//! Adopting code: what another JIT has placed.

use std::ffi::c_void;
use std::sync::Arc;

use parking_lot::Mutex;
use patchpoint::addr::{CodeAddr, Len};
use patchpoint::arch::Arch;
use patchpoint::image::{Adoption, AdoptionError};
use patchpoint::memory::{CodeMemory, StrategyChoice};

use crate::arena::{PlacedBody, pp_placed};
use crate::engine::{EngineBody, pp_engine};
use crate::error::{Misuse, Result, pp_error};
use crate::guard::{boundary, callback};
use crate::handle::{self, HandleOut, handle};
use crate::load::{CodeBody, pp_code};
use crate::types::{out, pp_bytes, pp_str, slice};

/// A description of code that somebody else has placed.
pub struct pp_adoption {
    _opaque: [u8; 0],
}

pub(crate) type AdoptionBody = Mutex<Option<Adoption>>;
handle!(pp_adoption, AdoptionBody, 0x7070_000a);

/// How adopted code is written.
#[repr(C)]
pub enum pp_strategy {
    /// The first that works; the module that is registered live gets the one that it needs.
    PP_STRATEGY_AUTO = 0,
    /// The pages are copied into memory that has a second, writable mapping, at the same addresses.
    PP_STRATEGY_REMAP = 1,
    /// By /proc/self/mem.
    PP_STRATEGY_PROC_MEM = 2,
    /// The pages are writable and not executable while they are written.
    PP_STRATEGY_TOGGLE = 3,
}

/// Finds where a section of an object was placed: writes its address and returns true, or returns
/// false for one that was not placed. `index` is the section's in the file. It is called only during
/// the call that it is given to, on the same thread, and calls no function of this interface.
pub type pp_section_lookup = Option<
    unsafe extern "C-unwind" fn(index: usize, name: pp_str, address: *mut u64, data: *mut c_void) -> bool,
>;

fn host() -> Result<Arch> {
    let host = Arch::host();
    host.ok_or_else(|| Misuse::Order("this machine is none that code can run on").into())
}

/// Starts to describe code by the bytes of its stack map section, which are copied. No bytes are right
/// for code of which no stack map tells: its sites are told by pp_registration_site(). To be freed by
/// pp_adoption_free().
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_adoption_new(
    stack_maps: pp_bytes,
    adoption: *mut *mut pp_adoption,
) -> *mut pp_error {
    boundary!({
        let to = HandleOut::<AdoptionBody>::new(adoption)?;
        let arch = host()?;
        let maps = stack_maps.get()?.to_vec();
        to.set(Mutex::new(Some(Adoption::new(arch, arch.endian(), maps))));
        Ok(())
    })
}

/// Describes code that another linker has placed by the object file that it was: its functions, stack
/// maps, unwind information and tables. `lookup` is asked for the address of each section.
///
/// # Safety
/// Promises that `lookup` can be called with `data`. Threads: any. Handlers: yes. Stopped world: no.
/// Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_adoption_from_object(
    object: pp_bytes,
    lookup: pp_section_lookup,
    data: *mut c_void,
    adoption: *mut *mut pp_adoption,
) -> *mut pp_error {
    boundary!({
        let to = HandleOut::<AdoptionBody>::new(adoption)?;
        let lookup = lookup.ok_or(Misuse::Null("the lookup of sections"))?;
        let described = Adoption::from_object(object.get()?, |index, name| {
            let mut address = 0;
            let found = callback("a lookup of sections", || {
                // SAFETY: the caller promises that it can be called so.
                unsafe { lookup(index, pp_str::of(name), &mut address, data) }
            });
            found.then(|| CodeAddr::new(address))
        })?;
        to.set(Mutex::new(Some(described)));
        Ok(())
    })
}

/// Changes a description. Where that is refused, it stays as it was.
///
/// # Safety
/// As for `handle::get`.
unsafe fn change(
    adoption: *mut pp_adoption,
    change: impl FnOnce(Adoption) -> Result<Adoption>,
) -> Result<()> {
    // SAFETY: the same.
    let body = unsafe { handle::get::<AdoptionBody>(adoption) }?;
    let mut body = body.lock();
    let before = body.as_ref().ok_or(TAKEN)?.clone();
    *body = Some(change(before)?);
    Ok(())
}

const TAKEN: Misuse = Misuse::Order("the description has been adopted: describe the code once more");

/// Adds a function: its name, its address and its length in bytes.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_adoption_function(
    adoption: *mut pp_adoption,
    name: pp_str,
    address: u64,
    len: u32,
) -> *mut pp_error {
    boundary!({
        let name = name.get()?;
        change(adoption, |adoption| {
            Ok(adoption.function(name, CodeAddr::new(address), Len::new(len)))
        })
    })
}

/// The function that was added last is called through this pointer: on PowerPC ELFv1, the address of
/// its descriptor.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_adoption_called_at(adoption: *mut pp_adoption, pointer: u64) -> *mut pp_error {
    boundary!(change(adoption, |adoption| Ok(
        adoption.called_at(CodeAddr::new(pointer))
    )))
}

/// Writes the addresses of the functions of the stack map, in its order, into it: where the section
/// was taken from an object file, which does not know them.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_adoption_function_addresses(
    adoption: *mut pp_adoption,
    addresses: *const u64,
    count: usize,
) -> *mut pp_error {
    boundary!({
        let addresses = slice(addresses, count)?.iter();
        let addresses: Vec<CodeAddr> = addresses.copied().map(CodeAddr::new).collect();
        change(adoption, |adoption| Ok(adoption.function_addresses(&addresses)?))
    })
}

/// Adds unwind information: the bytes of an .eh_frame section, which are copied, and the address where
/// it is.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_adoption_eh_frame(
    adoption: *mut pp_adoption,
    address: u64,
    bytes: pp_bytes,
) -> *mut pp_error {
    boundary!({
        let bytes = bytes.get()?.to_vec();
        change(adoption, |adoption| {
            Ok(adoption.eh_frame(CodeAddr::new(address), bytes))
        })
    })
}

/// Adds the functions of which the unwind information tells that was added before. They are named by
/// their addresses; those that are known already stay as they are.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_adoption_functions_from_eh_frame(adoption: *mut pp_adoption) -> *mut pp_error {
    boundary!(change(adoption, |adoption| Ok(
        adoption.functions_from_eh_frame(|_| None)?
    )))
}

/// Adds a table about the code, such as a PC section: its name, its address and its bytes, which are
/// copied.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_adoption_code_table(
    adoption: *mut pp_adoption,
    name: pp_str,
    address: u64,
    bytes: pp_bytes,
) -> *mut pp_error {
    boundary!({
        let (name, bytes) = (name.get()?, bytes.get()?.to_vec());
        change(adoption, |adoption| {
            Ok(adoption.code_table(name, CodeAddr::new(address), bytes))
        })
    })
}

/// The code has not been executed yet, and will not be before its module is released.
///
/// # Safety
/// Promises what is said above. Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_adoption_not_yet_run(adoption: *mut pp_adoption) -> *mut pp_error {
    boundary!(change(adoption, |adoption| Ok(adoption.not_yet_run())))
}

/// How many functions are known so far.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_adoption_function_count(
    adoption: *const pp_adoption,
    count: *mut usize,
) -> *mut pp_error {
    boundary!({
        let to = out(count, 0)?;
        let body = handle::get::<AdoptionBody>(adoption)?;
        *to = body.lock().as_ref().ok_or(TAKEN)?.functions().count();
        Ok(())
    })
}

/// Takes what was described, or leaves it where that is refused.
///
/// # Safety
/// As for `handle::get`; and what `Adoption::promise` demands.
unsafe fn adopted<T>(
    adoption: *mut pp_adoption,
    adopt: impl FnOnce(std::result::Result<patchpoint::image::AdoptedCode, AdoptionError>) -> Result<T>,
) -> Result<T> {
    // SAFETY: the same.
    let body = unsafe { handle::get::<AdoptionBody>(adoption) }?;
    let mut body = body.lock();
    let described = body.as_ref().ok_or(TAKEN)?.clone();
    // SAFETY: the same.
    let result = adopt(unsafe { described.promise() })?;
    *body = None;
    Ok(result)
}

/// Takes over the code that was described, to be written by the strategy asked for, one of
/// pp_strategy. The description is used up, and still to be freed.
///
/// # Safety
/// Promises, from now until the module that is made of the code is gone with every handle of it: every
/// function's range is mapped, readable and executable and holds that function's code; nobody but this
/// library writes to the ranges, or unmaps, moves or protects the pages they lie in; what else lies in
/// those pages is code that the same threads execute, or nothing; the memory is not shared with a
/// mapping that is writable and executable at once. Threads: any. Handlers: yes. Stopped world: no.
/// Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_adopt(
    engine: *const pp_engine,
    adoption: *mut pp_adoption,
    strategy: u32,
    code: *mut *mut pp_code,
) -> *mut pp_error {
    boundary!({
        let to = HandleOut::<CodeBody>::new(code)?;
        let engine = handle::get::<EngineBody>(engine)?;
        let choice = match strategy {
            0 => StrategyChoice::Auto,
            1 => StrategyChoice::Remap,
            2 => StrategyChoice::ProcMem,
            3 => StrategyChoice::Toggle,
            other => return Err(Misuse::Number("pp_strategy", other.into()).into()),
        };
        let loaded = adopted(adoption, |adopted| Ok(engine.engine.adopt(adopted?, choice)?))?;
        to.set(Mutex::new(Some(loaded)));
        Ok(())
    })
}

/// Takes over code that was written into memory of an arena, which is written through that. The
/// description is used up, and still to be freed. The segments are not kept by the module: `placed` is
/// freed after it.
///
/// # Safety
/// Promises that the memory holds the functions' code, that only this library writes it from now on,
/// and that `placed` is not freed before the module that is made of the code is unregistered and gone
/// with every handle of it. Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_adopt_placed(
    engine: *const pp_engine,
    adoption: *mut pp_adoption,
    placed: *const pp_placed,
    code: *mut *mut pp_code,
) -> *mut pp_error {
    boundary!({
        let to = HandleOut::<CodeBody>::new(code)?;
        let engine = handle::get::<EngineBody>(engine)?;
        let placed = handle::get::<PlacedBody>(placed)?;
        // SAFETY: the caller promises the same.
        let memory: Arc<dyn CodeMemory> = Arc::new(unsafe { placed.writable() });
        let loaded = adopted(adoption, |adopted| {
            Ok(engine.engine.adopt_with(adopted?, &memory)?)
        })?;
        to.set(Mutex::new(Some(loaded)));
        Ok(())
    })
}

/// Frees a description.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_adoption_free(adoption: *mut pp_adoption) -> *mut pp_error {
    boundary!(handle::free::<AdoptionBody>(adoption))
}
