//! Transactions of one and of many sites, and live sites, alone and while another thread executes
//! patched code.
//!
//! Every transaction is prepared before the first is timed, and the bare thing, which is done as
//! often in the same way and alternates with it batch by batch, is timed by the same clock around
//! the same loop.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use patchpoint::addr::Len;
use patchpoint::arch::{Arch, x86_64};
use patchpoint::deopt::ExitStubs;
use patchpoint::engine::{Engine, Prepared};
use patchpoint::image::Adoption;
use patchpoint::memory::{Arena, CodeMemory, PlacedSegments, Reach, SegmentKind, SegmentNeed};
use patchpoint::publish::{Attached, GracePeriod, Level, NeverStopped, Publisher, serialize};
use patchpoint::sequence::{Sequence, arg, result};
use patchpoint::site::{Module, Site, SiteSpec};

use crate::busy::Busy;
use crate::limits::{self, Copied, Limit};
use crate::measure::{Effort, Figure, interleave, time};
use crate::pages::{self, PAGE};
use crate::ratios;
use crate::report::Row;
use crate::subject::{self, Object, RESERVED};

/// The sites of one load of the object.
const HUNDRED: usize = 100;

const BARE: &str = "bare copy of 32 bytes to the view, serialize, per site";

/// All of them; with a thread beside if `busy`.
pub fn all(busy: bool) -> Vec<Row> {
    let other = Busy::start(usize::from(busy));
    let mut rows = vec![
        back_to_back(),
        batch(1, "Alias: transaction of 1 site, per site", None),
        batch(10, "Alias: transaction of 10 sites, per site", None),
        batch(1000, "Alias: transaction of 1000 sites, per site", Some(1.0)),
        eventual(),
        settling(),
    ];
    rows.extend(immediate());
    rows.extend(behind_traps());
    rows.push(invalidation());
    if busy {
        rows.extend(ratios::commits());
        rows.push(executed());
    }
    other.stop();
    rows
}

/// So many loads of the function with 100 sites.
pub(crate) fn hundreds(engine: &Engine, count: usize, live: bool) -> Vec<Module> {
    let load = |_| {
        let registration = engine.registration(subject::load(engine, subject::HUNDRED));
        let registration = if live { registration.live() } else { registration };
        // SAFETY: what is told is true of the object's code, or refused.
        unsafe { registration.register(subject::shape) }.unwrap()
    };
    (0..count).map(load).collect()
}

/// Transactions of `size` sites each, that together change every site, every thread seeing them at
/// once or not.
pub(crate) fn transactions<'e>(
    engine: &'e Engine,
    sites: &[Site],
    size: usize,
    turn: usize,
    immediate: bool,
) -> Vec<Prepared<'e>> {
    let sequence = subject::hit([8, 16][turn % 2]);
    let one = |sites: &[Site]| {
        let mut transaction = engine.transaction();
        for site in sites {
            transaction.patch_site(site, &sequence).unwrap();
        }
        if immediate {
            transaction.immediate();
        }
        transaction.prepare().unwrap()
    };
    sites.chunks(size).map(one).collect()
}

/// Commits what was prepared, one after the other.
pub(crate) fn commit_all(prepared: Vec<Prepared<'_>>) -> Duration {
    time(|| {
        for one in prepared {
            black_box(one.commit().unwrap());
        }
    })
}

/// Copies to each site's place in a view, and serializes each time.
fn copies(view: &Copied, sites: &[Site], number: usize) -> Duration {
    let places: Vec<u64> = sites.iter().map(|site| view.place(site.addr())).collect();
    time(|| limits::each(view, &places, &[number as u8; RESERVED]))
}

fn patches(sites: usize, size: usize, live: bool, bare: impl Fn(&[Site], usize) -> Duration) -> [Figure; 2] {
    let engine = subject::engine();
    let modules = hundreds(&engine, sites.div_ceil(HUNDRED), live);
    let sites: Vec<Site> = modules.iter().flat_map(subject::reads).take(sites).collect();
    let effort = Effort {
        batches: 101,
        operations: sites.len(),
    };
    let (mut turn, mut number) = (0, 0);
    let mut ours = || {
        turn += 1;
        let took = commit_all(transactions(&engine, &sites, size, turn, false));
        if live {
            // SAFETY: no thread executes them.
            engine.reclaim(&unsafe { GracePeriod::promise() }).unwrap();
        }
        took
    };
    let mut theirs = || {
        number += 1;
        bare(&sites, number)
    };
    interleave(effort, [&mut ours, &mut theirs])
}

fn back_to_back() -> Row {
    let view = Copied::new(10);
    let figures = patches(32, 1, false, |sites, number| copies(&view, sites, number));
    Row::against(
        "Alias: commits of prepared single sites, one after another",
        figures,
        BARE,
        Some(3.0),
    )
}

fn batch(size: usize, what: &'static str, goal: Option<f64>) -> Row {
    let view = Copied::new(10);
    let figures = patches(1000, size, false, |sites, number| copies(&view, sites, number));
    Row::against(what, figures, BARE, goal)
}

fn eventual() -> Row {
    let view = pages::writable_view_of_code(PAGE);
    let figures = patches(32, 1, true, |sites, _| time(|| limits::stores(view, sites.len())));
    Row::against(
        "live: commits of prepared single sites, Eventual",
        figures,
        "bare aligned store of 8 bytes to the view, serialize",
        Some(3.0),
    )
}

fn settling() -> Row {
    let (ours, bare) = settling_figures();
    Row::against(
        "live: settling 1000 sites after their grace period, per site",
        [ours, bare],
        "two bare aligned stores, each with serialize; one bare membarrier for all",
        Some(1.0),
    )
}

/// Sites that were patched and whose grace period has passed, all of them in one call; and the bare
/// stores and the barrier.
pub(crate) fn settling_figures() -> (Figure, Figure) {
    const SITES: usize = 1000;
    let engine = subject::engine();
    let modules = hundreds(&engine, SITES / HUNDRED, true);
    let sites: Vec<Site> = modules.iter().flat_map(subject::reads).collect();
    let thread = engine.attach_thread();
    // SAFETY: no thread executes them but this one, which is outside of all code.
    let attached = unsafe { Attached::promise() };
    let (view, publisher) = (pages::writable_view_of_code(3 * PAGE), Publisher::new());
    let effort = Effort {
        batches: 101,
        operations: SITES,
    };
    let mut turn = 0;
    let mut ours = || {
        turn += 1;
        commit_all(transactions(&engine, &sites, SITES, turn, false));
        assert_eq!(engine.settle(&attached).unwrap().waiting, SITES);
        thread.checkpoint();
        engine.reclaim_passed(&attached).unwrap();
        time(|| assert_eq!(black_box(engine.settle(&attached)).unwrap().settled, SITES))
    };
    let mut bare = || {
        time(|| {
            for at in 0..SITES as u64 {
                for value in [at, 2 * at] {
                    // SAFETY: in the view, aligned.
                    unsafe { pages::store(view + 8 * at, black_box(value)) };
                    serialize();
                }
            }
            publisher.serialize(Level::Immediate).unwrap();
        })
    };
    let [ours, bare] = interleave(effort, [&mut ours, &mut bare]);
    (ours, bare)
}

/// An object for either sequence, whose result is the same.
#[repr(C)]
struct Wide {
    object: Object,
    again: u64,
}

/// Live sites that another thread executes without pause: it comes to rest after each round, and
/// what the commits have retired is freed when it has.
fn executed() -> Row {
    let engine = Engine::builder()
        .world(NeverStopped)
        .exits(ExitStubs::new().on_miss(|frame| frame.resume()))
        .build()
        .unwrap();
    let module = hundreds(&engine, 1, true).remove(0);
    let sites: Vec<Site> = subject::reads(&module).into_iter().take(32).collect();
    engine.patch(subject::READ, &subject::hit(8)).unwrap();
    module.release();
    let entry = module.function("hundred").unwrap().entry().unwrap();
    // SAFETY: the C function that its source says, mapped as long as the engine.
    let function: extern "C" fn(*const Wide) -> u64 = unsafe { std::mem::transmute(entry.get() as usize) };
    let (stop, calls) = (AtomicBool::new(false), AtomicU64::new(0));
    let effort = Effort {
        batches: 101,
        operations: sites.len(),
    };
    let [ours] = std::thread::scope(|scope| {
        scope.spawn(|| {
            let handle = engine.attach_thread();
            let object = Object {
                shape: u64::from(subject::SHAPE),
                property: 3,
            };
            let wide = Wide { object, again: 3 };
            while !stop.load(Ordering::Relaxed) {
                assert_eq!(function(black_box(&wide)), 300);
                handle.quiescent();
                calls.fetch_add(1, Ordering::Relaxed);
            }
        });
        while calls.load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
        // SAFETY: the thread above is attached, and reports outside of compiled code.
        let attached = unsafe { Attached::promise() };
        let mut turn = 0;
        let figures = interleave(
            effort,
            [&mut || {
                turn += 1;
                let took = commit_all(transactions(&engine, &sites, 1, turn, false));
                engine.reclaim_passed(&attached).unwrap();
                took
            }],
        );
        stop.store(true, Ordering::Relaxed);
        figures
    });
    assert!(calls.into_inner() > 1);
    Row {
        what: "live: the same, Eventual, of sites that the other thread executes",
        ours,
        bare: None,
        beside: true,
    }
}

/// Invalidating live sites, which is for good: each time in code of its own.
fn immediate() -> Vec<Row> {
    let publisher = Publisher::new();
    let one = |count: usize| {
        let engine = subject::engine();
        let effort = Effort {
            batches: 41,
            operations: 1,
        };
        let mut ours = || {
            let module = hundreds(&engine, 1, true).remove(0);
            let sites: Vec<Site> = module.sites().take(count).collect();
            let mut transaction = engine.transaction();
            for site in &sites {
                transaction.invalidate_site(site).unwrap();
            }
            let prepared = transaction.prepare().unwrap();
            let took = time(|| _ = black_box(prepared.commit().unwrap()));
            // SAFETY: no thread executes it.
            engine
                .unregister(module, &unsafe { GracePeriod::promise() })
                .unwrap();
            took
        };
        let mut bare = || time(|| publisher.serialize(Level::Immediate).unwrap());
        interleave(effort, [&mut ours, &mut bare])
    };
    let bare = "serialize and one bare membarrier";
    vec![
        Row::against(
            "live: commit of 1 invalidated site, Immediate",
            one(1),
            bare,
            None,
        ),
        Row::against(
            "live: commit of 100 invalidated sites, Immediate",
            one(HUNDRED),
            bare,
            None,
        ),
    ]
}

/// Sites of five bytes that cross a cache line, which are changed behind a trap: whole patches, each
/// with its assembly and its stub, and commits of prepared ones, so that threads execute the new
/// code when each returns, or for a bounded time the old.
fn behind_traps() -> [Row; 3] {
    let one = |immediate: bool, whole: bool| {
        let engine = subject::engine();
        let (_placed, module) = crossing(&engine);
        let sites: Vec<Site> = module.sites().collect();
        let (publisher, mut turn) = (Publisher::new(), 0);
        let effort = Effort {
            batches: 201,
            operations: sites.len(),
        };
        let mut ours = || {
            turn += 1;
            let sequence = Sequence::new().mov(result(), arg(0)).add(result(), turn);
            let prepare = |site: &Site| {
                let mut patch = engine.transaction();
                patch.patch_site(site, &sequence).unwrap();
                if immediate {
                    patch.immediate();
                }
                patch.prepare().unwrap()
            };
            let took = match whole {
                true => time(|| {
                    for site in &sites {
                        black_box(prepare(site).commit().unwrap());
                    }
                }),
                false => commit_all(sites.iter().map(prepare).collect()),
            };
            // SAFETY: no thread executes them.
            engine.reclaim(&unsafe { GracePeriod::promise() }).unwrap();
            took
        };
        let mut bare = || {
            time(|| {
                for _ in 0..sites.len() {
                    publisher.serialize(Level::Immediate).unwrap();
                }
            })
        };
        interleave(effort, [&mut ours, &mut bare])
    };
    let bare = "serialize and one bare membarrier";
    [
        Row::against(
            "live: commit of 1 site behind a trap, Eventual",
            one(false, false),
            bare,
            Some(3.5),
        ),
        Row::against(
            "live: commit of 1 site behind a trap, Immediate",
            one(true, false),
            bare,
            Some(3.5),
        ),
        Row::against(
            "live: a patch behind a trap, Eventual",
            one(false, true),
            bare,
            Some(3.5),
        ),
    ]
}

/// A function with 32 nops of five bytes, each across a cache line. It lives as long as what is
/// returned first.
fn crossing(engine: &Engine) -> (PlacedSegments, Module) {
    const NOP: [u8; 5] = [0x0f, 0x1f, 0x44, 0x00, 0x00];
    const LINE: u32 = 64;
    let at = |number: u32| LINE * number + LINE - 2;
    // mov rax, rdi
    let mut code = vec![0x48, 0x89, 0xf8];
    for number in 0..32 {
        code.resize(at(number) as usize, 0x90);
        code.extend(NOP);
    }
    code.push(0xc3);
    let need = SegmentNeed {
        kind: SegmentKind::Code,
        len: code.len() as u64,
        align: u64::from(LINE),
    };
    let mut placement = Arena::default().place(&[need], Reach::Anywhere).unwrap();
    let start = placement.segments()[0].range.start();
    placement.fill(start, &code).unwrap();
    let placed = placement.finalize().unwrap();
    let adoption = Adoption::without_stack_maps(Arch::X86_64);
    let adoption = adoption.function("f", start, Len::of(&code).unwrap());
    // SAFETY: the code is there as long as the engine is used, and nobody else writes to it.
    let adopted = unsafe { adoption.promise() }.unwrap();
    // SAFETY: the engine alone writes through it, what it has checked.
    let memory: Arc<dyn CodeMemory> = Arc::new(unsafe { placed.writable() });
    let code = engine.adopt_with(adopted, &memory).unwrap();
    let site = |number: u32| {
        SiteSpec::nops("f", at(number), 5)
            .id(u64::from(number))
            .arg(x86_64::RDI)
            .result(x86_64::RAX)
            .free_flags()
    };
    let registration = engine.registration(code).sites((0..32).map(site)).live();
    // SAFETY: what is told is true of the code.
    (placed, unsafe { registration.finish() }.unwrap())
}

/// A whole invalidation: exit stubs, checks and the write.
fn invalidation() -> Row {
    let engine = subject::engine();
    let effort = Effort {
        batches: 41,
        operations: 1,
    };
    let mut ours = || {
        let module = hundreds(&engine, 1, false).remove(0);
        let function = module.function("hundred").unwrap();
        let took = time(|| _ = black_box(engine.invalidate(&function).unwrap()));
        drop(function);
        // SAFETY: no thread executes it.
        engine
            .unregister(module, &unsafe { GracePeriod::promise() })
            .unwrap();
        took
    };
    let [ours] = interleave(effort, [&mut ours]);
    Row {
        what: "invalidate a function of 100 sites, exit stubs and checks included",
        ours,
        bare: None,
        beside: false,
    }
}
