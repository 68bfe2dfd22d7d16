//! Loading code: object files, linked into memory of the engine's.

use std::ffi::c_void;

use patchpoint::addr::{CodeAddr, RecordId};
use patchpoint::engine::LoadedCode;
use patchpoint::image::{Graph, Object};

use parking_lot::Mutex;

use crate::engine::{EngineBody, pp_engine};
use crate::error::{Misuse, Result, pp_error};
use crate::guard::{boundary, callback};
use crate::handle::{self, HandleOut, handle};
use crate::types::{Growing, out, pp_bytes, pp_str, read, slice};

/// Code in memory with its stack maps, which no module has been made of yet.
pub struct pp_code {
    _opaque: [u8; 0],
}

/// It is taken out when a registration begins with it.
pub(crate) type CodeBody = Mutex<Option<LoadedCode>>;
handle!(pp_code, CodeBody, 0x7070_0009);

pub(crate) const TAKEN: Misuse =
    Misuse::Order("the code has been given to a registration: load or adopt it once more for another");

/// Finds the address of an undefined symbol: writes it and returns true, or returns false. It is
/// called only during the call that it is given to, on the same thread, and calls no function of this
/// interface.
pub type pp_symbol_lookup =
    Option<unsafe extern "C-unwind" fn(name: pp_str, address: *mut u64, data: *mut c_void) -> bool>;

/// Says under which ID the calls of a function become sites: writes it and returns true, or returns
/// false for functions whose calls stay as they are. As pp_symbol_lookup otherwise.
pub type pp_call_choice =
    Option<unsafe extern "C-unwind" fn(function: pp_str, id: *mut u64, data: *mut c_void) -> bool>;

/// An object file.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pp_object {
    /// What it is called in errors.
    pub name: pp_str,
    /// Its bytes, which are needed during the call only.
    pub bytes: pp_bytes,
}

/// What is to be loaded. `size` comes first, see the head of this file.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pp_load_options {
    /// The size of this structure.
    pub size: usize,
    /// Objects, which may refer to each other.
    pub objects: *const pp_object,
    /// How many there are.
    pub object_count: usize,
    /// Finds what none of them defines; NULL where there is no such thing.
    pub lookup: pp_symbol_lookup,
    /// What that is called with.
    pub lookup_data: *mut c_void,
    /// Which calls become sites, for pp_engine_retarget(); NULL for none.
    pub calls: pp_call_choice,
    /// What that is called with.
    pub calls_data: *mut c_void,
}

// SAFETY: numbers, pointers and optional functions, of which zeros are values; other functions are the caller's.
unsafe impl Growing for pp_load_options {}

type Question = unsafe extern "C-unwind" fn(pp_str, *mut u64, *mut c_void) -> bool;

/// Asks a callback for a number by a name.
///
/// # Safety
/// The callback can be called so.
unsafe fn ask(what: &'static str, question: Option<Question>, name: &str, data: *mut c_void) -> Option<u64> {
    let question = question?;
    let mut answer = 0;
    // SAFETY: the caller says so.
    let found = callback(what, || unsafe { question(pp_str::of(name), &mut answer, data) });
    found.then_some(answer)
}

/// Loads one object file into memory of the engine's. Undefined symbols are looked up by `lookup`,
/// which may be NULL. The code is a handle to be freed by pp_code_free(), also when a registration has
/// taken what it refers to. Nothing of it is executed.
///
/// # Safety
/// Promises that `lookup` can be called with `data`, and that what it finds can be used as the object
/// does. Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_load(
    engine: *const pp_engine,
    object: pp_bytes,
    lookup: pp_symbol_lookup,
    data: *mut c_void,
    code: *mut *mut pp_code,
) -> *mut pp_error {
    boundary!({
        let to = HandleOut::<CodeBody>::new(code)?;
        let engine = handle::get::<EngineBody>(engine)?;
        let loaded = engine.engine.load(object.get()?, |name| {
            // SAFETY: the caller promises that it can be called so.
            unsafe { ask("a lookup of symbols", lookup, name, data) }.map(CodeAddr::new)
        })?;
        to.set(Mutex::new(Some(loaded)));
        Ok(())
    })
}

/// Loads several objects that may refer to each other, and records calls if that is asked for.
///
/// # Safety
/// As for pp_load(). Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_load_objects(
    engine: *const pp_engine,
    options: *const pp_load_options,
    code: *mut *mut pp_code,
) -> *mut pp_error {
    boundary!({
        let to = HandleOut::<CodeBody>::new(code)?;
        let engine = handle::get::<EngineBody>(engine)?;
        let options = read(options)?;
        let graph = graph(slice(options.objects, options.object_count)?)?;
        let resolve = |name: &str| {
            // SAFETY: the caller promises that it can be called so.
            unsafe { ask("a lookup of symbols", options.lookup, name, options.lookup_data) }
                .map(CodeAddr::new)
        };
        let loaded = match options.calls {
            None => engine.engine.load_graph(graph, resolve)?,
            some => engine.engine.load_recording(graph, resolve, |name| {
                // SAFETY: the same.
                unsafe { ask("a choice of calls", some, name, options.calls_data) }.map(RecordId::new)
            })?,
        };
        to.set(Mutex::new(Some(loaded)));
        Ok(())
    })
}

/// # Safety
/// What the objects say is there.
unsafe fn graph(objects: &[pp_object]) -> Result<Graph<'_>> {
    let mut graph: Option<Graph<'_>> = None;
    for object in objects {
        // SAFETY: the same.
        let (name, bytes) = unsafe { (object.name.get()?, object.bytes.get()?) };
        let parsed = Object::parse(bytes)?;
        graph = Some(match graph {
            None => Graph::new(name, parsed),
            Some(mut graph) => {
                graph.add(name, parsed)?;
                graph
            }
        });
    }
    graph.ok_or_else(|| Misuse::Order("there is no object to be loaded").into())
}

/// Uses code that no registration has taken.
///
/// # Safety
/// As for `handle::get`.
unsafe fn with<T>(code: *const pp_code, work: impl FnOnce(&mut LoadedCode) -> Result<T>) -> Result<T> {
    // SAFETY: the same.
    let code = unsafe { handle::get::<CodeBody>(code) }?;
    let mut code = code.lock();
    work(code.as_mut().ok_or(TAKEN)?)
}

/// The address of a symbol that the objects define and do not hide; 0 if there is none. It may be
/// called when the module that is made of the code is released.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_code_symbol(
    code: *const pp_code,
    name: pp_str,
    address: *mut u64,
) -> *mut pp_error {
    boundary!({
        let to = out(address, 0)?;
        let name = name.get()?;
        with(code, |code| {
            *to = code.symbol(name).map_or(0, CodeAddr::get);
            Ok(())
        })
    })
}

/// Writes the addresses of the functions that the objects want called before their others, in this
/// order, as far as there is room, and how many there are. The engine never calls them: call them when
/// the module is released.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_code_constructors(
    code: *const pp_code,
    addresses: *mut u64,
    room: usize,
    count: *mut usize,
) -> *mut pp_error {
    boundary!({
        let to = out(count, 0)?;
        with(code, |code| {
            // SAFETY: the caller says that there is so much room.
            unsafe { list(code.constructors(), addresses, room, to) }
        })
    })
}

/// The same for the functions that the objects want called after all others, in this order: before
/// the module is unregistered.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_code_destructors(
    code: *const pp_code,
    addresses: *mut u64,
    room: usize,
    count: *mut usize,
) -> *mut pp_error {
    boundary!({
        let to = out(count, 0)?;
        with(code, |code| {
            // SAFETY: the caller says that there is so much room.
            unsafe { list(code.destructors(), addresses, room, to) }
        })
    })
}

/// # Safety
/// There is room for so many addresses.
unsafe fn list(found: &[CodeAddr], addresses: *mut u64, room: usize, count: &mut usize) -> Result<()> {
    if addresses.is_null() && room > 0 {
        return Err(Misuse::Null("the room for addresses").into());
    }
    *count = found.len();
    for (index, addr) in found.iter().take(room).enumerate() {
        // SAFETY: within the room.
        unsafe { addresses.add(index).write_unaligned(addr.get()) };
    }
    Ok(())
}

/// Takes these stack maps for the code in place of its own, in its byte order. They are read when the
/// code is registered.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_code_set_stack_maps(code: *mut pp_code, section: pp_bytes) -> *mut pp_error {
    boundary!({
        let section = section.get()?.to_vec();
        let code = handle::get::<CodeBody>(code)?;
        let mut code = code.lock();
        let taken = code.take().ok_or(TAKEN)?;
        *code = Some(taken.with_stack_maps(section));
        Ok(())
    })
}

/// Frees code, and with it what no registration has taken.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_code_free(code: *mut pp_code) -> *mut pp_error {
    boundary!(handle::free::<CodeBody>(code))
}
