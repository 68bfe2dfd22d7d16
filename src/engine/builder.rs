//! Describing an engine.

use std::sync::atomic::AtomicU32;
use std::sync::{Arc, LazyLock, Weak};

use parking_lot::Mutex;

use super::lock::Contention;
use super::mirroring::Mirroring;
use super::observe::Observers;
use super::state::States;
use super::{Engine, Exits, Observer, Shared, journal, prepare};
use crate::arch::Arch;
use crate::memory::fork::Birth;
use crate::memory::fork::gate::Writing;
use crate::memory::{Arena, SharedCounters, StubPool};
use crate::publish::{Epochs, Keyed, Publisher, World};
use crate::site::{Owner, SiteTable};
use crate::{Error, Result, verify};
use patchpoint_asm::backend_of;

/// Describes an engine, and makes it.
#[derive(Default)]
pub struct EngineBuilder {
    pub(super) world: Option<Box<dyn World>>,
    pub(super) exits: Option<Box<dyn Exits>>,
    pub(super) arena: Option<Arena>,
    journal: Option<usize>,
    image_limit: Option<u64>,
    observers: Observers,
    pub(super) mirroring: Option<Mirroring>,
}

impl EngineBuilder {
    /// How the runtime's threads are stopped while sites are written. Required.
    #[must_use]
    pub fn world(mut self, world: impl World + 'static) -> Self {
        self.world = Some(Box::new(world));
        self
    }

    /// Who makes the exit stubs by which compiled code reaches the runtime, such as
    /// `deopt::ExitStubs`. Without, no sequence can have the targets `Miss` and `Deopt`, and
    /// nothing can be invalidated.
    #[must_use]
    pub fn exits(mut self, exits: impl Exits + 'static) -> Self {
        self.exits = Some(Box::new(exits));
        self
    }

    /// The memory for loaded code, stubs and exit stubs, where the default chunks of 2 MiB do not
    /// fit.
    #[must_use]
    pub fn arena(mut self, arena: Arena) -> Self {
        self.arena = Some(arena);
        self
    }

    /// How many bytes an image that is loaded may have, where 256 MiB do not suit; at most 1 GiB.
    /// What needs more is refused with [`ImageTooLarge`](crate::image::Error::ImageTooLarge).
    /// Without this, each graph has [its own limit](crate::image::Graph::set_size_limit).
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
    /// [`Error::NoWorld`] without a world, where the code is not [mirrored](Self::mirrored); [`Error::NoHost`] where this
    /// machine is none that code can run on; [`publish::Error::NoBarrier`](crate::publish::Error::NoBarrier) if the world's threads cannot be made to see changed code.
    /// Where it is mirrored: [`memory::Error::NotMirrored`](crate::memory::Error::NotMirrored) for a world or for exits that know only threads of this process.
    pub fn build(mut self) -> Result<Engine> {
        let mirrored = self.mirroring.take().map(|mirroring| self.prepare_for(mirroring));
        let mirrored = mirrored.transpose()?;
        let world = self.world.ok_or(Error::NoWorld)?;
        let arch = Arch::host().ok_or(Error::NoHost {
            host: std::env::consts::ARCH,
        })?;
        let birth = Birth::here();
        {
            // What is made once in a process. No fork comes in between: its child would wait for ever for who is at
            // it. Only one that had begun before there was any engine, or memory for one, is not waited for.
            // protection: the-decoder-is-ready-before-the-first-engine
            let _writing = Writing::enter();
            verify::prepare_decoder(arch);
            LazyLock::force(&prepare::EXIT);
            // protection: exit-stubs-are-ready-before-the-first-engine
            if let Some(exits) = &self.exits {
                exits.prepare();
            }
        }
        let is_mirrored = mirrored.is_some();
        let (publisher, built) = match mirrored {
            Some(mirrored) => (mirrored.publisher, mirrored.built),
            None => (Publisher::new(), None),
        };
        let level = Publisher::level_for(world.resumption());
        publisher.check(level)?;
        let stops_anywhere = world.stops_anywhere();
        // Less the length of a site and its stub.
        let within = backend_of(arch).reach().min(1 << 31) - (1 << 16);
        // Jumps from all of one chunk's code should reach another next to it.
        let arena = self
            .arena
            .unwrap_or_else(|| Arena::new((2 << 20).min(within / 4)));
        let (table, table_key) = Keyed::new(SiteTable::default());
        let journal = self.journal.unwrap_or(journal::CAPACITY);
        let shared = Arc::new_cyclic(|shared: &Weak<Shared>| Shared {
            owner: Owner::new(Weak::clone(shared)),
            arch,
            birth,
            world,
            level,
            stops_anywhere,
            publisher,
            is_mirrored,
            counters: SharedCounters::default(),
            exits: self.exits,
            observers: self.observers,
            table,
            states: Mutex::new(States::new(journal, table_key)),
            contention: Contention::default(),
            #[cfg(test)]
            when_ahead: Mutex::default(),
            epochs: Epochs::default(),
            stubs: StubPool::new(arena.clone(), within),
            arena,
            image_limit: self.image_limit,
            next_module: AtomicU32::new(0),
        });
        let engine = Engine { shared };
        if let Some(built) = built {
            built(&engine);
        }
        Ok(engine)
    }
}
