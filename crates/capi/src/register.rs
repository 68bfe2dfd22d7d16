//! Registering code: what is told of it, and the module that is made of it.

use std::collections::HashMap;
use std::ffi::c_void;

use parking_lot::Mutex;
use patchpoint::addr::{DwarfReg, FnOffset, RecordId};
use patchpoint::arch::{CallShape, Convention, RegSet, SiteKind};
use patchpoint::error::{ErrorKind, ProviderError};
use patchpoint::site::{Candidate, EntrySpec, Saves, SiteSpec, UnwindBy};

use crate::engine::{EngineBody, pp_engine};
use crate::error::{Failure, Misuse, Result, pp_error};
use crate::frame::reg;
use crate::guard::{boundary, callback};
use crate::handle::{self, HandleOut, handle};
use crate::load::{CodeBody, TAKEN, pp_code};
use crate::module::{ModuleBody, pp_module};
use crate::types::{Growing, pp_bytes, pp_str, read, slice};

/// A registration: what is said of code before a module is made of it.
pub struct pp_registration {
    _opaque: [u8; 0],
}

/// How a record's site is called, which the stack map does not say. `size` comes first, see the head
/// of this file.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pp_shape {
    /// The size of this structure.
    pub size: usize,
    /// PP_SITE_PATCHPOINT or PP_SITE_SHADOW.
    pub kind: u32,
    /// How many bytes are reserved.
    pub reserved: u32,
    /// One of pp_convention.
    pub convention: u32,
    /// How many arguments are passed.
    pub args: u32,
    /// Whether there is a result: 0 or 1.
    pub has_result: u32,
}

// SAFETY: numbers.
unsafe impl Growing for pp_shape {}

impl pp_shape {
    fn get(&self) -> Result<CallShape> {
        let shape = match (self.kind, self.convention) {
            (kind, _) if kind == crate::site::kind_number(SiteKind::Shadow) => {
                CallShape::shadow(self.reserved)
            }
            (kind, 0) if kind == crate::site::kind_number(SiteKind::Patchpoint) => {
                CallShape::any_reg(self.reserved)
            }
            (kind, 1) if kind == crate::site::kind_number(SiteKind::Patchpoint) => {
                CallShape::c(self.reserved)
            }
            (1, other) => return Err(Misuse::Number("pp_convention", other.into()).into()),
            (other, _) => return Err(Misuse::Number("kind of a pp_shape", other.into()).into()),
        };
        let shape = shape.args(self.args);
        Ok(match flag("has_result of a pp_shape", self.has_result)? {
            true => shape.result(),
            false => shape,
        })
    }
}

fn flag(what: &'static str, value: u32) -> Result<bool> {
    match value {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(Misuse::Number(what, other.into()).into()),
    }
}

/// A record of a stack map that may become a site. `size` comes first, see the head of this file.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pp_record {
    /// The size of this structure.
    pub size: usize,
    /// The ID of the record.
    pub id: u64,
    /// Where its site would begin.
    pub address: u64,
    /// The name of its function, lent during the call.
    pub function: pp_str,
    /// The bytes from there to the end of the function, lent during the call.
    pub bytes: pp_bytes,
    /// How many locations it has.
    pub locations: u32,
}

/// Tells the shape of a record: writes it and returns true, or returns false for one that is to be no
/// site. `shape->size` is set already. It is called only during pp_register(), on the same thread, and
/// calls no function of this interface.
pub type pp_shape_choice = Option<
    unsafe extern "C-unwind" fn(record: *const pp_record, shape: *mut pp_shape, data: *mut c_void) -> bool,
>;

/// Reserved bytes at the start of a function. `size` comes first, see the head of this file.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pp_entry_site {
    /// The size of this structure.
    pub size: usize,
    /// The name of the function.
    pub function: pp_str,
    /// The ID under which the site is patched.
    pub id: u64,
    /// How many bytes are reserved.
    pub reserved: u32,
    /// How far into the function they begin.
    pub offset: u32,
    /// How many arguments the function takes.
    pub args: u32,
    /// Whether it returns an integer or a pointer: 0 or 1.
    pub has_result: u32,
    /// 1 for a promise that whenever a thread comes to the offset all is as at the function's entry.
    pub is_promised: u32,
}

// SAFETY: numbers and pointers.
unsafe impl Growing for pp_entry_site {}

/// What is at a told site before it is patched.
#[repr(C)]
pub enum pp_content {
    /// Nops.
    PP_CONTENT_NOPS = 0,
    /// One call, and nops behind it.
    PP_CONTENT_CALL = 1,
    /// One jump that is always taken, and nops behind it.
    PP_CONTENT_JUMP = 2,
    /// The instructions in `instructions`, whole ones.
    PP_CONTENT_INSTRUCTIONS = 3,
}

/// A site of which the runtime itself tells. Registers are given by their DWARF numbers. `size` comes
/// first, see the head of this file; zeros say nothing, which leaves nothing free.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pp_told_site {
    /// The size of this structure.
    pub size: usize,
    /// The name of the function.
    pub function: pp_str,
    /// How far into the function the site begins.
    pub offset: u32,
    /// How many bytes are reserved; of instructions, their length counts.
    pub reserved: u32,
    /// One of pp_content.
    pub content: u32,
    /// One of pp_convention.
    pub convention: u32,
    /// The ID under which it is patched, if `has_id` is 1.
    pub id: u64,
    /// 0 or 1.
    pub has_id: u32,
    /// With PP_CONVENTION_C: how many arguments.
    pub arg_count: u32,
    /// The instructions that are there.
    pub instructions: pp_bytes,
    /// With PP_CONVENTION_ANY_REG: the register of each argument.
    pub args: *const u32,
    /// How many there are.
    pub args_len: usize,
    /// Registers of values that handlers and sequences can read.
    pub values: *const u32,
    /// How many there are.
    pub values_len: usize,
    /// Registers that are looked at behind the site.
    pub live: *const u32,
    /// How many there are.
    pub live_len: usize,
    /// Registers that may be changed.
    pub free_registers: *const u32,
    /// How many there are.
    pub free_len: usize,
    /// Offsets in the site to which return addresses may point.
    pub returns_to: *const u32,
    /// How many there are.
    pub returns_to_len: usize,
    /// Whether it has a result: 0 or 1.
    pub has_result: u32,
    /// With PP_CONVENTION_ANY_REG: the register of the result.
    pub result: u32,
    /// Whether the flags of arithmetic may be changed: 0 or 1.
    pub free_flags: u32,
    /// Whether the stack is as at a call of a C function: 0 or 1.
    pub free_stack: u32,
}

// SAFETY: numbers and pointers.
unsafe impl Growing for pp_told_site {}

/// By what the frames of a module's functions are found.
#[repr(C)]
pub enum pp_unwind_by {
    /// By the unwind information that came with the code.
    PP_UNWIND_BY_EH_FRAME = 0,
    /// By frame pointers; functions save no other registers, so that frames can be left.
    PP_UNWIND_BY_FRAME_POINTERS = 1,
    /// By frame pointers; it is not known what else functions save, so that frames can be walked only.
    PP_UNWIND_BY_FRAME_POINTERS_ONLY = 2,
    /// By the sizes in the stack map: frames can be walked only.
    PP_UNWIND_BY_STACK_SIZES = 3,
    /// By what a flat stack map tells of each function.
    PP_UNWIND_BY_FRAME_RECORDS = 4,
}

/// Who is asked for the shapes of records that have none by their IDs.
struct Choice {
    choose: unsafe extern "C-unwind" fn(*const pp_record, *mut pp_shape, *mut c_void) -> bool,
    data: *mut c_void,
}

/// What has been said of code.
pub(crate) struct Said {
    engine: EngineBody,
    code: Option<patchpoint::engine::LoadedCode>,
    shapes: HashMap<RecordId, CallShape>,
    entries: Vec<EntrySpec>,
    told: Vec<SiteSpec>,
    live: bool,
    leavable: bool,
    trust_live_outs: bool,
    unwind_by: UnwindBy,
}

pub(crate) type RegistrationBody = Mutex<Said>;
handle!(pp_registration, RegistrationBody, 0x7070_000b);

/// # Safety
/// As for `handle::get`.
unsafe fn say(
    registration: *mut pp_registration,
    change: impl FnOnce(&mut Said) -> Result<()>,
) -> Result<()> {
    // SAFETY: the same.
    let body = unsafe { handle::get::<RegistrationBody>(registration) }?;
    let mut said = body.lock();
    change(&mut said)
}

/// Starts to register code, which is taken from its handle. To be freed by pp_registration_free(),
/// also after pp_register().
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_registration_new(
    engine: *const pp_engine,
    code: *mut pp_code,
    registration: *mut *mut pp_registration,
) -> *mut pp_error {
    boundary!({
        let to = HandleOut::<RegistrationBody>::new(registration)?;
        let engine = handle::get::<EngineBody>(engine)?.clone();
        let code = handle::get::<CodeBody>(code)?.lock().take().ok_or(TAKEN)?;
        to.set(Mutex::new(Said {
            engine,
            code: Some(code),
            shapes: HashMap::new(),
            entries: Vec::new(),
            told: Vec::new(),
            live: false,
            leavable: false,
            trust_live_outs: false,
            unwind_by: UnwindBy::EhFrame,
        }));
        Ok(())
    })
}

/// Every record with that ID becomes a site of this shape.
///
/// # Safety
/// Promises that its sites are called so. Threads: any. Handlers: yes. Stopped world: no. Signal
/// handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_registration_shape(
    registration: *mut pp_registration,
    id: u64,
    shape: *const pp_shape,
) -> *mut pp_error {
    boundary!({
        let shape = read(shape)?.get()?;
        say(registration, |said| {
            said.shapes.insert(RecordId::new(id), shape);
            Ok(())
        })
    })
}

/// Adds reserved bytes at the start of a function.
///
/// # Safety
/// Promises that what is told is true. Threads: any. Handlers: yes. Stopped world: no. Signal
/// handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_registration_entry(
    registration: *mut pp_registration,
    entry: *const pp_entry_site,
) -> *mut pp_error {
    boundary!({
        let given = read(entry)?;
        let mut entry = EntrySpec::new(given.function.get()?, given.id, given.reserved).args(given.args);
        if flag("has_result of a pp_entry_site", given.has_result)? {
            entry = entry.result();
        }
        let offset = FnOffset::new(given.offset);
        entry = match flag("is_promised of a pp_entry_site", given.is_promised)? {
            // SAFETY: the caller promises the same.
            true => unsafe { entry.promised_at(offset) },
            false => entry.at(offset),
        };
        say(registration, |said| {
            said.entries.push(entry);
            Ok(())
        })
    })
}

/// # Safety
/// So many registers are there.
unsafe fn registers(from: *const u32, count: usize) -> Result<Vec<DwarfReg>> {
    // SAFETY: the same.
    unsafe { slice(from, count) }?
        .iter()
        .map(|number| reg(*number))
        .collect()
}

/// # Safety
/// What is told is there.
unsafe fn told(given: &pp_told_site) -> Result<SiteSpec> {
    // SAFETY: the same, for all of them.
    let (function, instructions, args, values, live, free, returns_to) = unsafe {
        (
            given.function.get()?,
            given.instructions.get()?,
            registers(given.args, given.args_len)?,
            registers(given.values, given.values_len)?,
            registers(given.live, given.live_len)?,
            registers(given.free_registers, given.free_len)?,
            slice(given.returns_to, given.returns_to_len)?,
        )
    };
    let mut site = match given.content {
        0 => SiteSpec::nops(function, given.offset, given.reserved),
        1 => SiteSpec::call(function, given.offset, given.reserved),
        2 => SiteSpec::jump(function, given.offset, given.reserved),
        3 => SiteSpec::instructions(function, given.offset, instructions),
        other => return Err(Misuse::Number("pp_content", other.into()).into()),
    };
    if flag("has_id of a pp_told_site", given.has_id)? {
        site = site.id(given.id);
    }
    let has_result = flag("has_result of a pp_told_site", given.has_result)?;
    site = match given.convention {
        0 => {
            let site = args.into_iter().fold(site, SiteSpec::arg);
            match has_result {
                true => site.result(reg(given.result)?),
                false => site,
            }
        }
        1 => {
            let site = site.convention(Convention::C).args(given.arg_count);
            match has_result {
                true => site.returns(),
                false => site,
            }
        }
        other => return Err(Misuse::Number("pp_convention", other.into()).into()),
    };
    site = values.into_iter().fold(site, SiteSpec::value);
    site = site.live(RegSet::of(&live)).free(RegSet::of(&free));
    site = returns_to.iter().copied().fold(site, SiteSpec::returns_to);
    if flag("free_flags of a pp_told_site", given.free_flags)? {
        site = site.free_flags();
    }
    if flag("free_stack of a pp_told_site", given.free_stack)? {
        site = site.free_stack();
    }
    Ok(site)
}

/// Adds a site of which the runtime itself tells.
///
/// # Safety
/// Promises that what is told is true. Threads: any. Handlers: yes. Stopped world: no. Signal
/// handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_registration_site(
    registration: *mut pp_registration,
    site: *const pp_told_site,
) -> *mut pp_error {
    boundary!({
        // SAFETY: what the structure points to is there, as the head of the header says.
        let site = unsafe { told(&read(site)?) }?;
        say(registration, |said| {
            said.told.push(site);
            Ok(())
        })
    })
}

/// Makes patchpoints, entry sites and told sites live: they are changed while threads execute them.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_registration_live(registration: *mut pp_registration) -> *mut pp_error {
    boundary!(say(registration, |said| {
        said.live = true;
        Ok(())
    }))
}

/// Handlers will leave or replace frames of this module's functions: registering is refused if that
/// cannot be done at every site.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_registration_leavable(registration: *mut pp_registration) -> *mut pp_error {
    boundary!(say(registration, |said| {
        said.leavable = true;
        Ok(())
    }))
}

/// The LLVM that compiled the code lists all live-outs: callee-saved registers that are not listed
/// are free.
///
/// # Safety
/// Promises what is said above. Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_registration_trust_live_outs(
    registration: *mut pp_registration,
) -> *mut pp_error {
    boundary!(say(registration, |said| {
        said.trust_live_outs = true;
        Ok(())
    }))
}

/// By what the frames of the functions are found: one of pp_unwind_by.
///
/// # Safety
/// Promises that every function of the module keeps its frame so. Threads: any. Handlers: yes. Stopped
/// world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_registration_unwind_by(
    registration: *mut pp_registration,
    how: u32,
) -> *mut pp_error {
    boundary!({
        let how = match how {
            0 => UnwindBy::EhFrame,
            1 => UnwindBy::FramePointers(Saves::Nothing),
            2 => UnwindBy::FramePointers(Saves::Unknown),
            3 => UnwindBy::StackSizes,
            4 => UnwindBy::FrameRecords,
            other => return Err(Misuse::Number("pp_unwind_by", other.into()).into()),
        };
        say(registration, |said| {
            said.unwind_by = how;
            Ok(())
        })
    })
}

impl Choice {
    /// The shape that the callback tells.
    fn ask(&self, candidate: &Candidate<'_>) -> Result<Option<CallShape>> {
        let record = pp_record {
            size: size_of::<pp_record>(),
            id: candidate.id().get(),
            address: candidate.addr().get(),
            function: pp_str::of(candidate.function()),
            bytes: pp_bytes::of(candidate.bytes()),
            locations: candidate.record().locations().len() as u32,
        };
        let mut shape = pp_shape {
            size: size_of::<pp_shape>(),
            kind: 1,
            reserved: 0,
            convention: 0,
            args: 0,
            has_result: 0,
        };
        let chosen = callback("a choice of shapes", || {
            // SAFETY: the caller of pp_register() promises that it can be called so.
            unsafe { (self.choose)(&record, &mut shape, self.data) }
        });
        chosen.then(|| shape.get()).transpose()
    }
}

/// Makes a module of the code: every record whose ID was given a shape becomes a site, those for
/// which `choice` tells one, and the sites that were added. `choice` may be NULL. Where this fails
/// nothing is registered, and the registration has lost its code.
///
/// # Safety
/// Promises that all that is told of the code is true until the last handle of the module is freed;
/// that no thread executes the code before pp_module_release(), unless it was adopted as code that may
/// have run; and that what sequences load, store and leave as results, and what handlers answer for
/// results and values, is right for the code. Threads: any. Handlers: yes. Stopped world: no. Signal
/// handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_register(
    registration: *mut pp_registration,
    choice: pp_shape_choice,
    data: *mut c_void,
    module: *mut *mut pp_module,
) -> *mut pp_error {
    boundary!({
        let to = HandleOut::<ModuleBody>::new(module)?;
        let body = handle::get::<RegistrationBody>(registration)?;
        let mut said = body.lock();
        let code = said.code.take().ok_or(TAKEN)?;
        let engine = said.engine.engine.clone();
        let mut registration = engine.registration(code).sites(said.told.drain(..));
        for entry in said.entries.drain(..) {
            registration = registration.entry(entry);
        }
        registration = registration.unwind_by(said.unwind_by);
        if said.live {
            registration = registration.live();
        }
        if said.leavable {
            registration = registration.leavable();
        }
        if said.trust_live_outs {
            registration = registration.trust_live_outs();
        }
        let shapes = std::mem::take(&mut said.shapes);
        drop(said);
        let choice = choice.map(|choose| Choice { choose, data });
        // SAFETY: the caller promises the same.
        let made = unsafe {
            registration.register(|candidate| {
                if let Some(shape) = shapes.get(&candidate.id()) {
                    return Ok(Some(*shape));
                }
                let asked = choice.as_ref().map(|choice| choice.ask(candidate));
                asked.transpose().map(Option::flatten).map_err(wrong_shape)
            })
        }?;
        to.set(made);
        Ok(())
    })
}

/// A callback has told a shape that is none.
fn wrong_shape(failure: Failure) -> patchpoint::site::Error {
    let text = match failure {
        Failure::Misuse(misuse) => misuse.message(),
        _ => "the choice of shapes has failed".into(),
    };
    let error = std::io::Error::other(text);
    ProviderError::of_kind(ErrorKind::Provider, error).into()
}

/// Frees a registration, and the code that it has not made a module of.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_registration_free(registration: *mut pp_registration) -> *mut pp_error {
    boundary!(handle::free::<RegistrationBody>(registration))
}
