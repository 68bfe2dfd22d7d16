//! Code of another process beside code of this one: what a change and a call take, in one run.

use std::process::Command;
use std::time::Duration;

use patchpoint::Engine;
use patchpoint::addr::CodeAddr;
use patchpoint::deopt::ExitStubs;
use patchpoint::engine::EngineBuilder;
use patchpoint::publish::{SingleThreaded, Stopped, Vacated, World};
use patchpoint::site::{Module, Site};
use patchpoint_remote::{Executor, Service, Thread};

use crate::measure::{Effort, interleave, time};
use crate::report::Row;
use crate::subject::{self, SHAPE};

const EFFORT: Effort = Effort {
    batches: 201,
    operations: 64,
};

/// A transaction of a batch is a thousand times one patch.
const BATCHES: Effort = Effort {
    batches: 201,
    operations: 8,
};
const BATCH: usize = 64;

/// What makes this program the executor.
pub const AS_EXECUTOR: &str = "executor";

/// Is the executor.
///
/// # Errors
/// Those of the service.
pub fn execute() -> Result<(), patchpoint_remote::Error> {
    // SAFETY: the controller is the process that has started this one.
    unsafe { Service::new().run_stdin() }
}

/// The example's module, by an engine of its own.
struct Side {
    engine: Engine,
    module: Module,
    site: Site,
}

/// A world whose threads promise nothing: every change makes them serialize.
#[derive(Debug)]
struct Unknown;

// SAFETY: code is executed by one thread at a time, and the work is done once.
unsafe impl World for Unknown {
    fn while_stopped(
        &self,
        _: &[Vacated],
        work: &mut dyn FnMut(&Stopped),
    ) -> patchpoint::publish::Result<()> {
        // SAFETY: as above.
        work(&unsafe { Stopped::promise() });
        Ok(())
    }
}

impl Side {
    fn new(builder: EngineBuilder, live: bool) -> Self {
        // SAFETY: code is executed by one thread at a time.
        let world = unsafe { SingleThreaded::promise() };
        Self::in_world(builder.world(world), live)
    }

    fn in_world(builder: EngineBuilder, live: bool) -> Self {
        let exit_stubs = ExitStubs::new()
            .on_miss(|frame| {
                frame.set_result(0).unwrap();
                frame.resume()
            })
            .on_deopt(|frame| frame.resume());
        let engine = builder.exits(exit_stubs).build().unwrap();
        let code = subject::load(&engine, subject::INLINE_CACHE);
        let registration = engine.registration(code);
        let registration = if live { registration.live() } else { registration };
        // SAFETY: what is told is true of the object's code, or refused.
        let module = unsafe { registration.register(subject::shape) }.unwrap();
        let site = subject::reads(&module).remove(0);
        Self { engine, module, site }
    }

    fn patches(&self) -> Duration {
        time(|| {
            for number in 0..EFFORT.operations {
                let hit = subject::hit(8 * (1 + (number & 1) as i32));
                self.engine.patch_site(&self.site, &hit).unwrap();
            }
        })
    }

    /// All sites of a batch in one transaction each.
    fn batches(&self, others: &[Site]) -> Duration {
        time(|| {
            for number in 0..BATCHES.operations {
                let hit = subject::hit(8 * (1 + (number & 1) as i32));
                let sites = others.iter().chain([&self.site]);
                let mut transaction = self.engine.transaction();
                for site in sites {
                    transaction.patch_site(site, &hit).unwrap();
                }
                transaction.commit().unwrap();
            }
        })
    }

    /// The same code so many more times.
    fn more(&self, count: usize) -> Vec<Site> {
        let more = |_| {
            let code = subject::load(&self.engine, subject::INLINE_CACHE);
            // SAFETY: what is told is true of the object's code, or refused.
            let module = unsafe { self.engine.registration(code).register(subject::shape) }.unwrap();
            subject::reads(&module).remove(0)
        };
        (0..count).map(more).collect()
    }

    fn get(&self) -> CodeAddr {
        self.module.release();
        self.module.function("get").unwrap().entry().unwrap()
    }
}

/// All of them.
pub fn all() -> Vec<Row> {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["remote", AS_EXECUTOR]);
    let executor = Executor::spawn(command).unwrap();
    let mut thread = executor.thread(256 << 10).unwrap();
    let there = Side::new(executor.engine(), false);
    let here = Side::new(Engine::builder(), false);
    let live_there = Side::new(executor.engine(), true);
    let live_here = Side::new(Engine::builder(), true);
    let quiescent = interleave(EFFORT, [&mut || there.patches(), &mut || here.patches()]);
    let live = interleave(
        EFFORT,
        [&mut || live_there.patches(), &mut || live_here.patches()],
    );
    let immediate_there = Side::in_world(executor.engine().world(Unknown), false);
    let immediate_here = Side::in_world(Engine::builder().world(Unknown), false);
    let immediate = interleave(
        EFFORT,
        [&mut || immediate_there.patches(), &mut || {
            immediate_here.patches()
        }],
    );
    let [batch_there, batch_here] = [&immediate_there, &immediate_here].map(|side| side.more(BATCH - 1));
    let batch = interleave(
        BATCHES,
        [&mut || immediate_there.batches(&batch_there), &mut || {
            immediate_here.batches(&batch_here)
        }],
    );
    let data = executor.share(4096).unwrap();
    let shapes = [u64::from(SHAPE), u64::from(SHAPE) + 1];
    let objects = shapes.map(|shape| object(&data, shape));
    let [hits, misses] = objects.map(|object| calls(&mut thread, &there, &here, object));
    vec![
        Row::against(
            "patch_site, quiescent, Eventual, in another process",
            quiescent,
            "in this process",
            None,
        ),
        Row::against(
            "patch_site, live, Eventual, in another process",
            live,
            "in this process",
            None,
        ),
        Row::against(
            "patch_site, quiescent, Immediate, in another process",
            immediate,
            "in this process",
            None,
        ),
        Row::against(
            "64 sites in one transaction, Immediate, in another process",
            batch,
            "in this process",
            None,
        ),
        Row::against(
            "a call that hits, in another process",
            hits,
            "in this process",
            None,
        ),
        Row::against(
            "a call that misses, in another process",
            misses,
            "in this process",
            None,
        ),
    ]
}

/// An object that both processes see; the first is followed by the second.
fn object(data: &patchpoint::memory::PlacedSegments, shape: u64) -> u64 {
    let at = data.segments()[0].range.start().get() + 64 * (shape - u64::from(SHAPE));
    for (word, value) in [shape, 11, 22].into_iter().enumerate() {
        // SAFETY: within the data, which only this function writes.
        unsafe { (at as *mut u64).add(word).write_volatile(value) };
    }
    at
}

fn calls(thread: &mut Thread, there: &Side, here: &Side, object: u64) -> [crate::measure::Figure; 2] {
    for side in [there, here] {
        side.engine.patch_site(&side.site, &subject::hit(8)).unwrap();
    }
    let (get, get_here) = (there.get(), here.get());
    // SAFETY: its signature in the IR; the module stays.
    let call: extern "C" fn(u64) -> u64 = unsafe { std::mem::transmute(get_here.get() as usize) };
    interleave(
        EFFORT,
        [
            &mut || {
                time(|| {
                    for _ in 0..EFFORT.operations {
                        std::hint::black_box(thread.call(get, &[object]).unwrap());
                    }
                })
            },
            &mut || {
                time(|| {
                    for _ in 0..EFFORT.operations {
                        std::hint::black_box(call(std::hint::black_box(object)));
                    }
                })
            },
        ],
    )
}
