//! Inline caches.

use std::ffi::c_void;

use parking_lot::Mutex;
use patchpoint::deopt::Answer;
use patchpoint::ic::{
    Cache, CacheState, CacheStats, Caches, CachesBuilder, Chain, Counting, Decision, History, Key, Learn,
    Lookup, Miss, Order, Policy, Totals,
};

use crate::engine::{EngineBody, pp_engine};
use crate::entry::{EntryBody, pp_entry};
use crate::error::{Misuse, Result, pp_error};
use crate::frame::{self, Handler, pp_frame, pp_handler};
use crate::guard::{Data, boundary, callback, pp_finalizer};
use crate::handle::{self, HandleOut, handle};
use crate::sequence::{self, pp_sequence};
use crate::site::{SiteBody, pp_site};
use crate::types::{Growing, GrowingOut, out, slice};

/// Describes inline caches.
pub struct pp_caches_builder {
    _opaque: [u8; 0],
}

/// The inline caches of an engine.
pub struct pp_caches {
    _opaque: [u8; 0],
}

/// The cache of a site.
pub struct pp_cache {
    _opaque: [u8; 0],
}

pub(crate) type CachesBuilderBody = Mutex<Option<CachesBuilder>>;
handle!(pp_caches_builder, CachesBuilderBody, 0x7070_0014);

/// Caches, which an engine shares.
pub(crate) struct CachesBody {
    pub(crate) caches: Caches,
}
handle!(pp_caches, CachesBody, 0x7070_0015);
pub(crate) type CacheBody = Cache;
handle!(pp_cache, CacheBody, 0x7070_0016);

/// What a cache has become.
#[repr(C)]
pub enum pp_cache_state {
    /// No entry: every execution goes to the lookup.
    PP_CACHE_UNINITIALIZED = 0,
    /// One entry.
    PP_CACHE_MONOMORPHIC = 1,
    /// A chain of entries.
    PP_CACHE_POLYMORPHIC = 2,
    /// The generic path.
    PP_CACHE_MEGAMORPHIC = 3,
    /// The site was invalidated: the cache learns nothing any more.
    PP_CACHE_DEAD = 4,
}

const fn state_number(state: CacheState) -> u32 {
    (match state {
        CacheState::Uninitialized => pp_cache_state::PP_CACHE_UNINITIALIZED,
        CacheState::Monomorphic => pp_cache_state::PP_CACHE_MONOMORPHIC,
        CacheState::Polymorphic => pp_cache_state::PP_CACHE_POLYMORPHIC,
        CacheState::Megamorphic => pp_cache_state::PP_CACHE_MEGAMORPHIC,
        _ => pp_cache_state::PP_CACHE_DEAD,
    }) as u32
}

/// Whether the entries of caches count their hits in the code.
#[repr(C)]
pub enum pp_counting {
    /// They do not.
    PP_COUNTING_OFF = 0,
    /// By a plain addition, which loses counts where several threads hit at once.
    PP_COUNTING_PLAIN = 1,
    /// Atomically.
    PP_COUNTING_ATOMIC = 2,
}

/// In which order entries are tested.
#[repr(C)]
pub enum pp_order {
    /// The last one learnt first.
    PP_ORDER_MOST_RECENT = 0,
    /// The one with the most hits first, where they are counted.
    PP_ORDER_MOST_FREQUENT = 1,
}

/// What becomes of an entry that a lookup has found.
#[repr(C)]
pub enum pp_decision {
    /// Nothing changes.
    PP_DECISION_IGNORE = 0,
    /// It is installed beside the others.
    PP_DECISION_INSTALL = 1,
    /// It is installed in place of all others.
    PP_DECISION_REPLACE = 2,
    /// The cache becomes megamorphic.
    PP_DECISION_GO_MEGAMORPHIC = 3,
}

/// What is known of a cache when an entry was found.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pp_history {
    /// The size of this structure.
    pub size: usize,
    /// One of pp_cache_state.
    pub state: u32,
    /// How many entries it has.
    pub entries: u32,
    /// Misses since the state last changed, this one included.
    pub misses: u64,
    /// Misses since the cache was made, this one included.
    pub all_misses: u64,
    /// How often entries have been retracted.
    pub retractions: u64,
    /// How often it has become megamorphic.
    pub megamorphic: u64,
}

/// Decides what becomes of an entry: returns one of pp_decision. The cache is locked: it calls no
/// function of this interface.
pub type pp_policy =
    Option<unsafe extern "C-unwind" fn(history: *const pp_history, data: *mut c_void) -> u32>;

/// Figures of a cache. `size` comes first, see the head of this file.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pp_cache_stats {
    /// The size of this structure, written by the caller.
    pub size: usize,
    /// How many caches these figures are of.
    pub caches: u64,
    /// Hits that were counted in the code, where they are.
    pub hits: u64,
    /// Executions that went to the lookup.
    pub misses: u64,
    /// Entries that were installed.
    pub installed: u64,
    /// Entries that the site has refused.
    pub refused: u64,
    /// Entries that were retracted.
    pub retracted: u64,
    /// Changes of the state.
    pub transitions: u64,
    /// Bytes of stubs and exit stubs that there are now.
    pub stub_bytes: u64,
    /// Bytes of them that were freed.
    pub reclaimed: u64,
    /// Of one cache: one of pp_cache_state.
    pub state: u32,
    /// Of one cache: how many entries it has.
    pub entries: u32,
}

// SAFETY: numbers.
unsafe impl Growing for pp_cache_stats {}

impl From<CacheStats> for pp_cache_stats {
    fn from(stats: CacheStats) -> Self {
        Self {
            size: 0,
            caches: 1,
            hits: stats.hits.unwrap_or(0),
            misses: stats.misses,
            installed: stats.installed,
            refused: stats.refused,
            retracted: stats.retracted,
            transitions: stats.transitions,
            stub_bytes: stats.stub_bytes,
            reclaimed: stats.reclaimed,
            state: state_number(stats.state),
            entries: stats.entries as u32,
        }
    }
}

impl From<Totals> for pp_cache_stats {
    fn from(stats: Totals) -> Self {
        Self {
            size: 0,
            caches: stats.caches as u64,
            hits: stats.hits,
            misses: stats.misses,
            installed: stats.installed,
            refused: stats.refused,
            retracted: stats.retracted,
            transitions: stats.transitions,
            stub_bytes: stats.stub_bytes,
            reclaimed: stats.reclaimed,
            state: 0,
            entries: 0,
        }
    }
}

/// A lookup in C.
struct CLookup(Handler);

impl Lookup for CLookup {
    fn lookup<'f>(&self, miss: &mut Miss<'_, 'f>) -> Learn<'f> {
        let asked = self.0.ask(miss.frame(), None);
        answer(asked)
    }
}

/// What a lookup has answered: an answer of its own counts before what is to be learnt.
fn answer<'f>((answer, has_answered, entry): (Answer<'f>, bool, Option<patchpoint::ic::Entry>)) -> Learn<'f> {
    match (has_answered, entry) {
        (true, _) => Learn::Leave(answer),
        (false, Some(entry)) => Learn::Entry(entry),
        (false, None) => Learn::Nothing,
    }
}

/// A policy in C.
struct CPolicy {
    decide: unsafe extern "C-unwind" fn(*const pp_history, *mut c_void) -> u32,
    data: Data,
}

impl Policy for CPolicy {
    fn decide(&self, history: &History) -> Decision {
        let history = pp_history {
            size: size_of::<pp_history>(),
            state: state_number(history.state),
            entries: history.entries as u32,
            misses: history.misses,
            all_misses: history.all_misses,
            retractions: history.retractions,
            megamorphic: history.megamorphic,
        };
        let decided = callback("a policy", || {
            // SAFETY: whoever gave it has promised that it can be called so.
            unsafe { (self.decide)(&history, self.data.get()) }
        });
        match decided {
            1 => Decision::Install,
            2 => Decision::Replace,
            3 => Decision::GoMegamorphic,
            // Also what is no decision.
            _ => Decision::Ignore,
        }
    }
}

const BUILT: Misuse = Misuse::Order("the caches have been built: describe others");

/// # Safety
/// As for `handle::get`.
unsafe fn describe(
    builder: *mut pp_caches_builder,
    change: impl FnOnce(CachesBuilder) -> CachesBuilder,
) -> Result<()> {
    // SAFETY: the same.
    let body = unsafe { handle::get::<CachesBuilderBody>(builder) }?;
    let mut body = body.lock();
    let before = body.take().ok_or(BUILT)?;
    *body = Some(change(before));
    Ok(())
}

/// Starts to describe caches. To be freed by pp_caches_builder_free().
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_caches_builder_new(builder: *mut *mut pp_caches_builder) -> *mut pp_error {
    boundary!({
        let to = HandleOut::<CachesBuilderBody>::new(builder)?;
        to.set(Mutex::new(Some(Caches::builder())));
        Ok(())
    })
}

/// The usual policy with these numbers: the most entries of a chain (4 if nothing is said), the misses
/// that are ignored after the first retraction (1; doubles with each further one), and the misses after
/// which a megamorphic cache starts again (1024; doubles; 0 for never).
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_caches_builder_chain(
    builder: *mut pp_caches_builder,
    limit: usize,
    back_off: u64,
    cool_down: u64,
) -> *mut pp_error {
    boundary!(describe(builder, |builder| {
        builder.policy(Chain {
            limit,
            back_off,
            cool_down,
        })
    }))
}

/// A policy of the caller's own. Where this fails, `data` is still the caller's; afterwards the
/// finalizer frees it.
///
/// # Safety
/// Promises that the policy can be called with `data` on any thread that executes compiled code.
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_caches_builder_policy(
    builder: *mut pp_caches_builder,
    policy: pp_policy,
    data: *mut c_void,
    finalizer: pp_finalizer,
) -> *mut pp_error {
    boundary!({
        let decide = policy.ok_or(Misuse::Null("the policy"))?;
        describe(builder, |builder| {
            let data = Data::new(data, finalizer);
            builder.policy(CPolicy { decide, data })
        })
    })
}

/// Whether hits are counted: one of pp_counting.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_caches_builder_counting(
    builder: *mut pp_caches_builder,
    counting: u32,
) -> *mut pp_error {
    boundary!({
        let counting = match counting {
            0 => Counting::Off,
            1 => Counting::Plain,
            2 => Counting::Atomic,
            other => return Err(Misuse::Number("pp_counting", other.into()).into()),
        };
        describe(builder, |builder| builder.counting(counting))
    })
}

/// In which order entries are tested: one of pp_order.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_caches_builder_order(
    builder: *mut pp_caches_builder,
    order: u32,
) -> *mut pp_error {
    boundary!({
        let order = match order {
            0 => Order::MostRecent,
            1 => Order::MostFrequent,
            other => return Err(Misuse::Number("pp_order", other.into()).into()),
        };
        describe(builder, |builder| builder.order(order))
    })
}

/// What a megamorphic site does, in place of going to the lookup.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_caches_builder_megamorphic(
    builder: *mut pp_caches_builder,
    sequence: *const pp_sequence,
) -> *mut pp_error {
    boundary!({
        let sequence = sequence::get(sequence)?;
        describe(builder, |builder| builder.megamorphic(sequence))
    })
}

/// Lets the lookup see every register, and leave the frame. Without it misses save what is live, which
/// is faster.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_caches_builder_whole_frames(builder: *mut pp_caches_builder) -> *mut pp_error {
    boundary!(describe(builder, CachesBuilder::whole_frames))
}

/// Makes the caches, whose misses go to this lookup: it sets the result by pp_frame_set_result(), and
/// says by pp_frame_learn() what the next execution with such values should do. The description is used
/// up, and still to be freed. Where this fails, `data` is still the caller's; afterwards the finalizer
/// frees it. To be freed by pp_caches_free().
///
/// # Safety
/// Promises that the lookup can be called with `data` from every thread that executes compiled code,
/// from several at once and again while it runs. Threads: any. Handlers: yes. Stopped world: no. Signal
/// handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_caches_build(
    builder: *mut pp_caches_builder,
    lookup: pp_handler,
    data: *mut c_void,
    finalizer: pp_finalizer,
    caches: *mut *mut pp_caches,
) -> *mut pp_error {
    boundary!({
        let to = HandleOut::<CachesBody>::new(caches)?;
        let body = handle::get::<CachesBuilderBody>(builder)?;
        if lookup.is_none() {
            return Err(Misuse::Null("the lookup").into());
        }
        let taken = body.lock().take().ok_or(BUILT)?;
        let handler = Handler::new(lookup, data, finalizer)?;
        let caches = taken.lookup_by(CLookup(handler));
        to.set(CachesBody { caches });
        Ok(())
    })
}

/// Frees a description of caches.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_caches_builder_free(builder: *mut pp_caches_builder) -> *mut pp_error {
    boundary!(handle::free::<CachesBuilderBody>(builder))
}

/// In the lookup of a cache: what the next execution with such values should do. The entry stays the
/// caller's. The last one counts, and none where the lookup answers otherwise than by returning.
///
/// # Safety
/// Promises that the entry is right for the site. Threads: the handler's. Handlers: only there. Stopped
/// world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_frame_learn(frame: *mut pp_frame, entry: *const pp_entry) -> *mut pp_error {
    boundary!({
        let entry = handle::get::<EntryBody>(entry)?.lock().clone();
        frame::learn(frame, entry)
    })
}

/// Gives the site a cache, which is empty: every execution goes to the lookup. A site that has one
/// keeps it. `cache` may be NULL; what is put there is to be freed by pp_cache_free().
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_caches_attach(
    caches: *const pp_caches,
    engine: *const pp_engine,
    site: *const pp_site,
    cache: *mut *mut pp_cache,
) -> *mut pp_error {
    boundary!({
        let to = (!cache.is_null())
            .then(|| HandleOut::<CacheBody>::new(cache))
            .transpose()?;
        let caches = handle::get::<CachesBody>(caches)?;
        let (engine, site) = (handle::get::<EngineBody>(engine)?, handle::get::<SiteBody>(site)?);
        let cache = caches.caches.attach(&engine.engine, &site)?;
        if let Some(to) = to {
            to.set(cache);
        }
        Ok(())
    })
}

/// Gives every site with that ID a cache; `count` becomes how many there are.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_caches_attach_all(
    caches: *const pp_caches,
    engine: *const pp_engine,
    id: u64,
    count: *mut usize,
) -> *mut pp_error {
    boundary!({
        let to = out(count, 0)?;
        let caches = handle::get::<CachesBody>(caches)?;
        let engine = handle::get::<EngineBody>(engine)?;
        *to = caches.caches.attach_all(&engine.engine, id)?.len();
        Ok(())
    })
}

/// The cache of a site, to be freed by pp_cache_free(); NULL if it has none.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_caches_at(
    caches: *const pp_caches,
    site: *const pp_site,
    cache: *mut *mut pp_cache,
) -> *mut pp_error {
    boundary!({
        let to = HandleOut::<CacheBody>::new(cache)?;
        let caches = handle::get::<CachesBody>(caches)?;
        to.set_some(caches.caches.at(&*handle::get::<SiteBody>(site)?));
        Ok(())
    })
}

/// Takes every entry back that depends on one of these keys, from all caches, in one transaction. When
/// it returns, no thread begins to execute one any more. `count` becomes how many caches have lost
/// entries.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_caches_retract(
    caches: *const pp_caches,
    keys: *const u64,
    key_count: usize,
    count: *mut usize,
) -> *mut pp_error {
    boundary!({
        let to = out(count, 0)?;
        let caches = handle::get::<CachesBody>(caches)?;
        let keys: Vec<Key> = slice(keys, key_count)?.iter().copied().map(Key::new).collect();
        *to = caches.caches.retract(&keys)?.caches;
        Ok(())
    })
}

/// Empties all caches, megamorphic ones too, in one transaction; `count` becomes how many have lost
/// entries.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_caches_reset(caches: *const pp_caches, count: *mut usize) -> *mut pp_error {
    boundary!({
        let to = out(count, 0)?;
        *to = handle::get::<CachesBody>(caches)?.caches.reset()?.caches;
        Ok(())
    })
}

/// Figures of all caches.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_caches_stats(
    caches: *const pp_caches,
    stats: *mut pp_cache_stats,
) -> *mut pp_error {
    boundary!({
        let to = GrowingOut::new(stats)?;
        to.set(handle::get::<CachesBody>(caches)?.caches.totals().into());
        Ok(())
    })
}

/// Frees a handle of caches; an engine keeps those it has.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_caches_free(caches: *mut pp_caches) -> *mut pp_error {
    boundary!(handle::free::<CachesBody>(caches))
}
