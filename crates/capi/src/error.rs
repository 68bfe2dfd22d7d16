//! Errors: the handle that every function returns where it refuses.

use std::any::Any;

use patchpoint::error::{ErrorKind, SiteName};

use crate::handle::{self, Held, handle};
use crate::types::{Growing, GrowingOut, pp_str};

/// Why a call was refused or has failed. Null is success.
pub struct pp_error {
    _opaque: [u8; 0],
}

/// The few kinds that errors have, for callers that treat kinds alike.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum pp_kind {
    /// No error: what pp_error_kind() says of NULL.
    PP_KIND_NONE = 0,
    /// A call of this interface is wrong in itself: a null pointer, a handle that was freed or is of
    /// another kind, a wrong size, a number that means nothing.
    PP_KIND_MISUSE = 1,
    /// The bytes, tables or records that were given contradict themselves or each other.
    PP_KIND_MALFORMED = 2,
    /// It is well-formed, and cannot be done: on this machine, in that memory, under this world.
    PP_KIND_UNSUPPORTED = 3,
    /// There is nothing with that name, number or address.
    PP_KIND_NOT_FOUND = 4,
    /// What was asked for does not go together, or breaks a rule.
    PP_KIND_REFUSED = 5,
    /// It does not go now; later, or with more patience, it may.
    PP_KIND_BUSY = 6,
    /// Something has changed meanwhile: look again, and ask again.
    PP_KIND_CHANGED = 7,
    /// What it is about exists no more, or not in this process.
    PP_KIND_GONE = 8,
    /// The operating system refuses, or has no more.
    PP_KIND_SYSTEM = 9,
    /// Code is left that must not be executed.
    PP_KIND_BROKEN = 10,
    /// A mistake of the library.
    PP_KIND_INTERNAL = 11,
    /// A callback of the caller's has failed.
    PP_KIND_CALLBACK = 12,
}

/// The name of a site in an error. `size` comes first, see the head of this file.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pp_error_place {
    /// The size of this structure, written by the caller.
    pub size: usize,
    /// Of what kind the site is: one of pp_site_kind.
    pub kind: u32,
    /// How far it is from the start of its function.
    pub offset: u32,
    /// The ID of its record.
    pub id: u64,
    /// Its address.
    pub address: u64,
    /// The name of its function, or nothing; it is lent as long as the error.
    pub function: pp_str,
}

// SAFETY: numbers and a pointer.
unsafe impl Growing for pp_error_place {}

/// What an error says.
pub(crate) struct ErrorBody {
    kind: pp_kind,
    message: Box<str>,
    site: Option<Box<SiteName>>,
}

handle!(pp_error, ErrorBody, 0x7070_0001);

/// A call that is wrong in itself.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Misuse {
    /// This was null.
    Null(&'static str),
    /// That is no handle of this kind, or has been freed.
    Handle(&'static str),
    /// A handle that belongs to a thread, and is used on another.
    Thread(&'static str),
    /// A handle that is used while it is in use already, further up the stack or by another thread.
    InUse(&'static str),
    /// The structure says that it has so many bytes.
    Size { found: usize, needed: usize },
    /// A structure of a later version has something that this one does not know, at this byte.
    Unknown(usize),
    /// No string.
    Utf8(usize),
    /// Longer than memory.
    Length(usize),
    /// A number that means nothing as this.
    Number(&'static str, u64),
    /// Something that does not go.
    Order(&'static str),
}

impl Misuse {
    pub(crate) fn message(self) -> String {
        match self {
            Self::Null(what) => format!("{what} is null"),
            Self::Handle(what) => format!(
                "that is no {what}, or it has been freed: a handle is good from the call that made it until it is freed"
            ),
            Self::Thread(what) => format!(
                "that {what} belongs to another thread: only the thread that was given it may use and free it"
            ),
            Self::InUse(what) => {
                format!("that {what} is in use by a call that has not returned: wait until it has")
            }
            Self::Size { found, needed } => format!(
                "a structure says that it has {found} bytes, and has at least {needed}: set its `size` to its sizeof"
            ),
            Self::Unknown(at) => format!(
                "a structure of a later version sets byte {at}, which this version of the library does not know: use a \
                 newer one"
            ),
            Self::Utf8(at) => format!("a string is not UTF-8 from byte {at} on"),
            Self::Length(len) => format!("a length of {len} is more than memory has"),
            Self::Number(what, found) => format!("{found} is no {what}: take one of its names"),
            Self::Order(what) => what.into(),
        }
    }
}

/// Why a call fails.
#[derive(Debug)]
pub(crate) enum Failure {
    Misuse(Misuse),
    Engine(Box<patchpoint::Error>),
    Frame(Box<patchpoint::deopt::Error>),
    System(std::io::Error),
    Panic(String),
}

pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl From<Misuse> for Failure {
    fn from(misuse: Misuse) -> Self {
        Self::Misuse(misuse)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::System(error)
    }
}

impl From<patchpoint::deopt::Error> for Failure {
    fn from(error: patchpoint::deopt::Error) -> Self {
        Self::Frame(Box::new(error))
    }
}

/// Errors that become one of the engine's.
macro_rules! by_engine {
    ($($error:ty),*) => {$(
        impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::Engine(Box::new(error.into()))
            }
        }
    )*};
}

by_engine!(
    patchpoint::Error,
    patchpoint::memory::Error,
    patchpoint::publish::Error,
    patchpoint::site::Error,
    patchpoint::image::AdoptionError,
    patchpoint::image::Error,
    patchpoint::sequence::Error
);

impl Failure {
    /// What a panic says of itself.
    pub(crate) fn of_panic(panic: &(dyn Any + Send)) -> Self {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        Self::Panic(text.unwrap_or("the panic has no text").into())
    }

    /// The error that the caller is given.
    pub(crate) fn into_handle(self) -> *mut pp_error {
        let (kind, message, site) = match self {
            Self::Misuse(misuse) => (pp_kind::PP_KIND_MISUSE, misuse.message(), None),
            Self::Engine(error) => (kind(error.kind()), error.to_string(), error.site().cloned()),
            Self::Frame(error) => (kind(error.kind()), error.to_string(), None),
            Self::System(error) => (pp_kind::PP_KIND_SYSTEM, error.to_string(), None),
            Self::Panic(text) => (
                pp_kind::PP_KIND_INTERNAL,
                format!("the library panicked: {text}"),
                None,
            ),
        };
        handle::new(ErrorBody {
            kind,
            message: message.into(),
            site: site.map(Box::new),
        })
    }
}

const fn kind(kind: ErrorKind) -> pp_kind {
    match kind {
        ErrorKind::Malformed => pp_kind::PP_KIND_MALFORMED,
        ErrorKind::Unsupported => pp_kind::PP_KIND_UNSUPPORTED,
        ErrorKind::NotFound => pp_kind::PP_KIND_NOT_FOUND,
        ErrorKind::Refused => pp_kind::PP_KIND_REFUSED,
        ErrorKind::Busy => pp_kind::PP_KIND_BUSY,
        ErrorKind::Changed => pp_kind::PP_KIND_CHANGED,
        ErrorKind::Gone => pp_kind::PP_KIND_GONE,
        ErrorKind::System => pp_kind::PP_KIND_SYSTEM,
        ErrorKind::Broken => pp_kind::PP_KIND_BROKEN,
        ErrorKind::Provider => pp_kind::PP_KIND_CALLBACK,
        // Also kinds that are added later: the message says what it is.
        _ => pp_kind::PP_KIND_INTERNAL,
    }
}

/// # Safety
/// As for `handle::get`.
unsafe fn body(error: *const pp_error) -> Option<Held<ErrorBody>> {
    // SAFETY: the same.
    unsafe { handle::get::<ErrorBody>(error) }.ok()
}

/// Of which kind an error is: one of pp_kind. NULL is PP_KIND_NONE; what is no error, or was freed,
/// is PP_KIND_MISUSE.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: yes. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_error_kind(error: *const pp_error) -> u32 {
    if error.is_null() {
        return pp_kind::PP_KIND_NONE as u32;
    }
    // SAFETY: the caller's pointer is one of this interface's.
    let body = unsafe { body(error) };
    body.map_or(pp_kind::PP_KIND_MISUSE, |body| body.kind) as u32
}

/// What an error says, in one sentence with the place, what was needed, what was there and how to
/// mend it. The string is lent as long as the error is not freed. It is empty for NULL.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: yes. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_error_message(error: *const pp_error) -> pp_str {
    // SAFETY: the caller's pointer is one of this interface's.
    let body = unsafe { body(error) };
    body.map_or(pp_str::EMPTY, |body| pp_str::of(&body.message))
}

/// Writes the site that an error is about. False, and nothing is written, where it is about none,
/// or `place` is null or has no size.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: yes. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_error_site(error: *const pp_error, place: *mut pp_error_place) -> bool {
    // SAFETY: the caller's pointers are as the head of the header says.
    let (body, place) = unsafe { (body(error), GrowingOut::new(place)) };
    let (Some(body), Ok(place)) = (body, place) else {
        return false;
    };
    let Some(site) = &body.site else {
        return false;
    };
    place.set(pp_error_place {
        size: 0,
        kind: site.kind.map_or(0, crate::site::kind_number),
        offset: site.offset.get(),
        id: site.id.get(),
        address: site.addr.get(),
        function: site.function.as_deref().map_or(pp_str::EMPTY, pp_str::of),
    });
    true
}

/// Frees an error. NULL, and what has been freed, is nothing to be freed.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_error_free(error: *mut pp_error) {
    // SAFETY: the caller's pointer is one of this interface's. There is nobody to tell of a second time.
    let _ = unsafe { handle::free::<ErrorBody>(error) };
}
