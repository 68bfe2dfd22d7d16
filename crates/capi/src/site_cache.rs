//! The cache of one site.

use crate::cache::{CacheBody, CachesBody, pp_cache, pp_cache_stats, pp_caches};
use crate::error::pp_error;
use crate::guard::boundary;
use crate::handle;
use crate::types::GrowingOut;

/// Empties one cache of these.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_cache_reset(caches: *const pp_caches, cache: *const pp_cache) -> *mut pp_error {
    boundary!({
        let caches = handle::get::<CachesBody>(caches)?;
        caches.caches.reset_one(&*handle::get::<CacheBody>(cache)?)?;
        Ok(())
    })
}

/// Figures of one cache of these.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_cache_get_stats(
    caches: *const pp_caches,
    cache: *const pp_cache,
    stats: *mut pp_cache_stats,
) -> *mut pp_error {
    boundary!({
        let to = GrowingOut::new(stats)?;
        let caches = handle::get::<CachesBody>(caches)?;
        to.set(caches.caches.stats(&*handle::get::<CacheBody>(cache)?).into());
        Ok(())
    })
}

/// Why the last entry was refused that could not be installed, as an error to be freed; NULL if none
/// was.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_cache_last_refusal(cache: *const pp_cache) -> *mut pp_error {
    boundary!({
        let refusal = handle::get::<CacheBody>(cache)?.last_refusal();
        match refusal {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    })
}

/// Frees a handle of a cache; the site keeps it.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_cache_free(cache: *mut pp_cache) -> *mut pp_error {
    boundary!(handle::free::<CacheBody>(cache))
}
