//! Engines whose code is executed in a mirror of their memory.

#![allow(unsafe_code, reason = "who executes the code is promised")]

use std::fmt;
use std::sync::Arc;

use super::{Engine, EngineBuilder, SavedFrame};
use crate::addr::CodeAddr;
use crate::memory::Arena;
use crate::publish::{Publication, Publisher, World};
use crate::{Error, Result};

/// What an engine needs to know of the place where its code is executed, if that is not this
/// process: see [`Mirror`](crate::memory::Mirror). Given to
/// [`EngineBuilder::mirrored`](super::EngineBuilder::mirrored).
///
/// ```
/// use std::sync::Arc;
///
/// use patchpoint::addr::{CodeAddr, CodeRange};
/// use patchpoint::engine::Mirroring;
/// use patchpoint::error::ProviderError;
/// use patchpoint::memory::{self, Arena, MemoryFile, Mirror, Reach, SegmentKind, SegmentNeed};
/// use patchpoint::publish::{self, Level, Publication, SingleThreaded};
/// use patchpoint::{Engine, Error};
///
/// /// A program that a tool has stopped: its code is adopted and written through the tool's own `CodeMemory`, and nothing is
/// /// mapped there.
/// #[derive(Debug)]
/// struct Tracee;
///
/// #[derive(Debug, thiserror::Error)]
/// #[error("nothing can be mapped in the program: patch in place")]
/// struct NoRoom;
///
/// // SAFETY: nothing is ever mapped.
/// unsafe impl Mirror for Tracee {
///     fn map_code(&self, _: CodeRange, _: MemoryFile) -> memory::Result<bool> {
///         Err(ProviderError::new(NoRoom).into())
///     }
///
///     fn map_data(&self, _: CodeRange, _: MemoryFile) -> memory::Result<bool> {
///         Err(ProviderError::new(NoRoom).into())
///     }
///
///     fn set_writable(&self, _: CodeRange, _: bool) -> memory::Result<()> {
///         Ok(())
///     }
///
///     fn unmap(&self, _: CodeRange) {}
/// }
///
/// // SAFETY: the program is stopped, and its threads serialize when they go on. There are no traps.
/// unsafe impl Publication for Tracee {
///     fn check(&self, _: Level) -> publish::Result<()> {
///         Ok(())
///     }
///
///     fn has_ended(&self) -> bool {
///         false
///     }
///
///     fn trap(&self, _: CodeAddr) -> Option<CodeAddr> {
///         None
///     }
///
///     fn set_trap(&self, _: CodeAddr, _: Option<CodeAddr>) -> publish::Result<()> {
///         Err(ProviderError::new(NoRoom).into())
///     }
///
///     fn maintain(&self, _: &[CodeRange]) -> publish::Result<()> {
///         Ok(())
///     }
///
///     fn publish(&self, _: &[CodeRange], _: Level) -> publish::Result<()> {
///         Ok(())
///     }
/// }
///
/// let arena = Arena::mirrored(Arc::new(Tracee), 1 << 20);
/// // SAFETY: the one thread that could execute the code is stopped.
/// let world = unsafe { SingleThreaded::promise() };
/// let mirroring = Mirroring::new(arena.clone(), Arc::new(Tracee), world);
/// // SAFETY: all of these are the same program's.
/// let engine = unsafe { Engine::builder().mirrored(mirroring) }.build()?;
/// # drop(engine);
///
/// let need = SegmentNeed { kind: SegmentKind::Code, len: 64, align: 16 };
/// let Err(memory::Error::Provider(why)) = arena.place(&[need], Reach::Anywhere) else { unreachable!() };
/// assert!(why.get::<NoRoom>().is_some());
/// # Ok::<(), Error>(())
/// ```
pub struct Mirroring {
    arena: Arena,
    publication: Arc<dyn Publication>,
    world: Box<dyn World>,
    capture: Option<CodeAddr>,
    built: Option<Box<Built>>,
}

type Built = dyn FnOnce(&Engine) + Send + Sync;

impl fmt::Debug for Mirroring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mirroring")
            .field("arena", &self.arena)
            .field("publication", &self.publication)
            .field("world", &self.world)
            .field("capture", &self.capture)
            .finish_non_exhaustive()
    }
}

impl Mirroring {
    /// The memory that is [mirrored](Arena::mirrored), who publishes what is written there, and
    /// what stops the threads there where the engine is given no world of its own.
    #[must_use]
    pub fn new(arena: Arena, publication: Arc<dyn Publication>, world: impl World + 'static) -> Self {
        Self {
            arena,
            publication,
            world: Box::new(world),
            capture: None,
            built: None,
        }
    }

    /// The routine there that saves registers, which exit stubs call: see
    /// [`deopt::Capture`](crate::deopt::Capture). Without one, an engine with exits is refused.
    #[must_use]
    pub fn capture(mut self, routine: CodeAddr) -> Self {
        self.capture = Some(routine);
        self
    }

    /// Called with the engine when it is built. Whoever serves the threads there keeps it,
    /// [weakly](Engine::downgrade), to ask it when one of them leaves by an exit stub
    /// ([`Engine::handle_exit`]).
    #[must_use]
    pub fn on_built(mut self, built: impl FnOnce(&Engine) + Send + Sync + 'static) -> Self {
        self.built = Some(Box::new(built));
        self
    }
}

/// What of a mirroring is left to be used when the engine is built.
pub(super) struct Mirrored {
    pub(super) publisher: Publisher,
    pub(super) built: Option<Box<Built>>,
}

impl EngineBuilder {
    /// Has the engine's code executed in a mirror of its memory, which replaces an
    /// [arena](Self::arena) that was given. If no [world](Self::world) is given, it is that of the
    /// mirror.
    ///
    /// # Safety
    /// The arena is a [mirrored](Arena::mirrored) one. The publication, the world and the routine are of the place of its
    /// mirror, where the code is executed, and nobody executes it in this process. The routine is that of a
    /// [`Capture`](crate::deopt::Capture) there, of the same version of this crate, which saves as many bytes of vector registers
    /// as the one of this process.
    #[must_use]
    pub unsafe fn mirrored(mut self, mirroring: Mirroring) -> Self {
        self.mirroring = Some(mirroring);
        self
    }

    /// Takes what the mirror has for what was not given, and refuses what does not work there.
    pub(super) fn prepare_for(&mut self, mirroring: Mirroring) -> Result<Mirrored> {
        // protection: mirrored-worlds-of-this-process-are-refused
        if self.world.as_ref().is_some_and(|world| world.stops_anywhere()) {
            return Err(Error::Memory(crate::memory::Error::NotMirrored {
                what: "a world that stops the threads of this process anywhere",
                mend: "give none, which stops those that execute the code; or use live modules",
            }));
        }
        if let Some(exits) = &mut self.exits {
            // protection: mirrored-exits-have-a-routine
            let capture = mirroring.capture.ok_or(crate::memory::Error::NotMirrored {
                what: "exits",
                mend: "give none, or the routine that saves registers there (Mirroring::capture)",
            })?;
            // SAFETY: what `mirrored` was promised.
            unsafe { exits.capture_by(capture) }?;
        }
        self.arena = Some(mirroring.arena);
        self.world.get_or_insert(mirroring.world);
        Ok(Mirrored {
            publisher: Publisher::by(mirroring.publication),
            built: mirroring.built,
        })
    }
}

impl Engine {
    /// Handles an exit that a thread has taken in a mirror: lets the handler of its exit stub
    /// decide, and returns the word that answers the routine there (see
    /// [`ForwardExit`](crate::deopt::ForwardExit)). `None` if the stub is none of this engine's.
    ///
    /// # Errors
    /// [`deopt::Error::SavedFrame`](crate::deopt::Error::SavedFrame): what was saved is not on the thread's stack.
    pub fn handle_exit(&self, frame: &SavedFrame) -> Result<Option<u64>> {
        let exits = self.shared.exits.as_ref();
        exits.map_or(Ok(None), |exits| exits.handle(frame))
    }
}
