//! Frames in handlers: what is read and written, and the answers.
//!
//! Problem: a handler in C gets a pointer, may keep it beyond its call, and may pass it to another
//! thread. Approach: the handle is good as long as the handler runs, and on its thread only; what it
//! refers to is taken out of it when the handler returns.

use std::cell::RefCell;
use std::ffi::c_void;
use std::thread::{self, ThreadId};

use patchpoint::addr::DwarfReg;
use patchpoint::deopt::{Answer, Frame, Replacement, Value};
use patchpoint::engine::Role;
use patchpoint::ic::Entry;
use patchpoint::publish::SignalWorld;
use patchpoint::stackmap::{Location, LocationKind};

use crate::engine::{EngineBody, pp_engine};
use crate::error::{Misuse, Result, pp_error};
use crate::guard::{Data, boundary, callback, pp_finalizer};
use crate::handle::{self, HandleOut, handle};
use crate::site::{Attached, SiteBody, pp_site};
use crate::types::{Growing, GrowingOut, out};

/// A compiled function's frame at a site, in a handler: good until the handler returns, on its thread.
pub struct pp_frame {
    _opaque: [u8; 0],
}

/// Called by compiled code that leaves at a site. It answers by one of pp_frame_resume(),
/// pp_frame_continue_at(), pp_frame_return() and pp_frame_replace(); the last answer counts, and
/// without one the frame is resumed.
pub type pp_handler = Option<unsafe extern "C-unwind" fn(frame: *mut pp_frame, data: *mut c_void)>;

/// A value: its bytes, the least significant first.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pp_value {
    /// How many bytes it has, 64 at most.
    pub len: u32,
    /// They.
    pub bytes: [u8; 64],
}

impl pp_value {
    const EMPTY: Self = Self {
        len: 0,
        bytes: [0; 64],
    };

    pub(crate) fn of(value: &Value) -> Self {
        let mut result = Self::EMPTY;
        result.len = value.size().into();
        for (to, from) in result.bytes.iter_mut().zip(value.bytes()) {
            *to = *from;
        }
        result
    }

    pub(crate) fn get(&self) -> Result<Value> {
        let bytes = self.bytes.get(..self.len as usize);
        let value = bytes.and_then(Value::from_bytes);
        value.ok_or_else(|| Misuse::Number("length of a pp_value", self.len.into()).into())
    }
}

/// Why a handler is called.
#[repr(C)]
pub enum pp_role {
    /// A sequence has gone to `miss`.
    PP_ROLE_MISS = 0,
    /// The site is invalidated, or a sequence has gone to `deopt`.
    PP_ROLE_DEOPT = 1,
}

/// What is known of a frame. `size` comes first, see the head of this file.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pp_frame_info {
    /// The size of this structure, written by the caller.
    pub size: usize,
    /// Why the handler is called: one of pp_role.
    pub role: u32,
    /// How many arguments the site passes.
    pub args: u32,
    /// The ID of the site's record.
    pub id: u64,
    /// The address of the site's first byte, from which the frame came.
    pub pc: u64,
    /// The stack pointer at the site.
    pub stack_pointer: u64,
    /// The flags; 0 where only live registers were saved.
    pub flags: u64,
    /// How many locations the site's record has.
    pub locations: u64,
    /// How many of these are live values, behind the result and the arguments.
    pub live: u64,
}

// SAFETY: numbers.
unsafe impl Growing for pp_frame_info {}

/// Where a value of a record is.
#[repr(C)]
pub enum pp_location_kind {
    /// In the register `reg`, `offset` bits from its least significant one.
    PP_LOCATION_REGISTER = 1,
    /// The value is the address `reg` + `offset`.
    PP_LOCATION_DIRECT = 2,
    /// In memory at `reg` + `offset`.
    PP_LOCATION_INDIRECT = 3,
    /// The constant `offset`.
    PP_LOCATION_CONSTANT = 4,
    /// A large constant: read it by pp_frame_value().
    PP_LOCATION_CONSTANT_INDEX = 5,
}

/// A location of a record. `size` comes first, see the head of this file.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pp_location {
    /// The size of this structure, written by the caller.
    pub size: usize,
    /// One of pp_location_kind.
    pub kind: u32,
    /// How many bytes the value has.
    pub value_size: u32,
    /// The DWARF number of the register.
    pub reg: u32,
    /// See pp_location_kind.
    pub offset: i32,
}

// SAFETY: numbers.
unsafe impl Growing for pp_location {}

impl From<Location> for pp_location {
    fn from(location: Location) -> Self {
        use pp_location_kind as kind;
        let (kind, reg, offset) = match location.kind {
            LocationKind::Register { reg, bit_offset } => (kind::PP_LOCATION_REGISTER, reg.get(), bit_offset),
            LocationKind::Direct { reg, offset } => (kind::PP_LOCATION_DIRECT, reg.get(), offset),
            LocationKind::Indirect { reg, offset } => (kind::PP_LOCATION_INDIRECT, reg.get(), offset),
            LocationKind::Constant { value } => (kind::PP_LOCATION_CONSTANT, 0, value),
            LocationKind::ConstantIndex { index } => (kind::PP_LOCATION_CONSTANT_INDEX, 0, index as i32),
        };
        Self {
            size: 0,
            kind: kind as u32,
            value_size: location.size.into(),
            reg: reg.into(),
            offset,
        }
    }
}

/// A handler, with its data.
pub(crate) struct Handler {
    handler: unsafe extern "C-unwind" fn(*mut pp_frame, *mut c_void),
    data: Data,
}

impl Handler {
    pub(crate) fn new(handler: pp_handler, data: *mut c_void, finalizer: pp_finalizer) -> Result<Self> {
        let handler = handler.ok_or(Misuse::Null("the handler"))?;
        let data = Data::new(data, finalizer);
        Ok(Self { handler, data })
    }

    /// The same as the engine knows it.
    pub(crate) fn for_engine(
        self,
        signal: Option<SignalWorld>,
    ) -> impl for<'f> Fn(&mut Frame<'f>) -> Answer<'f> + Send + Sync + 'static {
        move |frame| self.ask(frame, signal.as_ref()).0
    }

    /// What the handler answers, and what it wants to be learnt.
    pub(crate) fn ask<'f>(
        &self,
        frame: &mut Frame<'f>,
        signal: Option<&SignalWorld>,
    ) -> (Answer<'f>, bool, Option<Entry>) {
        let resume = frame.resume();
        let cell = RefCell::new(Some(Open {
            frame: std::ptr::from_mut(frame).cast(),
            answer: None,
            replacement: None,
            learn: None,
            signal: signal.cloned(),
        }));
        let handle = handle::new(FrameBody {
            thread: thread::current().id(),
            open: cell,
        });
        callback("a handler", || {
            // SAFETY: the contract of the header: it can be called with this data, on this thread.
            unsafe { (self.handler)(handle, self.data.get()) }
        });
        // SAFETY: the handle was made here.
        let body = unsafe { handle::get::<FrameBody>(handle) };
        let open = body.ok().and_then(|body| body.open.take());
        // SAFETY: the same; nobody else frees a frame.
        let _ = unsafe { handle::free::<FrameBody>(handle) };
        let open = open.expect("a frame that is made here is closed here");
        match open.answer {
            None => (resume, false, open.learn),
            // SAFETY: it was made by this frame, whose lifetime this is.
            Some(answer) => (
                unsafe { std::mem::transmute::<Answer<'static>, Answer<'f>>(answer) },
                true,
                open.learn,
            ),
        }
    }
}

/// A frame as long as its handler runs.
pub(crate) struct Open {
    /// Its lifetime is that of the handler's call, in which it is used only.
    frame: *mut Frame<'static>,
    pub(crate) answer: Option<Answer<'static>>,
    pub(crate) replacement: Option<Replacement<'static>>,
    learn: Option<Entry>,
    signal: Option<SignalWorld>,
}

impl Open {
    pub(crate) fn frame(&mut self) -> &mut Frame<'static> {
        // SAFETY: the handler runs, and whoever has this has it alone.
        unsafe { &mut *self.frame }
    }
}

/// What a handle of a frame refers to.
pub(crate) struct FrameBody {
    thread: ThreadId,
    open: RefCell<Option<Open>>,
}

// SAFETY: `with` lets nobody but its thread look at what is open; another thread that drops it finds that closed.
unsafe impl Send for FrameBody {}
// SAFETY: the same.
unsafe impl Sync for FrameBody {}

handle!(pp_frame, FrameBody, 0x7070_0004);

/// Does something with a frame.
///
/// # Safety
/// As for `handle::get`.
pub(crate) unsafe fn with<T>(frame: *const pp_frame, work: impl FnOnce(&mut Open) -> Result<T>) -> Result<T> {
    // SAFETY: the same.
    let body = unsafe { handle::get::<FrameBody>(frame) }?;
    // protection: frames-stay-on-their-thread
    if body.thread != thread::current().id() {
        return Err(Misuse::Thread("pp_frame").into());
    }
    let mut open = body
        .open
        .try_borrow_mut()
        .map_err(|_| Misuse::InUse("pp_frame"))?;
    work(open.as_mut().ok_or(Misuse::Handle("pp_frame"))?)
}

/// Learns what the lookup of a cache says.
///
/// # Safety
/// As for `handle::get`.
pub(crate) unsafe fn learn(frame: *const pp_frame, entry: Entry) -> Result<()> {
    // SAFETY: the same.
    unsafe {
        with(frame, |open| {
            open.learn = Some(entry);
            Ok(())
        })
    }
}

pub(crate) fn reg(reg: u32) -> Result<DwarfReg> {
    let number = u16::try_from(reg).map_err(|_| Misuse::Number("DWARF register number", reg.into()))?;
    Ok(DwarfReg::new(number))
}

/// What is known of the frame.
///
/// # Safety
/// Threads: the handler's. Handlers: only there. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_frame_get_info(
    frame: *const pp_frame,
    info: *mut pp_frame_info,
) -> *mut pp_error {
    boundary!({
        let to = GrowingOut::new(info)?;
        with(frame, |open| {
            let frame = open.frame();
            let context = frame.context();
            let locations = context.record.map_or(0, |record| record.locations().len());
            to.set(pp_frame_info {
                size: 0,
                role: match frame.role() {
                    Role::Miss => pp_role::PP_ROLE_MISS as u32,
                    _ => pp_role::PP_ROLE_DEOPT as u32,
                },
                args: context.shape.arg_count(),
                id: context.id.get(),
                pc: frame.pc().get(),
                stack_pointer: frame.stack_pointer(),
                flags: frame.flags(),
                locations: locations as u64,
                live: frame.live_values().len() as u64,
            });
            Ok(())
        })
    })
}

/// The site, as a handle to be freed by pp_site_free().
///
/// # Safety
/// Threads: the handler's. Handlers: only there. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_frame_site(frame: *const pp_frame, site: *mut *mut pp_site) -> *mut pp_error {
    boundary!({
        let to = HandleOut::<SiteBody>::new(site)?;
        with(frame, |open| {
            to.set(open.frame().site().clone());
            Ok(())
        })
    })
}

/// The engine, as a handle to be freed by pp_engine_free().
///
/// # Safety
/// Threads: the handler's. Handlers: only there. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_frame_engine(
    frame: *const pp_frame,
    engine: *mut *mut pp_engine,
) -> *mut pp_error {
    boundary!({
        let to = HandleOut::<EngineBody>::new(engine)?;
        with(frame, |open| {
            let engine = open.frame().site().module().engine()?;
            let signal = open.signal.clone();
            to.set(EngineBody { engine, signal });
            Ok(())
        })
    })
}

/// What pp_site_describe() has attached to the site; NULL for nothing.
///
/// # Safety
/// Threads: the handler's. Handlers: only there. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_frame_description(
    frame: *const pp_frame,
    data: *mut *mut c_void,
) -> *mut pp_error {
    boundary!({
        let to = out(data, std::ptr::null_mut())?;
        with(frame, |open| {
            if let Some(attached) = open.frame().description::<Attached>() {
                *to = attached.get();
            }
            Ok(())
        })
    })
}

/// The whole of a register, by its DWARF number.
///
/// # Safety
/// Threads: the handler's. Handlers: only there. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_frame_register(
    frame: *const pp_frame,
    register: u32,
    value: *mut pp_value,
) -> *mut pp_error {
    boundary!({
        let to = out(value, pp_value::EMPTY)?;
        with(frame, |open| {
            *to = pp_value::of(&open.frame().register(reg(register)?)?);
            Ok(())
        })
    })
}

/// Writes the low bytes of a register; the others stay.
///
/// # Safety
/// Promises that the code which goes on can go on with the value there. Threads: the handler's.
/// Handlers: only there. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_frame_set_register(
    frame: *mut pp_frame,
    register: u32,
    value: *const pp_value,
) -> *mut pp_error {
    boundary!({
        let value = value.as_ref().ok_or(Misuse::Null("the value"))?.get()?;
        with(frame, |open| {
            let register = reg(register)?;
            // SAFETY: the caller promises the same.
            Ok(unsafe { open.frame().set_register(register, value) }?)
        })
    })
}

/// Sets the flags that code computes with; the others stay.
///
/// # Safety
/// As for pp_frame_set_register(). Threads: the handler's. Handlers: only there. Stopped world: no.
/// Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_frame_set_flags(frame: *mut pp_frame, flags: u64) -> *mut pp_error {
    boundary!(with(frame, |open| {
        // SAFETY: the caller promises the same.
        unsafe { open.frame().set_flags(flags) };
        Ok(())
    }))
}

/// Where the value at `index` of the site's record is.
///
/// # Safety
/// Threads: the handler's. Handlers: only there. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_frame_location(
    frame: *const pp_frame,
    index: usize,
    location: *mut pp_location,
) -> *mut pp_error {
    boundary!({
        let to = GrowingOut::new(location)?;
        with(frame, |open| {
            let record = open.frame().context().record;
            let found = record.and_then(|record| record.locations().get(index));
            to.set(
                found
                    .ok_or(Misuse::Number("index of a location", index as u64))?
                    .into(),
            );
            Ok(())
        })
    })
}

/// The value of the location at `index` of the site's record. At a patchpoint with anyregcc the
/// result, if it has one, and the arguments come first.
///
/// # Safety
/// Threads: the handler's. Handlers: only there. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_frame_value(
    frame: *const pp_frame,
    index: usize,
    value: *mut pp_value,
) -> *mut pp_error {
    boundary!({
        let to = out(value, pp_value::EMPTY)?;
        with(frame, |open| {
            *to = pp_value::of(&open.frame().value(index)?);
            Ok(())
        })
    })
}

/// Writes the value of the location at `index` of the site's record: a register or a spilled value.
///
/// # Safety
/// Threads: the handler's. Handlers: only there. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_frame_set_value(
    frame: *mut pp_frame,
    index: usize,
    value: *const pp_value,
) -> *mut pp_error {
    boundary!({
        let value = value.as_ref().ok_or(Misuse::Null("the value"))?.get()?;
        with(frame, |open| Ok(open.frame().set_value(index, value)?))
    })
}

/// The live value at `index`: of the record's locations, behind the result and the arguments.
///
/// # Safety
/// Threads: the handler's. Handlers: only there. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_frame_live_value(
    frame: *const pp_frame,
    index: usize,
    value: *mut pp_value,
) -> *mut pp_error {
    boundary!({
        let to = out(value, pp_value::EMPTY)?;
        with(frame, |open| {
            *to = pp_value::of(&open.frame().live_value(index)?);
            Ok(())
        })
    })
}

/// The live value at `index` as a number of 8 bytes or fewer, which are extended with zeros.
///
/// # Safety
/// Threads: the handler's. Handlers: only there. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_frame_live_u64(
    frame: *const pp_frame,
    index: usize,
    value: *mut u64,
) -> *mut pp_error {
    boundary!({
        let to = out(value, 0)?;
        with(frame, |open| {
            *to = open.frame().live_u64(index)?;
            Ok(())
        })
    })
}

/// The site's argument at `index`.
///
/// # Safety
/// Threads: the handler's. Handlers: only there. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_frame_arg(
    frame: *const pp_frame,
    index: usize,
    value: *mut pp_value,
) -> *mut pp_error {
    boundary!({
        let to = out(value, pp_value::EMPTY)?;
        with(frame, |open| {
            *to = pp_value::of(&open.frame().arg(index)?);
            Ok(())
        })
    })
}

/// The site's argument at `index` as a number of 8 bytes or fewer, which are extended with zeros.
///
/// # Safety
/// Threads: the handler's. Handlers: only there. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_frame_arg_u64(
    frame: *const pp_frame,
    index: usize,
    value: *mut u64,
) -> *mut pp_error {
    boundary!({
        let to = out(value, 0)?;
        with(frame, |open| {
            *to = open.frame().arg_u64(index)?;
            Ok(())
        })
    })
}

/// The floating-point argument at `index` among those of its kind, at a site with the C convention:
/// the whole register.
///
/// # Safety
/// Threads: the handler's. Handlers: only there. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_frame_float_arg(
    frame: *const pp_frame,
    index: usize,
    value: *mut pp_value,
) -> *mut pp_error {
    boundary!({
        let to = out(value, pp_value::EMPTY)?;
        with(frame, |open| {
            *to = pp_value::of(&open.frame().float_arg(index)?);
            Ok(())
        })
    })
}
