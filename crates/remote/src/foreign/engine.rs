//! Engines for code of a process that knows nothing of this library.

use std::sync::Arc;

use patchpoint::Engine;
use patchpoint::engine::{LoadedCode, Mirroring};
use patchpoint::image::AdoptedCode;
use patchpoint::memory::{Arena, Mirror};
use patchpoint::publish::Publication;

use super::Process;
use super::world::ForeignWorld;
use crate::error::{Error, Result};

/// The arena has no room, whatever its chunks' length.
const CHUNK: u64 = 2 << 20;

impl Process {
    /// An engine for code of this process, which is [adopted](Self::adopt).
    ///
    /// # Errors
    /// As [`EngineBuilder::build`](patchpoint::engine::EngineBuilder::build).
    pub fn engine(&self) -> Result<Engine> {
        let mirror = Arc::clone(&self.0) as Arc<dyn Mirror>;
        let publication = Arc::clone(&self.0) as Arc<dyn Publication>;
        let (world, engines) = (ForeignWorld(Arc::clone(&self.0)), Arc::clone(&self.0.engines));
        // There are no exit stubs, so no routine that they would call.
        let mirroring = Mirroring::new(Arena::mirrored(mirror, CHUNK), publication, world)
            .on_built(move |engine| engines.add(engine));
        // SAFETY: all of it is of this process, whose code it is.
        let builder = unsafe { Engine::builder().mirrored(mirroring) };
        Ok(builder.build()?)
    }

    /// Takes over code of the process, for an [engine](Self::engine) of it. The addresses in the
    /// code's description are those of the process, and the promise about it is about that process.
    ///
    /// # Errors
    /// [`Error::ForeignRange`]: the code is not mapped there, can be written or not be executed, or is shared with other
    /// processes; [`Error::ForeignEngine`] for an engine of something else; as [`Engine::adopt_with`].
    pub fn adopt(&self, engine: &Engine, code: AdoptedCode) -> Result<LoadedCode> {
        // protection: foreign-engines-stop-its-threads
        if !self.0.engines.has(engine) {
            return Err(Error::ForeignEngine { process: self.id() });
        }
        let memory = self.code(&code.image().code)?;
        Ok(engine.adopt_with(code, &memory)?)
    }
}
