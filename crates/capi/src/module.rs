//! Registered modules, and their functions.

use patchpoint::addr::CodeAddr;
use patchpoint::publish::GracePeriod;
use patchpoint::site::{Function, Module};

use crate::engine::{EngineBody, pp_engine};
use crate::error::{Misuse, pp_error};
use crate::guard::boundary;
use crate::handle::{self, HandleOut, handle};
use crate::site::{SiteBody, SitesBody, pp_site, pp_sites};
use crate::types::{out, pp_str};

/// A registered module: its functions and sites.
pub struct pp_module {
    _opaque: [u8; 0],
}

/// A function of a registered module. It keeps its module's memory.
pub struct pp_function {
    _opaque: [u8; 0],
}

pub(crate) type ModuleBody = Module;
handle!(pp_module, ModuleBody, 0x7070_0007);
pub(crate) type FunctionBody = Function;
handle!(pp_function, FunctionBody, 0x7070_0008);

/// Declares that threads may execute the module's code from now on. Into code that has not run nobody
/// returns: patches before this have all bytes of a site. There is no way back.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_module_release(module: *const pp_module) -> *mut pp_error {
    boundary!({
        handle::get::<ModuleBody>(module)?.release();
        Ok(())
    })
}

/// Whether the module is changed while threads execute it.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_module_is_live(module: *const pp_module, is_live: *mut bool) -> *mut pp_error {
    boundary!({
        let to = out(is_live, false)?;
        *to = handle::get::<ModuleBody>(module)?.is_live();
        Ok(())
    })
}

/// The function of that name, as a handle to be freed by pp_function_free().
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_module_function(
    module: *const pp_module,
    name: pp_str,
    function: *mut *mut pp_function,
) -> *mut pp_error {
    boundary!({
        let to = HandleOut::<FunctionBody>::new(function)?;
        to.set(handle::get::<ModuleBody>(module)?.function(name.get()?)?);
        Ok(())
    })
}

/// How many functions the module has.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_module_function_count(
    module: *const pp_module,
    count: *mut usize,
) -> *mut pp_error {
    boundary!({
        let to = out(count, 0)?;
        *to = handle::get::<ModuleBody>(module)?.functions().count();
        Ok(())
    })
}

/// The function at `index`, in ascending address, as a handle to be freed by pp_function_free().
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_module_function_at(
    module: *const pp_module,
    index: usize,
    function: *mut *mut pp_function,
) -> *mut pp_error {
    boundary!({
        let to = HandleOut::<FunctionBody>::new(function)?;
        let module = handle::get::<ModuleBody>(module)?;
        let found = module.functions().nth(index);
        to.set(found.ok_or(Misuse::Number("index of a function", index as u64))?);
        Ok(())
    })
}

/// All sites of the module, as a list to be freed by pp_sites_free().
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_module_sites(
    module: *const pp_module,
    sites: *mut *mut pp_sites,
) -> *mut pp_error {
    boundary!({
        let to = HandleOut::<SitesBody>::new(sites)?;
        to.set(SitesBody(handle::get::<ModuleBody>(module)?.sites().collect()));
        Ok(())
    })
}

/// The sites of the module with that ID, as a list to be freed by pp_sites_free().
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_module_sites_with_id(
    module: *const pp_module,
    id: u64,
    sites: *mut *mut pp_sites,
) -> *mut pp_error {
    boundary!({
        let to = HandleOut::<SitesBody>::new(sites)?;
        to.set(SitesBody(handle::get::<ModuleBody>(module)?.sites_with_id(id)?));
        Ok(())
    })
}

/// The sites of the module that call the function of that name, as a list to be freed by
/// pp_sites_free(): those whose calls were recorded when the code was loaded.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_module_calls_of(
    module: *const pp_module,
    function: pp_str,
    sites: *mut *mut pp_sites,
) -> *mut pp_error {
    boundary!({
        let to = HandleOut::<SitesBody>::new(sites)?;
        let module = handle::get::<ModuleBody>(module)?;
        to.set(SitesBody(module.calls_of(function.get()?).collect()));
        Ok(())
    })
}

/// Forgets a module, its stubs and exit stubs. The handle stays to be freed. Code that the engine has
/// loaded is unloaded when the last handle of the module, a site or a function of it is freed. Adopted
/// code stays where it is, with the bytes that it has then: where it is to go on running, restore its
/// sites before. Stubs that later patches have replaced are not the module's any more: they stay until
/// pp_engine_reclaim() or pp_engine_reclaim_passed().
///
/// # Safety
/// Promises that no thread executes the module's code or stubs, or returns there, from now on.
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_engine_unregister(
    engine: *const pp_engine,
    module: *const pp_module,
) -> *mut pp_error {
    boundary!({
        let engine = handle::get::<EngineBody>(engine)?;
        let module = handle::get::<ModuleBody>(module)?.clone();
        Ok(engine.engine.unregister(module, &GracePeriod::promise())?)
    })
}

/// Frees a handle of a module; the module stays registered.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_module_free(module: *mut pp_module) -> *mut pp_error {
    boundary!(handle::free::<ModuleBody>(module))
}

/// The function's name, lent as long as the handle is not freed.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_function_name(function: *const pp_function, name: *mut pp_str) -> *mut pp_error {
    boundary!({
        let to = out(name, pp_str::EMPTY)?;
        *to = pp_str::of(handle::get::<FunctionBody>(function)?.name());
        Ok(())
    })
}

/// The address of the function's first byte and its length, to look at and not to call.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_function_range(
    function: *const pp_function,
    address: *mut u64,
    len: *mut u64,
) -> *mut pp_error {
    boundary!({
        let (to_address, to_len) = (out(address, 0)?, out(len, 0)?);
        let function = handle::get::<FunctionBody>(function)?;
        *to_address = function.addr().get();
        *to_len = function.len().get().into();
        Ok(())
    })
}

/// What a pointer to the function holds, to be called: refused before pp_module_release(). It is good
/// as long as the module is registered and its engine is there.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_function_entry(function: *const pp_function, entry: *mut u64) -> *mut pp_error {
    boundary!({
        let to = out(entry, 0)?;
        *to = handle::get::<FunctionBody>(function)?.entry()?.get();
        Ok(())
    })
}

/// The sites of the function, as a list to be freed by pp_sites_free().
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_function_sites(
    function: *const pp_function,
    sites: *mut *mut pp_sites,
) -> *mut pp_error {
    boundary!({
        let to = HandleOut::<SitesBody>::new(sites)?;
        to.set(SitesBody(
            handle::get::<FunctionBody>(function)?.sites().collect(),
        ));
        Ok(())
    })
}

/// Frees a handle of a function.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_function_free(function: *mut pp_function) -> *mut pp_error {
    boundary!(handle::free::<FunctionBody>(function))
}

/// The sites with that ID in all modules of the engine, as a list to be freed by pp_sites_free().
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_engine_sites(
    engine: *const pp_engine,
    id: u64,
    sites: *mut *mut pp_sites,
) -> *mut pp_error {
    boundary!({
        let to = HandleOut::<SitesBody>::new(sites)?;
        let engine = handle::get::<EngineBody>(engine)?;
        to.set(SitesBody(engine.engine.sites(id)?.into_iter().collect()));
        Ok(())
    })
}

/// The site that contains that address; NULL if none does.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_engine_site_at(
    engine: *const pp_engine,
    address: u64,
    site: *mut *mut pp_site,
) -> *mut pp_error {
    boundary!({
        let to = HandleOut::<SiteBody>::new(site)?;
        let engine = handle::get::<EngineBody>(engine)?;
        to.set_some(engine.engine.site_at(CodeAddr::new(address)));
        Ok(())
    })
}

/// The site one of whose stubs or exit stubs contains that address; NULL if none does. It takes time
/// in the number of changed sites.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_engine_site_of_stub(
    engine: *const pp_engine,
    address: u64,
    site: *mut *mut pp_site,
) -> *mut pp_error {
    boundary!({
        let to = HandleOut::<SiteBody>::new(site)?;
        let engine = handle::get::<EngineBody>(engine)?;
        to.set_some(engine.engine.site_of_stub(CodeAddr::new(address)));
        Ok(())
    })
}

/// The function that contains that address; NULL if none does.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_engine_function_at(
    engine: *const pp_engine,
    address: u64,
    function: *mut *mut pp_function,
) -> *mut pp_error {
    boundary!({
        let to = HandleOut::<FunctionBody>::new(function)?;
        let engine = handle::get::<EngineBody>(engine)?;
        to.set_some(engine.engine.function_at(CodeAddr::new(address)));
        Ok(())
    })
}

/// The module whose code contains that address; NULL if none does.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_engine_module_at(
    engine: *const pp_engine,
    address: u64,
    module: *mut *mut pp_module,
) -> *mut pp_error {
    boundary!({
        let to = HandleOut::<ModuleBody>::new(module)?;
        let engine = handle::get::<EngineBody>(engine)?;
        to.set_some(engine.engine.module_at(CodeAddr::new(address)));
        Ok(())
    })
}
