//! Passes: what a runtime does to a graph on its way to memory, phase by phase.
//!
//! Built in are: [`Graph::prune`], when roots are named; [`Graph::build_tables`], always, unless it
//! is replaced; [`relax`](crate::relax), which is passed like a runtime's own; and the registration
//! of unwind information, which has to come after the bytes are in memory and go before that does,
//! so it is a memory manager around another one (`observe::Unwound`, with the feature `backtrace`).

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::error::Result;
use crate::graph::Graph;
use crate::layout::Layout;
use crate::phases::{Allocated, Fixed, Resolved};

type OnGraph<'p> = Box<dyn FnMut(&mut Graph<'_>) -> Result<()> + 'p>;
type OnLayout<'p> = Box<dyn FnMut(&mut Layout<'_>) -> Result<()> + 'p>;
type OnAllocated<'p> = Box<dyn FnMut(&mut Allocated<'_>) -> Result<()> + 'p>;
type OnResolved<'p> = Box<dyn FnMut(&mut Resolved<'_>) -> Result<()> + 'p>;
type OnFixed<'p> = Box<dyn FnMut(&mut Fixed<'_, '_>) -> Result<()> + 'p>;

/// Passes for each phase, run in the order in which they were added. One that fails ends the link.
#[derive(Default)]
pub struct Passes<'p> {
    roots: Option<Vec<String>>,
    before_pruning: Vec<OnGraph<'p>>,
    tables: Option<OnGraph<'p>>,
    after_pruning: Vec<OnGraph<'p>>,
    before_allocation: Vec<OnLayout<'p>>,
    after_allocation: Vec<OnAllocated<'p>>,
    before_fix_ups: Vec<OnResolved<'p>>,
    after_fix_ups: Vec<OnFixed<'p>>,
}

impl<'p> Passes<'p> {
    /// Only the built-in one that adds the global offset table and the stubs: everything is kept
    /// and linked as it is.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes out what these symbols do not refer to ([`Graph::prune`]).
    #[must_use]
    pub fn prune<N: Into<String>>(mut self, roots: impl IntoIterator<Item = N>) -> Self {
        self.roots
            .get_or_insert_default()
            .extend(roots.into_iter().map(Into::into));
        self
    }

    /// Runs when all objects are there.
    #[must_use]
    pub fn before_pruning(mut self, pass: impl FnMut(&mut Graph<'_>) -> Result<()> + 'p) -> Self {
        self.before_pruning.push(Box::new(pass));
        self
    }

    /// Runs in place of [`Graph::build_tables`], when nothing is taken out any more: whoever wants
    /// the global offset table or the stubs otherwise gives symbols entries and stubs of their own
    /// ([`Graph::set_got_entry`], [`Graph::set_stub`]). Symbols that have none afterwards but need
    /// one get it from the built-in pass.
    #[must_use]
    pub fn build_tables_with(mut self, pass: impl FnMut(&mut Graph<'_>) -> Result<()> + 'p) -> Self {
        self.tables = Some(Box::new(pass));
        self
    }

    /// Runs when nothing is taken out any more, and the global offset table and the stubs are
    /// there; what it adds is kept.
    #[must_use]
    pub fn after_pruning(mut self, pass: impl FnMut(&mut Graph<'_>) -> Result<()> + 'p) -> Self {
        self.after_pruning.push(Box::new(pass));
        self
    }

    /// Runs when the sections have places in segments, which have no addresses yet:
    /// [`Layout::place_at`].
    #[must_use]
    pub fn before_allocation(mut self, pass: impl FnMut(&mut Layout<'_>) -> Result<()> + 'p) -> Self {
        self.before_allocation.push(Box::new(pass));
        self
    }

    /// Runs when the sections have addresses, before symbols outside are looked up.
    #[must_use]
    pub fn after_allocation(mut self, pass: impl FnMut(&mut Allocated<'_>) -> Result<()> + 'p) -> Self {
        self.after_allocation.push(Box::new(pass));
        self
    }

    /// Runs when all symbols have addresses.
    #[must_use]
    pub fn before_fix_ups(mut self, pass: impl FnMut(&mut Resolved<'_>) -> Result<()> + 'p) -> Self {
        self.before_fix_ups.push(Box::new(pass));
        self
    }

    /// Runs when all bytes are relocated, before they are written to memory.
    #[must_use]
    pub fn after_fix_ups(mut self, pass: impl FnMut(&mut Fixed<'_, '_>) -> Result<()> + 'p) -> Self {
        self.after_fix_ups.push(Box::new(pass));
        self
    }

    /// Prunes if that was asked for, and builds the tables, with the passes around that.
    pub(crate) fn on_graph(&mut self, graph: &mut Graph<'_>) -> Result<()> {
        self.before_pruning.iter_mut().try_for_each(|pass| pass(graph))?;
        if let Some(roots) = &self.roots {
            graph.prune(roots.iter().map(String::as_str))?;
        }
        match &mut self.tables {
            Some(pass) => pass(graph)?,
            None => graph.build_tables()?,
        }
        self.after_pruning.iter_mut().try_for_each(|pass| pass(graph))
    }

    pub(crate) fn on_layout(&mut self, layout: &mut Layout<'_>) -> Result<()> {
        self.before_allocation
            .iter_mut()
            .try_for_each(|pass| pass(layout))
    }

    pub(crate) fn on_allocated(&mut self, allocated: &mut Allocated<'_>) -> Result<()> {
        self.after_allocation
            .iter_mut()
            .try_for_each(|pass| pass(allocated))
    }

    pub(crate) fn on_resolved(&mut self, resolved: &mut Resolved<'_>) -> Result<()> {
        self.before_fix_ups.iter_mut().try_for_each(|pass| pass(resolved))
    }

    pub(crate) fn on_fixed(&mut self, fixed: &mut Fixed<'_, '_>) -> Result<()> {
        self.after_fix_ups.iter_mut().try_for_each(|pass| pass(fixed))
    }
}

impl fmt::Debug for Passes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Passes")
            .field("roots", &self.roots)
            .field("before_pruning", &self.before_pruning.len())
            .field("tables", &self.tables.is_some())
            .field("after_pruning", &self.after_pruning.len())
            .field("before_allocation", &self.before_allocation.len())
            .field("after_allocation", &self.after_allocation.len())
            .field("before_fix_ups", &self.before_fix_ups.len())
            .field("after_fix_ups", &self.after_fix_ups.len())
            .finish()
    }
}
