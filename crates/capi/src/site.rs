//! Sites, and lists of them.

use std::ffi::c_void;

use patchpoint::arch::{Convention, SiteKind};
use patchpoint::engine::Status;
use patchpoint::site::Site;

use crate::error::{Misuse, pp_error};
use crate::frame::pp_location;
use crate::guard::{Data, boundary, pp_finalizer};
use crate::handle::{self, HandleOut, handle};
use crate::module::{FunctionBody, ModuleBody, pp_function, pp_module};
use crate::types::{Growing, GrowingOut, out};

/// A site: reserved bytes in loaded code that can be patched. It keeps its module's memory.
pub struct pp_site {
    _opaque: [u8; 0],
}

/// Sites, in ascending address where they are of one module.
pub struct pp_sites {
    _opaque: [u8; 0],
}

pub(crate) type SiteBody = Site;
handle!(pp_site, SiteBody, 0x7070_0005);

/// Sites that were found.
pub(crate) struct SitesBody(pub(crate) Vec<Site>);
handle!(pp_sites, SitesBody, 0x7070_0006);

/// What is attached to a site.
pub(crate) type Attached = Data;

/// What reserves the bytes of a site.
#[repr(C)]
pub enum pp_site_kind {
    /// A patchpoint of LLVM's.
    PP_SITE_PATCHPOINT = 1,
    /// A stackmap with a shadow.
    PP_SITE_SHADOW = 2,
    /// The start of a function.
    PP_SITE_ENTRY = 3,
    /// An instruction that a PC section marks.
    PP_SITE_MARKED = 4,
    /// A recorded call.
    PP_SITE_CALL = 5,
    /// A site of which the runtime told.
    PP_SITE_TOLD = 6,
}

/// By which convention a site passes its arguments.
#[repr(C)]
pub enum pp_convention {
    /// In the registers and slots that its record says.
    PP_CONVENTION_ANY_REG = 0,
    /// By the platform's C convention.
    PP_CONVENTION_C = 1,
}

/// What a site holds.
#[repr(C)]
pub enum pp_status {
    /// What it held when it was registered.
    PP_STATUS_ORIGINAL = 0,
    /// A sequence.
    PP_STATUS_PATCHED = 1,
    /// A way to its exit stub, for good.
    PP_STATUS_INVALIDATED = 2,
    /// A jump away: nobody enters its function any more.
    PP_STATUS_REDIRECTED = 3,
    /// It is not known: a failed roll-back left it in doubt.
    PP_STATUS_LOST = 4,
}

pub(crate) const fn status_number(status: Status) -> u32 {
    (match status {
        Status::Original => pp_status::PP_STATUS_ORIGINAL,
        Status::Patched => pp_status::PP_STATUS_PATCHED,
        Status::Invalidated => pp_status::PP_STATUS_INVALIDATED,
        Status::Redirected => pp_status::PP_STATUS_REDIRECTED,
        // Also what is not known to this interface.
        _ => pp_status::PP_STATUS_LOST,
    }) as u32
}

pub(crate) const fn kind_number(kind: SiteKind) -> u32 {
    (match kind {
        SiteKind::Patchpoint => pp_site_kind::PP_SITE_PATCHPOINT,
        SiteKind::Shadow => pp_site_kind::PP_SITE_SHADOW,
        SiteKind::Entry => pp_site_kind::PP_SITE_ENTRY,
        SiteKind::Marked => pp_site_kind::PP_SITE_MARKED,
        SiteKind::Call => pp_site_kind::PP_SITE_CALL,
        SiteKind::Told => pp_site_kind::PP_SITE_TOLD,
    }) as u32
}

/// What is known of a site. `size` comes first, see the head of this file.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pp_site_info {
    /// The size of this structure, written by the caller.
    pub size: usize,
    /// The ID of its record, or the one that it was given. Not unique.
    pub id: u64,
    /// The address of its first byte.
    pub address: u64,
    /// How many bytes it has.
    pub reserved: u32,
    /// How far it is from the start of its function.
    pub offset: u32,
    /// One of pp_site_kind.
    pub kind: u32,
    /// One of pp_convention.
    pub convention: u32,
    /// How many arguments it passes.
    pub args: u32,
    /// Whether it has a result: 0 or 1.
    pub has_result: u32,
    /// How many locations its record has.
    pub locations: u32,
    /// What it holds now: one of pp_status.
    pub status: u32,
    /// How many bytes of stubs and exit stubs it has now.
    pub stub_bytes: u64,
    /// How many bytes of those have been freed.
    pub reclaimed_bytes: u64,
}

// SAFETY: numbers.
unsafe impl Growing for pp_site_info {}

/// What is known of a site.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_site_get_info(site: *const pp_site, info: *mut pp_site_info) -> *mut pp_error {
    boundary!({
        let to = GrowingOut::new(info)?;
        let site = handle::get::<SiteBody>(site)?;
        let (shape, engine) = (site.shape(), site.module().engine()?);
        to.set(pp_site_info {
            size: 0,
            id: site.id().get(),
            address: site.addr().get(),
            reserved: site.reserved().get(),
            offset: site.offset().get(),
            kind: kind_number(shape.kind()),
            convention: match shape.convention() {
                Convention::AnyReg => pp_convention::PP_CONVENTION_ANY_REG,
                Convention::C => pp_convention::PP_CONVENTION_C,
            } as u32,
            args: shape.arg_count(),
            has_result: shape.has_result().into(),
            locations: site
                .record()
                .map_or(0, |(record, _)| record.locations().len() as u32),
            status: status_number(engine.status(&site)),
            stub_bytes: engine.stub_bytes(&site),
            reclaimed_bytes: engine.reclaimed_bytes(&site),
        });
        Ok(())
    })
}

/// Where the value at `index` of the site's record is.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_site_location(
    site: *const pp_site,
    index: usize,
    location: *mut pp_location,
) -> *mut pp_error {
    boundary!({
        let to = GrowingOut::new(location)?;
        let site = handle::get::<SiteBody>(site)?;
        let found = site
            .record()
            .and_then(|(record, _)| record.locations().get(index));
        to.set(
            found
                .ok_or(Misuse::Number("index of a location", index as u64))?
                .into(),
        );
        Ok(())
    })
}

/// The bytes that the site holds now: as many as it has, or as there is room for. `len` becomes how
/// many it has.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_site_read(
    site: *const pp_site,
    bytes: *mut u8,
    room: usize,
    len: *mut usize,
) -> *mut pp_error {
    boundary!({
        let to = out(len, 0)?;
        let site = handle::get::<SiteBody>(site)?;
        if bytes.is_null() && room > 0 {
            return Err(Misuse::Null("the room for bytes").into());
        }
        let found = site.read()?;
        *to = found.len();
        if room > 0 {
            std::ptr::copy_nonoverlapping(found.as_ptr(), bytes, found.len().min(room));
        }
        Ok(())
    })
}

/// The function in which the site lies, as a handle to be freed by pp_function_free().
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_site_function(
    site: *const pp_site,
    function: *mut *mut pp_function,
) -> *mut pp_error {
    boundary!({
        let to = HandleOut::<FunctionBody>::new(function)?;
        to.set(handle::get::<SiteBody>(site)?.function());
        Ok(())
    })
}

/// The module to which the site belongs, as a handle to be freed by pp_module_free().
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_site_module(site: *const pp_site, module: *mut *mut pp_module) -> *mut pp_error {
    boundary!({
        let to = HandleOut::<ModuleBody>::new(module)?;
        to.set(handle::get::<SiteBody>(site)?.module().clone());
        Ok(())
    })
}

/// Whether two handles are of the same site.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_site_is_same(
    one: *const pp_site,
    other: *const pp_site,
    is_same: *mut bool,
) -> *mut pp_error {
    boundary!({
        let to = out(is_same, false)?;
        let (one, other) = (handle::get::<SiteBody>(one)?, handle::get::<SiteBody>(other)?);
        *to = *one == *other;
        Ok(())
    })
}

/// Attaches data to the site, for handlers to find by pp_frame_description(), for as long as the
/// module is there. A site has one at most. Where this fails, `data` is still the caller's; afterwards
/// the finalizer frees it.
///
/// # Safety
/// Promises that the data may be looked at by every thread that is in a handler, and freed by any.
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_site_describe(
    site: *const pp_site,
    data: *mut c_void,
    finalizer: pp_finalizer,
) -> *mut pp_error {
    boundary!({
        let site = handle::get::<SiteBody>(site)?;
        if site.description::<Attached>().is_some() {
            return Err(Misuse::Order("the site has a description: a site has one at most").into());
        }
        Ok(site.describe(Data::new(data, finalizer))?)
    })
}

/// What pp_site_describe() has attached; NULL for nothing.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_site_description(site: *const pp_site, data: *mut *mut c_void) -> *mut pp_error {
    boundary!({
        let to = out(data, std::ptr::null_mut())?;
        let site = handle::get::<SiteBody>(site)?;
        if let Some(attached) = site.description::<Attached>() {
            *to = attached.get();
        }
        Ok(())
    })
}

/// One more handle of the same site.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_site_clone(site: *const pp_site, clone: *mut *mut pp_site) -> *mut pp_error {
    boundary!({
        let to = HandleOut::<SiteBody>::new(clone)?;
        to.set(handle::get::<SiteBody>(site)?.clone());
        Ok(())
    })
}

/// Frees a handle of a site; the site stays as it is.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_site_free(site: *mut pp_site) -> *mut pp_error {
    boundary!(handle::free::<SiteBody>(site))
}

/// How many sites a list has.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_sites_count(sites: *const pp_sites, count: *mut usize) -> *mut pp_error {
    boundary!({
        let to = out(count, 0)?;
        *to = handle::get::<SitesBody>(sites)?.0.len();
        Ok(())
    })
}

/// The site at `index` of a list, as a handle of its own, to be freed by pp_site_free().
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_sites_at(
    sites: *const pp_sites,
    index: usize,
    site: *mut *mut pp_site,
) -> *mut pp_error {
    boundary!({
        let to = HandleOut::<SiteBody>::new(site)?;
        let sites = handle::get::<SitesBody>(sites)?;
        let found = sites.0.get(index).cloned();
        to.set(found.ok_or(Misuse::Number("index of a site", index as u64))?);
        Ok(())
    })
}

/// Frees a list of sites.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_sites_free(sites: *mut pp_sites) -> *mut pp_error {
    boundary!(handle::free::<SitesBody>(sites))
}
