//! A link from a graph to memory that others manage, with symbols that others know.
//!
//! Problem: memory may be in another process, and a symbol in code that is still being compiled; a
//! runtime with many links under way cannot keep a thread for each. Approach: a link is a future
//! that waits for memory and for lookups; the runtime polls it, with whatever executor it has.
//! Where neither has to be waited for, [`at_once`] is enough.
//!
//! Invariant: memory that was allocated is either finalized or abandoned, also when a pass fails or
//! the future is dropped.

use alloc::string::String;
use alloc::vec::Vec;
use core::future::{Future, ready};
use core::pin::pin;
use core::task::{Context, Poll, Waker};

use llvm_stackmaps::addr::CodeAddr;

use crate::error::Error;
use crate::fixups::LinkedImage;
use crate::graph::Graph;
use crate::layout::{ImageReach, SegmentAddrs, SegmentRequest};
use crate::passes::Passes;
use crate::phases::Fixed;

/// Who has the memory for what is linked.
pub trait MemoryManager {
    /// Segments that have addresses, but nothing in them.
    type Memory;
    /// Segments that are complete and protected.
    type Finalized;
    /// Why there is no memory, or it cannot be written; the link's own refusals become that, too.
    type Error: From<Error>;

    /// Finds room for the segments, all of them within 2 GiB; those of size 0 need none. No two may
    /// share a page.
    fn allocate(
        &self,
        segments: &[SegmentRequest; 3],
        reach: ImageReach,
    ) -> impl Future<Output = Result<(Self::Memory, SegmentAddrs), Self::Error>>;

    /// Writes the image's segments and gives each its protection. A segment may have fewer bytes
    /// than its size: the rest is zero, as new memory is, and need not be written. What fails gives
    /// the room back.
    fn finalize(
        &self,
        memory: Self::Memory,
        image: &LinkedImage,
    ) -> impl Future<Output = Result<Self::Finalized, Self::Error>>;

    /// Frees the memory of a link that does not come to its end.
    fn abandon(&self, memory: Self::Memory);

    /// Frees memory that nobody executes or refers to any more.
    ///
    /// # Errors
    /// The memory could not be freed.
    fn deallocate(&self, finalized: Self::Finalized) -> Result<(), Self::Error>;
}

/// Who knows the symbols that a graph does not define. A function from names to addresses does.
pub trait SymbolLookup {
    /// Why they cannot be asked for.
    type Error;

    /// The address of each name, in their order; `None` for what is unknown, as is what the answer
    /// is too short for.
    fn lookup(&self, names: &[&str]) -> impl Future<Output = Result<Vec<Option<CodeAddr>>, Self::Error>>;
}

impl<F: Fn(&str) -> Option<CodeAddr>> SymbolLookup for F {
    type Error = Error;

    fn lookup(&self, names: &[&str]) -> impl Future<Output = Result<Vec<Option<CodeAddr>>, Error>> {
        ready(Ok(names.iter().map(|name| self(name)).collect()))
    }
}

/// A graph in memory.
#[derive(Debug)]
pub struct Linked<F> {
    /// What is known about it, and the bytes that were written.
    pub image: LinkedImage,
    /// What holds the memory.
    pub memory: F,
}

/// Links a graph into memory: allocates, looks up, relocates and writes, with passes in between.
///
/// # Errors
/// As [`Graph::layout`], [`Layout::link`](crate::Layout::link), and what passes, memory and lookup return.
pub async fn link<M: MemoryManager, L: SymbolLookup>(
    mut graph: Graph<'_>,
    passes: &mut Passes<'_>,
    memory: &M,
    lookup: &L,
) -> Result<Linked<M::Finalized>, M::Error>
where
    M::Error: From<L::Error>,
{
    passes.on_graph(&mut graph)?;
    let mut layout = graph.layout()?;
    passes.on_layout(&mut layout)?;
    let (held, addrs) = memory.allocate(layout.segments(), layout.reach()).await?;
    let held = MemoryGuard {
        manager: memory,
        memory: Some(held),
    };
    let mut allocated = layout.allocate(addrs)?;
    passes.on_allocated(&mut allocated)?;
    let mut answers = lookup.lookup(&allocated.wanted()).await?.into_iter();
    let mut resolved = allocated.resolve(|_| answers.next().flatten())?;
    passes.on_resolved(&mut resolved)?;
    let mut image = resolved.link()?;
    passes.on_fixed(&mut Fixed::new(&resolved, &mut image))?;
    let memory = held.finalize(&image).await?;
    Ok(Linked { image, memory })
}

/// Memory that is freed if it is not finalized.
struct MemoryGuard<'m, M: MemoryManager> {
    manager: &'m M,
    memory: Option<M::Memory>,
}

impl<M: MemoryManager> MemoryGuard<'_, M> {
    async fn finalize(mut self, image: &LinkedImage) -> Result<M::Finalized, M::Error> {
        match self.memory.take() {
            Some(memory) => self.manager.finalize(memory, image).await,
            // It is taken here only.
            None => Err(M::Error::from(Error::LinkUnfinished {
                waiting_for: String::from("its memory"),
            })),
        }
    }
}

impl<M: MemoryManager> Drop for MemoryGuard<'_, M> {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take() {
            // protection: memory-is-abandoned
            self.manager.abandon(memory);
        }
    }
}

/// The result of a link that has nothing to wait for.
///
/// # Errors
/// Those of the link; [`Error::LinkUnfinished`] if it had to wait after all, and was abandoned.
pub fn at_once<T, E: From<Error>>(link: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    match pin!(link).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => Err(E::from(Error::LinkUnfinished {
            waiting_for: String::from("memory or symbols"),
        })),
    }
}
