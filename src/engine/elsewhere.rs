//! Engines whose code another process executes.

use std::sync::Arc;

use parking_lot::Mutex;

use super::{Builder, Engine, ExitElsewhere, WeakEngine};
use crate::addr::CodeAddr;
use crate::error::Result;
use crate::memory::Arena;
use crate::publish::{Publisher, World};

/// What an engine has of the process that executes its code.
pub(crate) struct Elsewhere {
    pub(crate) arena: Arena,
    pub(crate) publisher: Publisher,
    /// The routine that ramps call there.
    pub(crate) capture: CodeAddr,
    /// Where the engine is found when a thread there leaves its code.
    pub(crate) engines: Arc<Engines>,
    /// What stops the threads of that process, if nothing else is said.
    pub(crate) world: Box<dyn World>,
}

/// The engines whose code a process executes.
#[derive(Debug, Default)]
pub(crate) struct Engines(Mutex<Vec<WeakEngine>>);

impl Engines {
    pub(super) fn add(&self, engine: &Engine) {
        let mut engines = self.0.lock();
        engines.retain(|engine| engine.upgrade().is_some());
        engines.push(engine.downgrade());
    }

    /// Lets the engine whose ramp it was decide how the thread goes on; `None` if it was nobody's.
    pub(crate) fn exit(&self, exit: &ExitElsewhere) -> Result<Option<u64>> {
        // The handler may change code, and must not find anything locked.
        let engines: Vec<WeakEngine> = self.0.lock().clone();
        for engine in engines.iter().filter_map(WeakEngine::upgrade) {
            let exits = engine.shared.exits.as_ref();
            if let Some(word) = exits.map_or(Ok(None), |exits| exits.exit(exit))? {
                return Ok(Some(word));
            }
        }
        Ok(None)
    }
}

impl Engine {
    /// Its own memory, which tells who executes its code.
    pub(crate) fn arena(&self) -> &Arena {
        &self.shared.arena
    }
}

impl Builder {
    /// Another process executes the code.
    pub(crate) fn executed_by(mut self, elsewhere: Elsewhere) -> Self {
        self.elsewhere = Some(elsewhere);
        self
    }
}
