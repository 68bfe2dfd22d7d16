//! The engines whose code a process executes.

use parking_lot::Mutex;
use patchpoint::Engine;
use patchpoint::engine::{SavedFrame, WeakEngine};

use crate::error::Result;

/// The engines whose code a process executes.
#[derive(Debug, Default)]
pub(crate) struct Engines(Mutex<Vec<WeakEngine>>);

impl Engines {
    pub(crate) fn add(&self, engine: &Engine) {
        let mut engines = self.0.lock();
        engines.retain(|engine| engine.upgrade().is_some());
        engines.push(engine.downgrade());
    }

    /// Whether it is one of them.
    pub(crate) fn has(&self, engine: &Engine) -> bool {
        self.0.lock().iter().any(|ours| ours.names(engine))
    }

    /// Lets the engine whose exit stub it was decide how the thread goes on; `None` if it was
    /// nobody's.
    pub(crate) fn handle_exit(&self, frame: &SavedFrame) -> Result<Option<u64>> {
        // The handler may change code, and must not find anything locked.
        let engines: Vec<WeakEngine> = self.0.lock().clone();
        for engine in engines.iter().filter_map(WeakEngine::upgrade) {
            if let Some(word) = engine.handle_exit(frame)? {
                return Ok(Some(word));
            }
        }
        Ok(None)
    }
}
