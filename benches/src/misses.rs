//! Misses: from a call that misses to its return, with the entry installed; and the part of that from the
//! lookup's result to the installed entry.

use std::cell::Cell;
use std::hint::black_box;
use std::time::{Duration, Instant};

use patchpoint::Engine;
use patchpoint::ic::{Cache, Caches, Learn, Miss};
use patchpoint::publish::GracePeriod;
use patchpoint::sequence::{Field, Sequence, Target, arg, result};
use patchpoint::site::Module;

use crate::caches::{engine, get, learn, object_of, objects, patient, site_of};
use crate::measure::{Effort, Figure, interleave, time};
use crate::report::Row;
use crate::subject::{self, INLINE_CACHE};

/// How many misses are measured at a time.
const ROUNDS: usize = 64;

const EFFORT: Effort = Effort {
    batches: 101,
    operations: ROUNDS,
};

type Made = (Engine, Caches, Module, Cache);

thread_local! {
    /// When a lookup last had its result.
    static FOUND: Cell<Option<Instant>> = const { Cell::new(None) };
}

fn learn_and_note<'f>(miss: &mut Miss<'_, 'f>) -> Learn<'f> {
    let learn = learn(miss);
    FOUND.set(Some(Instant::now()));
    learn
}

/// The same result, of which the cache keeps nothing.
fn note<'f>(miss: &mut Miss<'_, 'f>) -> Learn<'f> {
    let object = object_of(miss);
    miss.set_result(object.property).unwrap();
    FOUND.set(Some(Instant::now()));
    Learn::Nothing
}

fn make<L>(lookup: L, live: bool) -> Made
where
    L: for<'f> Fn(&mut Miss<'_, 'f>) -> Learn<'f> + Send + Sync + 'static,
{
    let caches = patient().lookup(lookup);
    let engine = engine(caches.exit_stubs());
    let registration = engine.registration(subject::load(&engine, INLINE_CACHE));
    let registration = if live { registration.live() } else { registration };
    // SAFETY: what is told is true of the object's code, or refused.
    let module = unsafe { registration.register(subject::shape) }.unwrap();
    let cache = caches.attach(&engine, &site_of(&module, "get")).unwrap();
    module.release();
    (engine, caches, module, cache)
}

/// Misses from call to return. Emptying the cache again is not counted.
fn missed(made: &Made) -> Duration {
    each_miss(made, 1, |miss| time(miss))
}

/// The same from the result of a lookup that notes when it has it. So many entries are installed by each.
fn behind_the_lookup(made: &Made, entries: usize) -> Duration {
    each_miss(made, entries, |miss| {
        miss();
        // Taken, so that a call that did not miss is not measured from the one before.
        FOUND.take().expect("the call has missed").elapsed()
    })
}

fn each_miss(made: &Made, entries: usize, timed: impl Fn(&dyn Fn()) -> Duration) -> Duration {
    let (engine, caches, module, cache) = made;
    let (objects, _) = objects();
    let get = get(module.function("get").unwrap().entry().unwrap());
    let mut took = Duration::ZERO;
    for object in &objects[..ROUNDS] {
        caches.reset_one(cache).unwrap();
        took += timed(&|| assert_eq!(get(black_box(object)), object.property));
        assert_eq!(cache.entries().len(), entries);
    }
    reclaim(engine);
    took
}

/// Frees the stubs that were replaced, as a runtime does now and then: it is not counted. Without it
/// each stub is the first in its memory.
fn reclaim(engine: &Engine) {
    // SAFETY: this thread alone executes the site, and is outside of it.
    let grace_period = unsafe { GracePeriod::promise() };
    engine.reclaim(&grace_period).unwrap();
}

/// What of that is the engine's: a patch with the sequence that the cache has made. Nor is its
/// making counted, nor the patch back.
fn patched(made: &Made) -> Duration {
    let (engine, _, _, cache) = made;
    let miss = Sequence::new().jump(Target::Miss);
    let mut took = Duration::ZERO;
    for _ in 0..ROUNDS {
        let hit = Sequence::new()
            .guard_eq(u32::at(arg(0), 0), u64::from(subject::SHAPE), Target::Miss)
            .load(result(), u64::at(arg(0), 8));
        engine.patch_site(cache.site(), &miss).unwrap();
        took += time(|| _ = black_box(engine.patch_site(cache.site(), &hit).unwrap()));
    }
    reclaim(engine);
    took
}

/// From a lookup's result to the installed entry, in place and of a live site; and what is in neither, the
/// way back from there to the return of the call that missed. That is measured with a lookup of which the
/// cache keeps nothing, in turn with each.
pub(crate) fn figures() -> [Figure; 3] {
    let learning = [make(learn_and_note, false), make(learn_and_note, true)];
    let others = [make(note, false), make(note, true)];
    let installed = |live: usize| {
        let back = behind_the_lookup(&others[live], 0);
        behind_the_lookup(&learning[live], 1).saturating_sub(back)
    };
    let ours: [&mut dyn FnMut() -> Duration; 3] = [&mut || installed(0), &mut || installed(1), &mut || {
        behind_the_lookup(&others[1], 0)
    }];
    interleave(EFFORT, ours)
}

/// All of them.
pub fn rows() -> Vec<Row> {
    let made = [make(learn, false), make(learn, true)];
    let bare = [make(learn, false), make(learn, true)];
    let [in_place, live, patch, live_patch] = interleave(
        EFFORT,
        [
            &mut || missed(&made[0]),
            &mut || missed(&made[1]),
            &mut || patched(&bare[0]),
            &mut || patched(&bare[1]),
        ],
    );
    const PATCH: &str = "the engine's patch alone";
    vec![
        Row::against(
            "miss to installed entry, in place",
            [in_place, patch],
            PATCH,
            None,
        ),
        Row::against(
            "miss to installed entry, live site",
            [live, live_patch],
            PATCH,
            None,
        ),
    ]
}
