//! Describing an engine.

use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, RwLock};

use super::observe::Observers;
use super::state::States;
use super::{Engine, Exits, Observer, Shared, journal};
use crate::arch::Arch;
use crate::error::{Error, Result};
use crate::memory::fork::Birth;
use crate::memory::{Arena, SharedCounters, StubPool};
use crate::publish::{Epochs, Publisher, World};
use crate::site::{Owner, SiteTable};
use patchpoint_asm::backend_of;

/// Describes an engine, and makes it.
#[derive(Default)]
pub struct Builder {
    world: Option<Box<dyn World>>,
    exits: Option<Box<dyn Exits>>,
    arena: Option<Arena>,
    journal: Option<usize>,
    image_limit: Option<u64>,
    observers: Observers,
    #[cfg(all(feature = "remote", target_os = "linux"))]
    pub(super) elsewhere: Option<super::elsewhere::Elsewhere>,
}

impl Builder {
    /// How the runtime's threads are stopped while sites are written. Required.
    #[must_use]
    pub fn world(mut self, world: impl World + 'static) -> Self {
        self.world = Some(Box::new(world));
        self
    }

    /// Who makes the ramps by which compiled code reaches the runtime, such as `deopt::Ramps`. Without, no
    /// sequence can have the targets `Miss` and `Deopt`, and nothing can be invalidated.
    #[must_use]
    pub fn exits(mut self, exits: impl Exits + 'static) -> Self {
        self.exits = Some(Box::new(exits));
        self
    }

    /// The memory for loaded code, stubs and ramps, where the default chunks of 2 MiB do not fit.
    #[must_use]
    pub fn arena(mut self, arena: Arena) -> Self {
        self.arena = Some(arena);
        self
    }

    /// How many bytes an image that is loaded may have, where 256 MiB do not suit; at most 1 GiB. What needs more is refused with
    /// [`ImageTooLarge`](crate::image::Error::ImageTooLarge). Without this, each graph has [its own limit](crate::image::Graph::set_size_limit).
    #[must_use]
    pub fn image_limit(mut self, bytes: u64) -> Self {
        self.image_limit = Some(bytes);
        self
    }

    /// How many changes the [journal](Engine::journal) keeps, where 1024 do not suit; 0 for none.
    #[must_use]
    pub fn journal(mut self, capacity: usize) -> Self {
        self.journal = Some(capacity);
        self
    }

    /// Someone who is told what the engine does: see [`Event`](super::Event). There may be several.
    #[must_use]
    pub fn observer(mut self, observer: impl Observer + 'static) -> Self {
        self.observers.add(Box::new(observer));
        self
    }

    /// Makes the engine.
    ///
    /// # Errors
    /// [`Error::NoWorld`] without a world, where this process executes the code; [`Error::NoHost`] where this machine is none that code can run on;
    /// [`Error::NoBarrier`] if the world's threads cannot be made to see changed code. Where another process executes the
    /// code: [`Error::NotElsewhere`] for a world or for ramps that know only threads of this one.
    #[cfg_attr(
        not(feature = "remote"),
        allow(unused_mut, reason = "changed for another process")
    )]
    pub fn build(mut self) -> Result<Engine> {
        #[cfg(all(feature = "remote", target_os = "linux"))]
        let elsewhere = self.elsewhere.take().map(|elsewhere| self.prepare_for(elsewhere));
        #[cfg(all(feature = "remote", target_os = "linux"))]
        let elsewhere = elsewhere.transpose()?;
        let world = self.world.ok_or(Error::NoWorld)?;
        let arch = Arch::host().ok_or(Error::NoHost {
            host: std::env::consts::ARCH,
        })?;
        #[cfg(all(feature = "remote", target_os = "linux"))]
        let (publisher, is_elsewhere) = match &elsewhere {
            Some(elsewhere) => (elsewhere.publisher.clone(), true),
            None => (Publisher::new(), false),
        };
        #[cfg(not(all(feature = "remote", target_os = "linux")))]
        let (publisher, is_elsewhere) = (Publisher::new(), false);
        let level = Publisher::level_for(world.resumption());
        publisher.check(level)?;
        let stops_anywhere = world.stops_anywhere();
        // Less the length of a site and its stub.
        let within = backend_of(arch).reach().min(1 << 31) - (1 << 16);
        // Jumps from all of one chunk's code should reach another next to it.
        let arena = self
            .arena
            .unwrap_or_else(|| Arena::new((2 << 20).min(within / 4)));
        let shared = Arc::new_cyclic(|shared: &Weak<Shared>| Shared {
            owner: Owner::new(Weak::clone(shared)),
            arch,
            birth: Birth::here(),
            world,
            level,
            stops_anywhere,
            publisher,
            is_elsewhere,
            counters: SharedCounters::default(),
            exits: self.exits,
            observers: self.observers,
            table: RwLock::new(SiteTable::default()),
            states: Mutex::new(States::new(self.journal.unwrap_or(journal::CAPACITY))),
            epochs: Epochs::default(),
            stubs: StubPool::new(arena.clone(), within),
            arena,
            image_limit: self.image_limit,
            next_module: AtomicU32::new(0),
        });
        let engine = Engine { shared };
        #[cfg(all(feature = "remote", target_os = "linux"))]
        if let Some(elsewhere) = elsewhere {
            elsewhere.engines.add(&engine);
        }
        Ok(engine)
    }

    /// Takes what the other process has for what was not given, and refuses what does not work there.
    #[cfg(all(feature = "remote", target_os = "linux"))]
    fn prepare_for(&mut self, elsewhere: super::elsewhere::Elsewhere) -> Result<There> {
        // protection: remote-worlds-of-this-process-are-refused
        if self.world.as_ref().is_some_and(|world| world.stops_anywhere()) {
            return Err(Error::NotElsewhere {
                what: "a world that stops the threads of this process anywhere",
                mend: "give none, which stops those of the other process between messages; or use live modules",
            });
        }
        if let Some(exits) = &mut self.exits {
            exits.executed_elsewhere(elsewhere.capture)?;
        }
        self.arena = Some(elsewhere.arena);
        self.world.get_or_insert(elsewhere.world);
        Ok(There {
            publisher: elsewhere.publisher,
            engines: elsewhere.engines,
        })
    }
}

/// What of the other process is left to be used when the engine is built.
#[cfg(all(feature = "remote", target_os = "linux"))]
struct There {
    publisher: Publisher,
    engines: Arc<super::elsewhere::Engines>,
}
