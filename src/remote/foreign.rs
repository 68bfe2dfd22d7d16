//! Engines for code of a process that knows nothing of this library: see [`memory::foreign`](crate::memory::foreign).

use std::sync::Arc;

use crate::addr::CodeAddr;
use crate::engine::elsewhere::Elsewhere;
use crate::engine::{Code, Engine};
use crate::error::{Error, Result};
use crate::image::AdoptedCode;
use crate::memory::foreign::Process;

impl Process {
    /// An engine for code of this process, which is [adopted](Self::adopt).
    ///
    /// # Errors
    /// As [`Builder::build`](crate::engine::Builder::build).
    pub fn engine(&self) -> Result<Engine> {
        let elsewhere = Elsewhere {
            arena: self.arena(),
            publisher: self.publisher(),
            // There are no ramps to call one.
            capture: CodeAddr::new(0),
            engines: Arc::default(),
            world: self.world(),
        };
        Engine::builder().executed_by(elsewhere).build()
    }

    /// Takes over code of the process, for an [engine](Self::engine) of it. The addresses in the code's description are
    /// those of the process, and the promise about it is about that process.
    ///
    /// # Errors
    /// [`Error::ForeignRange`]: the code is not mapped there, can be written or not be executed, or is shared with other
    /// processes; [`Error::ForeignEngine`] for an engine of something else; as [`Engine::adopt_with`].
    pub fn adopt(&self, engine: &Engine, code: AdoptedCode) -> Result<Code> {
        // protection: foreign-engines-stop-its-threads
        if !self.has(engine.arena()) {
            return Err(Error::ForeignEngine { process: self.id() });
        }
        let memory = self.code(&code.image().code)?;
        engine.adopt_with(code, &memory)
    }
}
